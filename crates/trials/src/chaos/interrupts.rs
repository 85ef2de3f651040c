//! System calls that must be repeated: non-blocking descriptors, small pipes, interruptions. None of it may
//! change the behaviour (L8, P6, T4).

use super::prelude::*;

pub(super) const KINDS: &[Kind] = &[
    // All pipes are non-blocking from the start, including the daemon's ends; stderr may also be full.
    ("retry-nonblocking", |t| {
        let is_full = t.random.once_in(2);
        let pipes = [pipe(true)?, pipe(false)?, pipe(false)?];
        for (theirs, _) in &pipes {
            rustix::io::ioctl_fionbio(theirs, true)?;
        }
        if is_full {
            t.tell("stderr is full");
            while rustix::io::write(&pipes[2].0, &[b'\n'; 512]).is_ok() {}
        }
        t.start_on(pipes.map(|(theirs, ours)| Channel::Both(theirs, ours)))?;
        let _unread = is_full.then(|| t.daemon().process.stderr.take());
        t.greet()?.traffic().end_either_way(Signal::INT)
    }),
    // A process that shares the descriptors keeps changing their flags, and restores them at the end.
    ("retry-flags-flip", |t| {
        let on = match t.random.below(3) {
            0 => PIPES,
            1 => [Channel::Socket, Channel::Socket, Channel::Socket],
            _ => {
                let (theirs, screen) = terminal()?;
                both_ways(&theirs, &screen)?
            }
        };
        t.start_on(on)?;
        for _ in 0..20 {
            let (which, is_set) = (t.random.below(3), t.random.once_in(2));
            rustix::io::ioctl_fionbio(&t.daemon().process.theirs[which].1, is_set)?;
            t.messages(2).pause();
        }
        t.settle();
        for which in 0..3 {
            rustix::io::ioctl_fionbio(&t.daemon().process.theirs[which].1, false)?;
        }
        t.end_by(Signal::TERM).finish(complete())
    }),
    // Pipes of one page, far larger messages, and a slow reader.
    ("retry-tiny-pipes", |t| {
        let pipes = [pipe(true)?, pipe(false)?, pipe(false)?];
        #[cfg(target_os = "linux")]
        for (theirs, _) in &pipes {
            rustix::pipe::fcntl_setpipe_size(theirs, 4096)?;
        }
        t.testbed().start_on(pipes.map(|(theirs, ours)| Channel::Both(theirs, ours)))?;
        for _ in 0..1 + t.random.below(10) {
            t.ask_big(0, 200_000).messages(2);
            let is_unread = t.random.once_in(2);
            t.leave_stdout(is_unread).pause().leave_stdout(false);
        }
        t.close_stdin().finish(complete())
    }),
    // Stopping and continuing a process interrupts the call that it waits in.
    ("retry-interrupted", |t| {
        let rounds = 20 + t.start()?.greet()?.random.below(100);
        t.tell(format_args!("{rounds} interruptions"));
        for _ in 0..rounds {
            t.messages(1);
            let signal =
                *t.random.pick(&[Signal::STOP, Signal::WINCH, Signal::CHILD, Signal::PIPE]);
            t.signal(signal).daemon().run_for(Duration::from_micros(200));
            t.signal(Signal::CONT);
        }
        t.settle().close_stdin().finish(complete())
    }),
];
