//! System calls that fail: `strace` injects the faults, one by one, at a call chosen by the seed. A call that
//! can be repeated is repeated, without any effect. Any other failure ends the daemon with exit code 1 and a
//! reason (L7, G1).

use std::os::fd::AsRawFd;

use super::listen;
use super::memory::WITHOUT_MEMORY;
use super::prelude::*;

pub(super) const KINDS: &[Kind] = &[
    // Every few calls that read, write or wait are interrupted.
    ("inject-interrupts", |t| {
        let when = format!("error=EINTR:when={}+{}", 1 + t.random.below(5), 2 + t.random.below(4));
        let ways = [(READS, Some(0)), (WRITES, Some(1)), (WRITES, Some(2)), (WAITS, None)];
        let (calls, which) = *t.random.pick(&ways);
        start(t, which, &format!("{calls}:{when}"))?;
        t.messages(12).settle().end_either_way(Signal::TERM)
    }),
    // A read finds nothing although data is there. The next bytes wake a process that polls.
    ("inject-again", |t| {
        let when = 1 + t.random.below(6);
        start(t, Some(0), &format!("{READS}:error=EAGAIN:when={when}"))?;
        (0..12).for_each(|_| _ = t.unwaited(1).pause());
        // Keep sending until all is answered: on a slow machine the fault may be yet to come.
        let begun = Instant::now();
        while begun.elapsed() < t.hang() {
            if t.daemon().pump(Duration::from_millis(30), |daemon| daemon.is_settled()) {
                break;
            }
            t.ask_many(1, "version");
        }
        t.settle().close_stdin().finish(complete())
    }),
    // stdin cannot be read any more.
    ("inject-stdin-fails", |t| {
        let error = *t.random.pick(&["EIO", "EBADF", "EINVAL", "EISDIR", "ENOMEM", "EFAULT"]);
        let fault = format!("{READS}:error={error}:when={}", 1 + t.random.below(3));
        start(t, Some(0), &fault)?;
        while !t.daemon().pump_to_end(Duration::from_millis(20)) {
            if t.daemon().link.ledger.last > 50 {
                // Each request takes at least one read, so the fault happened long ago.
                t.complain("it goes on though it cannot read");
                break;
            }
            t.ask_many(1, "version").mark();
        }
        t.finish(Ending::code(1))?;
        t.check_reason(true)
    }),
    // stdout cannot be written any more.
    ("inject-stdout-fails", |t| {
        let errors = ["EIO", "EPIPE", "ENOSPC", "EDQUOT", "EFBIG", "ENOMEM", "ECONNRESET"];
        let (error, place) = (*t.random.pick(&errors), 1 + t.random.below(4) as u64);
        // strace counts per thread, and two threads may write.
        start(t, Some(1), &format!("{WRITES}:error={error}:when={place}"))?;
        t.ask_until_it_ends().finish(Ending::code(1))?;
        let answers = t.daemon().link.ledger.counters.sum(Group::Answers);
        t.check(answers + 1 >= place, "an answer is lost that came before the failure");
        t.check_reason(true)
    }),
    // The log cannot be written, for a while or forever.
    ("inject-stderr-fails", |t| {
        let error = *t.random.pick(&["EIO", "EPIPE", "ENOSPC", "EBADF", "EINVAL"]);
        let when = *t.random.pick(&["1+", "1", "2+2", "2+"]);
        start(t.at_level("debug"), Some(2), &format!("{WRITES}:error={error}:when={when}"))?;
        t.messages(20).settle().end_either_way(Signal::HUP)
    }),
    // A resource is missing at the start: the daemon reports it and exits, or does without.
    ("inject-start-fails", |t| {
        const CALLS: [(&str, &[&str], usize); 12] = [
            ("clone3", &["EAGAIN", "ENOMEM"], 6),
            ("mmap", &["ENOMEM"], 40),
            ("openat", &["EMFILE", "ENFILE", "EACCES"], 8),
            ("?open", &["EMFILE", "ENFILE", "EACCES"], 3),
            ("socketpair", &["EMFILE", "ENFILE", "ENOMEM"], 3),
            ("epoll_create1", &["EMFILE", "ENFILE", "ENOMEM"], 2),
            ("eventfd2", &["EMFILE", "ENFILE", "ENOMEM"], 2),
            ("epoll_ctl", &["ENOMEM", "ENOSPC"], 4),
            ("fcntl", &["EMFILE", "EINVAL"], 16),
            ("?dup2,dup3", &["EMFILE", "EBUSY"], 3),
            ("mprotect", &["ENOMEM"], 20),
            ("sched_getaffinity", &["EPERM"], 6),
        ];
        let &(calls, errors, most) = t.random.pick(&CALLS);
        let error = *t.random.pick(errors);
        let fault = format!("{calls}:error={error}:when={}", 1 + t.random.below(most));
        t.excused.push("error while loading shared libraries");
        let mut ending = Ending::code(0).or(1).or(127);
        if error == "ENOMEM" && calls.starts_with('m') {
            // Before our own code runs, the loader and Rust need memory and report a lack in their own ways.
            ending = ending.or_by(&[Signal::ABORT, Signal::SEGV]);
            t.excused.extend(WITHOUT_MEMORY);
            t.may_say_nothing = true;
        }
        start(t, None, &fault)?;
        t.ask_many(5, "version").close_stdin().finish(ending)?;
        t.check_served_or_told()
    }),
    // No further thread can be started: slow handlers must do without.
    ("inject-threads-fail", |t| {
        // The log and the watchdog have a thread each.
        let fault = format!("clone3:error=EAGAIN:when={}+", 3 + t.random.below(3));
        start(t.testbed(), None, &fault)?;
        for _ in 0..20 {
            let method = *t.random.pick(&["test.block", "test.spin", "test.sleep", "test.nap"]);
            let ms = t.random.below(10);
            t.ask_slow(method, ms).messages(1);
        }
        t.close_stdin().finish(complete())
    }),
    // Some clients cannot be accepted.
    ("inject-accept-fails", |t| {
        const ERRORS: [&str; 8] =
            ["EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "ECONNABORTED", "EPROTO", "EPERM", "EINTR"];
        let error = *t.random.pick(&ERRORS);
        let (first, step) = (1 + t.random.below(3), 2 + t.random.below(3));
        // Without a free descriptor, the daemon refuses a client: it accepts the connection with its
        // reserved descriptor, and closes it. Every other call does that, so while about every third call
        // fails, all clients are refused. These errors therefore stop after a while.
        let last = match error {
            "EMFILE" | "ENFILE" => format!("..{}", first + 8),
            _ => String::new(),
        };
        serve_clients(t, &format!("accept4:error={error}:when={first}{last}+{step}"))?;
        t.finish(Ending::code(0))
    }),
    // Connections break during a call; other clients are served.
    ("inject-clients-fail", |t| {
        const ERRORS: [&str; 6] =
            ["ECONNRESET", "ETIMEDOUT", "EHOSTUNREACH", "EPIPE", "ENOBUFS", "EINTR"];
        let error = *t.random.pick(&ERRORS);
        let calls = *t.random.pick(&["recvfrom", "sendto", "sendto,recvfrom"]);
        let first = 4 + t.random.below(4);
        let last = first + t.random.below(8);
        serve_clients(t, &format!("{calls}:error={error}:when={first}..{last}"))?;
        // The thread that receives signals is woken by such a call too.
        while !t.daemon().pump_to_end(Duration::from_millis(50)) {
            if t.daemon().trigger.elapsed() > t.hang() {
                break;
            }
            t.signal(Signal::TERM);
        }
        t.finish(Ending::code(0))
    }),
];

const NO_STRACE: Skipped =
    Skipped { why: "strace is missing or may not trace", can_be_helped: true };
const READS: &str = "read,readv,recvfrom,recvmsg";
const WRITES: &str = "write,writev,sendto,sendmsg";
const WAITS: &str = "?poll,ppoll,?epoll_wait,epoll_pwait,?epoll_pwait2";

/// Makes `strace` start the daemon and inject this fault, for calls on `path` if it is set.
fn inject(t: &mut Trial<'_>, path: &str, fault: &str) -> Lived {
    t.need(t.world.can_inject, NO_STRACE)?;
    t.tell(format_args!("inject={fault} {path}")).may_leave.push("trace");
    // strace prints this about a call that the process exit has overtaken.
    t.may_say.push("strace: Failed to tamper with process");
    let calls = fault.split(':').next().unwrap_or_default();
    let [trace, inject] = [format!("trace={calls}"), format!("inject={fault}")];
    // The daemon stays our own child, and the tracer is not in its process group.
    let mut args = vec!["-DD", "-f", "-qq", "-o", "trace", "-e", &trace, "-e", &inject];
    args.extend(if path.is_empty() { vec!["--"] } else { vec!["-P", path, "--"] });
    t.wrap("strace", &args);
    Ok(())
}

/// Starts the daemon on pipes, with this fault in calls on stdin, stdout or stderr.
fn start(t: &mut Trial<'_>, which: Option<usize>, fault: &str) -> Lived {
    let pipes = [pipe(true)?, pipe(false)?, pipe(false)?];
    let path = match which {
        Some(which) => fs::read_link(format!("/proc/self/fd/{}", pipes[which].0.as_raw_fd()))?,
        None => Default::default(),
    };
    inject(t, &path.to_string_lossy(), fault)?;
    t.start_on(pipes.map(|(theirs, ours)| Channel::Both(theirs, ours))).map(drop)
}

/// Starts a listening daemon, and checks four times that a client gets served.
fn serve_clients(t: &mut Trial<'_>, fault: &str) -> Lived {
    inject(t.with(&["--listen", "tcp://127.0.0.1:0"]), "", fault)?;
    let urls = listen::start(t, 1)?;
    for _ in 0..4 {
        let is_served = listen::is_served_again(t, &urls[0]);
        t.check(is_served, "no client is served any more");
    }
    t.end_by(Signal::TERM);
    Ok(())
}
