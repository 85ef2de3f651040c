//! Signals (L4): those that ask it to end, one by one and in storms; those that it does not know; STOP and KILL.

use std::io;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::Kind;
use super::ending::Ending;
use super::ledger::Expect;
use super::trial::Trial;

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "signal-int", live: |trial| one(trial, obeyed(Signal::INT)) },
    Kind { name: "signal-term", live: |trial| one(trial, obeyed(Signal::TERM)) },
    Kind { name: "signal-hup", live: |trial| one(trial, obeyed(Signal::HUP)) },
    Kind { name: "signal-early", live: early },
    Kind { name: "signal-running", live: running },
    Kind { name: "signal-twice", live: twice },
    Kind { name: "signal-storm", live: storm },
    Kind { name: "signal-pipe", live: harmless },
    Kind { name: "signal-default", live: default },
    Kind { name: "signal-stop", live: stop },
    Kind { name: "signal-kill", live: kill },
];

const GRACEFUL: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// The name by which the log knows it.
fn name(signal: Signal) -> &'static str {
    match signal {
        Signal::INT => "SIGINT",
        Signal::TERM => "SIGTERM",
        _ => "SIGHUP",
    }
}

/// In the middle of traffic, or when all is quiet.
fn one(trial: &mut Trial<'_>, signal: Signal) -> io::Result<()> {
    let mut daemon = trial.daemon()?;
    if !trial.greet(&mut daemon) {
        return Ok(());
    }
    trial.traffic(&mut daemon);
    if trial.random.once_in(2) {
        trial.settle(&mut daemon);
        trial.was_idle = true;
    } else {
        trial.pause(&mut daemon);
    }
    trial.end_by(&mut daemon, signal);
    let ending = if trial.was_idle { Ending::complete() } else { Ending::code(0) };
    trial.finish(&mut daemon, &ending);
    trial.check_records(&daemon, &[name(signal)]);
    Ok(())
}

/// So early that nobody may receive it yet.
fn early(trial: &mut Trial<'_>) -> io::Result<()> {
    let signal = graceful(trial);
    let mut daemon = trial.daemon()?;
    let time = Duration::from_micros(trial.random.below(6000) as u64);
    daemon.pump(time, |_| false);
    trial.end_by(&mut daemon, signal);
    let mut ending = Ending::code(0);
    ending.signals.push(signal);
    trial.finish(&mut daemon, &ending);
    Ok(())
}

/// One of those that ask it to end.
fn graceful(trial: &mut Trial<'_>) -> Signal {
    obeyed(*trial.random.pick(&GRACEFUL))
}

/// The signal, or another if it is ignored here, as under `nohup`: then it is ignored there, too.
fn obeyed(signal: Signal) -> Signal {
    if is_ignored_here(signal) { Signal::TERM } else { signal }
}

/// Whether this process was started so that it does not receive a signal.
fn is_ignored_here(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (signal.as_raw() - 1) & 1 == 1
}

/// While requests run that are soon done: they are answered.
fn running(trial: &mut Trial<'_>) -> io::Result<()> {
    let command = trial.telling_testbed();
    let mut daemon = trial.start(command)?;
    let ms = 20 + trial.random.below(400);
    let method = *trial.random.pick(&["test.sleep", "test.block", "test.spin", "test.jam"]);
    trial.tell(format_args!("{method} for {ms} ms"));
    trial.ask(&mut daemon, method, &json!({"ms": ms}), Expect::Result(json!(ms)));
    let begins = format!("{method} begins");
    let has_begun = daemon.pump(trial.hang(), |daemon| daemon.has_said(&begins));
    trial.check(has_begun, "the handler does not begin");
    trial.pause(&mut daemon);
    let signal = graceful(trial);
    trial.end_by(&mut daemon, signal);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// The same one twice, or another behind it: the first counts.
fn twice(trial: &mut Trial<'_>) -> io::Result<()> {
    let command = trial.telling_testbed();
    let mut daemon = trial.start(command)?;
    let is_busy = trial.random.once_in(2);
    if is_busy {
        trial.ask(&mut daemon, "test.sleep", &json!({"ms": 100}), Expect::Result(json!(100)));
        daemon.pump(trial.hang(), |daemon| daemon.has_said("test.sleep begins"));
    } else if !trial.greet(&mut daemon) {
        return Ok(());
    }
    let first = graceful(trial);
    let second = if trial.random.once_in(2) { first } else { graceful(trial) };
    trial.end_by(&mut daemon, first);
    trial.pause(&mut daemon);
    trial.tell(format_args!("signal {}", second.as_raw()));
    daemon.signal(second);
    trial.finish(&mut daemon, &Ending::complete());
    trial.check_records(&daemon, &[name(first), name(second)]);
    Ok(())
}

/// Very many, of those that end it and those that do not.
fn storm(trial: &mut Trial<'_>) -> io::Result<()> {
    const ALL: [Signal; 8] = [
        Signal::INT,
        Signal::TERM,
        Signal::HUP,
        Signal::CONT,
        Signal::WINCH,
        Signal::CHILD,
        Signal::URG,
        Signal::PIPE,
    ];
    let mut daemon = trial.daemon()?;
    if !trial.greet(&mut daemon) {
        return Ok(());
    }
    trial.messages(&mut daemon, 20);
    let count = 20 + trial.random.below(300);
    trial.tell(format_args!("{count} signals"));
    daemon.mark();
    for _ in 0..count {
        let signal = *trial.random.pick(&ALL);
        daemon.signal(signal);
        daemon.pump(Duration::from_micros(50), |daemon| daemon.ended.is_some());
    }
    daemon.signal(Signal::TERM);
    trial.finish(&mut daemon, &Ending::code(0));
    Ok(())
}

/// Those that nobody needs to know of change nothing.
fn harmless(trial: &mut Trial<'_>) -> io::Result<()> {
    let mut daemon = trial.daemon()?;
    if !trial.greet(&mut daemon) {
        return Ok(());
    }
    for _ in 0..1 + trial.random.below(5) {
        let signal = *trial.random.pick(&[
            Signal::PIPE,
            Signal::PIPE,
            Signal::CONT,
            Signal::WINCH,
            Signal::CHILD,
            Signal::URG,
        ]);
        trial.tell(format_args!("signal {}", signal.as_raw()));
        daemon.signal(signal);
        trial.messages(&mut daemon, 5);
    }
    trial.settle(&mut daemon);
    trial.was_idle = true;
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// The others do what they do by default: they end it at once, and nothing more comes out.
fn default(trial: &mut Trial<'_>) -> io::Result<()> {
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
    // The system writes it, where it is told to.
    trial.may_leave.push("core");
    let mut daemon = trial.daemon()?;
    if !trial.greet(&mut daemon) {
        return Ok(());
    }
    trial.traffic(&mut daemon);
    trial.pause(&mut daemon);
    let signal = *trial.random.pick(&ALL);
    trial.end_by(&mut daemon, signal);
    trial.finish(&mut daemon, &Ending::killed(signal));
    Ok(())
}

/// It stands still and goes on, and what came meanwhile is served; or it goes on to its end.
fn stop(trial: &mut Trial<'_>) -> io::Result<()> {
    let mut daemon = trial.daemon()?;
    if !trial.greet(&mut daemon) {
        return Ok(());
    }
    let ends_by = trial.random.once_in(2).then(|| graceful(trial));
    let stops = 1 + trial.random.below(4);
    for _ in 0..stops {
        daemon.signal(Signal::STOP);
        trial.messages(&mut daemon, 3);
        daemon.pump(Duration::from_millis(10), |_| false);
        daemon.signal(Signal::CONT);
        trial.pause(&mut daemon);
    }
    trial.settle(&mut daemon);
    trial.tell(format_args!("{stops} times STOP and CONT"));
    daemon.signal(Signal::STOP);
    match ends_by {
        Some(signal) => trial.end_by(&mut daemon, signal),
        None => {
            trial.messages(&mut daemon, 3);
            daemon.pump(Duration::from_millis(5), |daemon| daemon.is_sent());
            daemon.signal(Signal::CONT);
            trial.close_stdin(&mut daemon);
        }
    }
    daemon.signal(Signal::CONT);
    let ending = if ends_by.is_some() { Ending::code(0) } else { Ending::complete() };
    trial.finish(&mut daemon, &ending);
    Ok(())
}

/// Nothing can be done then, and nothing is left.
fn kill(trial: &mut Trial<'_>) -> io::Result<()> {
    let mut daemon = trial.daemon()?;
    trial.traffic(&mut daemon);
    trial.pause(&mut daemon);
    trial.end_by(&mut daemon, Signal::KILL);
    trial.finish(&mut daemon, &Ending::killed(Signal::KILL));
    Ok(())
}
