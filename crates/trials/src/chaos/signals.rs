//! Signals (L4): those that request an end, one by one and in storms; those without a handler; STOP and KILL.
//! Also the death of the parent (L10).

use super::prelude::*;

pub(super) const KINDS: &[Kind] = &[
    ("signal-int", |t| one(t, Signal::INT)),
    ("signal-term", |t| one(t, Signal::TERM)),
    ("signal-hup", |t| one(t, Signal::HUP)),
    // So early that the daemon may not handle it yet.
    ("signal-early", |t| {
        let signal = graceful(t);
        let time = Duration::from_micros(t.start()?.random.below(6000) as u64);
        t.daemon().run_for(time);
        t.end_by(signal).finish(Ending::code(0).or_by(&[signal]))
    }),
    // Running requests that finish soon are answered.
    ("signal-running", |t| {
        let ms = 20 + t.telling().start()?.random.below(400);
        let method = *t.random.pick(&["test.sleep", "test.block", "test.spin", "test.jam"]);
        t.ask_slow(method, ms).await_begin(method).pause();
        let signal = graceful(t);
        t.end_by(signal).finish(complete())
    }),
    // The same signal twice, or another after it: the first one counts.
    ("signal-twice", |t| {
        let is_busy = t.telling().start()?.random.once_in(2);
        if is_busy {
            t.ask_slow("test.sleep", 100).await_begin("test.sleep");
        } else {
            t.greet()?;
        }
        let first = graceful(t);
        let second = if t.random.once_in(2) { first } else { graceful(t) };
        t.end_by(first).pause().tell(format_args!("signal {}", second.as_raw())).signal(second);
        t.finish(complete())?;
        t.check_records(&[name(first), name(second)])
    }),
    // Many signals, some of which end the daemon.
    ("signal-storm", |t| {
        let all = [&GRACEFUL[..], &HARMLESS].concat();
        let count = 20 + t.start()?.greet()?.messages(20).random.below(300);
        t.tell(format_args!("{count} signals")).mark();
        for _ in 0..count {
            let signal = *t.random.pick(&all);
            t.signal(signal).daemon().run_for(Duration::from_micros(50));
        }
        t.signal(Signal::TERM).finish(Ending::code(0))
    }),
    // Signals without a meaning for the daemon change nothing.
    ("signal-pipe", |t| {
        for _ in 0..1 + t.start()?.greet()?.random.below(5) {
            let signal = if t.random.once_in(6) { Signal::PIPE } else { *t.random.pick(&HARMLESS) };
            t.tell(format_args!("signal {}", signal.as_raw())).signal(signal).messages(5);
        }
        t.settle().idle().close_stdin().finish(complete())
    }),
    // All other signals end it immediately, as they do by default, without further output.
    ("signal-default", |t| {
        const ALL: [Signal; 9] = [
            Signal::QUIT,
            Signal::USR1,
            Signal::USR2,
            Signal::ALARM,
            Signal::ABORT,
            Signal::VTALARM,
            Signal::PROF,
            Signal::TRAP,
            Signal::SYS,
        ];
        // The system may write a core file.
        t.may_leave.push("core");
        t.start()?.greet()?.traffic().pause();
        let signal = *t.random.pick(&ALL);
        t.end_by(signal).finish(Ending::killed(signal))
    }),
    // The daemon is stopped and continued, and serves the input that arrived meanwhile; or it continues to
    // its end.
    ("signal-stop", |t| {
        let is_by_signal = t.start()?.greet()?.random.once_in(2);
        let ends_by = is_by_signal.then(|| graceful(t));
        let stops = 1 + t.random.below(4);
        for _ in 0..stops {
            t.signal(Signal::STOP).messages(3).run_for(10).signal(Signal::CONT).pause();
        }
        t.settle().tell(format_args!("{stops} times STOP and CONT")).signal(Signal::STOP);
        if let Some(signal) = ends_by {
            return t.end_by(signal).signal(Signal::CONT).finish(Ending::code(0));
        }
        t.messages(3).daemon().pump(Duration::from_millis(5), |daemon| daemon.link.is_sent());
        t.signal(Signal::CONT).close_stdin().finish(complete())
    }),
    // A killed daemon leaves nothing behind.
    ("signal-kill", |t| {
        t.start()?.traffic().pause().end_by(Signal::KILL).finish(Ending::killed(Signal::KILL))
    }),
];

pub(super) const PARENT_KINDS: &[Kind] = &[
    // With `--exit-with-parent`, the daemon ends with its parent.
    ("parent-dies", |t| {
        t.with(&["--exit-with-parent"]).shell(SHELL).start()?.greet()?.traffic().pause();
        kill_parent(t);
        end_of_orphan(t, "it outlives its parent", Ending::killed(Signal::KILL))?;
        let is_whole = t.daemon().link.inbound.rest().is_empty();
        t.conclude(is_whole, "the last frame is cut")
    }),
    // Without the option, it continues without its parent, and ends with its input.
    ("parent-dies-unwatched", |t| {
        t.shell(SHELL).start()?.greet()?;
        kill_parent(t);
        let hang = t.messages(10).hang();
        let is_settled = t.daemon().pump_beyond(hang, |daemon| daemon.is_settled());
        t.check(is_settled, "it does not go on without its parent").daemon().link.input = None;
        let ending = Ending { answers_all: true, may_cut: false, ..Ending::killed(Signal::KILL) };
        end_of_orphan(t, "it outlives its input", ending)
    }),
];

const GRACEFUL: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];
const HARMLESS: [Signal; 5] =
    [Signal::PIPE, Signal::CONT, Signal::WINCH, Signal::CHILD, Signal::URG];

/// Name of a signal in the log.
fn name(signal: Signal) -> &'static str {
    match signal {
        Signal::INT => "SIGINT",
        Signal::TERM => "SIGTERM",
        _ => "SIGHUP",
    }
}

/// The signal, or SIGTERM if this process ignores it, for example under `nohup`: its children ignore it too.
pub(super) fn obeyed(signal: Signal) -> Signal {
    let mask = proc::field("/proc/self/status", "SigIgn");
    let mask = mask.and_then(|mask| u64::from_str_radix(&mask, 16).ok()).unwrap_or_default();
    if mask >> (signal.as_raw() - 1) & 1 == 1 { Signal::TERM } else { signal }
}

/// A signal that requests an end.
pub(super) fn graceful(t: &mut Trial<'_>) -> Signal {
    obeyed(*t.random.pick(&GRACEFUL))
}

/// Sends a signal during traffic, or while the daemon is idle.
fn one(t: &mut Trial<'_>, signal: Signal) -> Lived {
    let signal = obeyed(signal);
    let is_idle = t.start()?.greet()?.traffic().random.once_in(2);
    let ending = if is_idle { complete() } else { Ending::code(0) };
    if is_idle { t.settle().idle() } else { t.pause() }.end_by(signal).finish(ending)?;
    t.check_records(&[name(signal)])
}

/// A shell starts the daemon with its own stdin, which stays open; the shell is our child.
const SHELL: &str = r#"exec 3<&0; "$@" <&3 3<&- & wait"#;

fn kill_parent(t: &mut Trial<'_>) {
    t.tell("the parent is killed").mark().signal(Signal::KILL);
    let is_dead = t.wait(PipedDaemon::has_ended);
    t.check(is_dead, "the parent cannot be killed");
}

/// Waits for the end of a daemon that is not our child.
fn end_of_orphan(t: &mut Trial<'_>, complaint: &str, ending: Ending) -> Lived {
    let (hang, begun) = (t.hang(), Instant::now());
    let is_gone = t.daemon().pump_beyond(hang, |daemon| !daemon.process.is_left());
    let end = Instant::now();
    t.check(is_gone, complaint).finish(ending)?;
    t.check_time(begun, end);
    Ok(())
}
