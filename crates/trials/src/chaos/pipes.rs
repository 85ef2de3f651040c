//! stdin, stdout and stderr that are closed: between frames, inside of one, in every order (L3, L5, L7).

use std::io;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Kind;
use super::daemon::Daemon;
use super::ending::Ending;
use super::frames::Framing;
use super::ledger::Expect;
use super::trial::Trial;

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "eof-idle", live: eof_idle },
    Kind { name: "eof-traffic", live: eof_traffic },
    Kind { name: "eof-at-once", live: eof_at_once },
    Kind { name: "eof-mid-frame", live: eof_mid_frame },
    Kind { name: "eof-running", live: eof_running },
    Kind { name: "eof-slow-reader", live: |trial| slow_reader(trial, false) },
    Kind { name: "eof-slow-reader-naps", live: |trial| slow_reader(trial, true) },
    Kind { name: "shutdown", live: shutdown },
    Kind { name: "stdout-closed", live: stdout_closed },
    Kind { name: "stdout-unread", live: stdout_unread },
    Kind { name: "stderr-closed", live: stderr_closed },
    Kind { name: "stderr-unread", live: stderr_unread },
    Kind { name: "all-closed", live: all_closed },
    Kind { name: "closed-in-order", live: closed_in_order },
];

fn eof_idle(trial: &mut Trial<'_>) -> io::Result<()> {
    let mut daemon = trial.daemon()?;
    if !trial.greet(&mut daemon) {
        return Ok(());
    }
    trial.traffic(&mut daemon);
    trial.settle(&mut daemon);
    trial.was_idle = true;
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    trial.check_records(&daemon, &["stdin closed, shutting down gracefully"]);
    Ok(())
}

/// Everything that came before is answered, however much it is.
fn eof_traffic(trial: &mut Trial<'_>) -> io::Result<()> {
    let mut daemon = trial.daemon()?;
    trial.traffic(&mut daemon);
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// Before it is even up.
fn eof_at_once(trial: &mut Trial<'_>) -> io::Result<()> {
    let mut daemon = trial.daemon()?;
    if trial.random.once_in(2) {
        trial.ask(&mut daemon, "version", &json!([]), Expect::Anything);
    }
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// A frame that is cut is a fault, and the normal end follows.
fn eof_mid_frame(trial: &mut Trial<'_>) -> io::Result<()> {
    let mut daemon = trial.daemon()?;
    trial.traffic(&mut daemon);
    // Behind a fault, a part of a frame may be of the same.
    trial.ask(&mut daemon, "version", &json!([]), Expect::Anything);
    let frame = daemon.framing.frame(r#"{"jsonrpc":"2.0","id":77777,"method":"version"}"#);
    // A line is a message also without its end.
    let most = if daemon.framing == Framing::Ndjson { frame.len() - 2 } else { frame.len() - 1 };
    let mut cut = 1 + trial.random.below(most);
    if daemon.framing == Framing::Length && cut == frame.len() - 1 {
        // All but the newline: whether that is whole is a question of taste, and no life.
        cut -= 1;
    }
    trial.tell(format_args!("{cut} bytes of a frame"));
    daemon.send(&frame[..cut]);
    daemon.ledger.expect_fault();
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// With requests running that take less than there is time for.
fn eof_running(trial: &mut Trial<'_>) -> io::Result<()> {
    trial.is_testbed = true;
    let mut daemon = trial.daemon()?;
    let count = 1 + trial.random.below(3);
    for _ in 0..count {
        let ms = trial.random.below(300);
        let method = *trial.random.pick(&["test.sleep", "test.block", "test.spin"]);
        trial.tell(format_args!("{method} for {ms} ms"));
        trial.ask(&mut daemon, method, &json!({"ms": ms}), Expect::Result(json!(ms)));
    }
    trial.messages(&mut daemon, 5);
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// Who reads slowly loses nothing: the time counts from the last byte. One that naps is away once for almost as
/// long as there is time.
fn slow_reader(trial: &mut Trial<'_>, naps: bool) -> io::Result<()> {
    trial.is_testbed = true;
    let mut daemon = trial.daemon()?;
    let count = 1 + trial.random.below(4);
    for _ in 0..count {
        // Far more than a few reads take, if there has to be something left at the nap.
        let least = if naps { 900_000 } else { 100_000 };
        let bytes = least + trial.random.below(1_000_000);
        trial.ask(&mut daemon, "test.big", &json!({"bytes": bytes}), Expect::Letters(bytes));
    }
    trial.tell(format_args!("{count} large answers"));
    daemon.leaves_stdout = true;
    trial.close_stdin(&mut daemon);
    let long = naps.then(|| trial.random.below(3));
    let mut is_sure = true;
    for round in 0..20 {
        if long == Some(round) {
            is_sure = nap(trial, &mut daemon);
        }
        let short = Duration::from_millis(trial.random.below(60) as u64);
        daemon.leaves_stdout = true;
        daemon.pump(short, |_| false);
        daemon.leaves_stdout = false;
        daemon.pump(Duration::from_micros(100), |_| false);
    }
    let ending = if is_sure { Ending::complete() } else { Ending::code(0).cut() };
    trial.finish(&mut daemon, &ending);
    Ok(())
}

/// Reads nothing for almost as long as the daemon waits, between two bytes. Whether it can only be the daemon's
/// fault if something is lost: on a machine that is late, who naps may oversleep, and who waits may not be told
/// in time that somebody reads again.
fn nap(trial: &mut Trial<'_>, daemon: &mut Daemon) -> bool {
    const NAP: Duration = Duration::from_millis(1500);
    const MARGIN: Duration = Duration::from_millis(100);
    let read = |daemon: &mut Daemon| {
        daemon.leaves_stdout = false;
        let before = daemon.trigger;
        daemon.pump(trial.hang(), |daemon| daemon.trigger != before || daemon.ended.is_some());
        daemon.leaves_stdout = true;
    };
    read(daemon);
    let taken = daemon.trigger;
    daemon.pump(NAP, |_| false);
    if let Some((_, end)) = daemon.ended {
        trial.tell("it has ended while nobody read");
        return end < taken + NAP + MARGIN;
    }
    read(daemon);
    let gap = taken.elapsed();
    daemon.pump(2 * MARGIN, |_| false);
    let late = trial.world.scheduler_lag.late_between(taken + NAP, Instant::now());
    trial.tell(format_args!("a nap of {gap:?}, and the machine was {late:?} late behind it"));
    gap < NAP + MARGIN && late < MARGIN
}

/// It answers what came before, says so, and goes; also if stdin stays open, also as a notification.
fn shutdown(trial: &mut Trial<'_>) -> io::Result<()> {
    let mut daemon = trial.daemon()?;
    trial.traffic(&mut daemon);
    trial.settle(&mut daemon);
    trial.was_idle = true;
    if trial.random.once_in(3) {
        trial.tell("shutdown as a notification");
        let frame = daemon.framing.frame(r#"{"jsonrpc":"2.0","method":"shutdown"}"#);
        daemon.send(&frame);
        daemon.mark();
        trial.finish(&mut daemon, &Ending::complete());
        return Ok(());
    }
    trial.tell("shutdown");
    let answer = json!({"message": "Shutting down gracefully"});
    trial.ask(&mut daemon, "shutdown", &json!(null), Expect::Result(answer));
    let id = daemon.ledger.last_id();
    let has_more = trial.random.once_in(2);
    if has_more {
        trial.tell("and more behind it");
        for _ in 0..20 {
            trial.ask(&mut daemon, "version", &json!([]), Expect::Anything);
        }
    }
    daemon.mark();
    trial.finish(&mut daemon, &Ending::code(0));
    trial.check(daemon.ledger.is_answered(id), "shutdown is not answered");
    // What came behind it is not begun.
    trial.check(!daemon.ledger.is_answered(id + 1), "it goes on after shutdown");
    Ok(())
}

/// It cannot be survived, and shows at the next answer.
fn stdout_closed(trial: &mut Trial<'_>) -> io::Result<()> {
    let mut daemon = trial.daemon()?;
    let is_up = trial.random.once_in(2);
    if is_up && !trial.greet(&mut daemon) {
        return Ok(());
    }
    trial.traffic(&mut daemon);
    trial.tell("stdout is closed");
    daemon.stdout = None;
    trial.ask_until_it_ends(&mut daemon);
    trial.finish(&mut daemon, &Ending::code(1).cut());
    trial.check(daemon.has_said("ERROR") || daemon.has_said("\"error\""), "no record says why");
    Ok(())
}

/// Nobody reads what it has to say, and it ends all the same.
fn stdout_unread(trial: &mut Trial<'_>) -> io::Result<()> {
    trial.is_testbed = true;
    let mut daemon = trial.daemon()?;
    if !trial.greet(&mut daemon) {
        return Ok(());
    }
    daemon.leaves_stdout = true;
    for _ in 0..1 + trial.random.below(5) {
        let bytes = trial.random.below(2_000_000);
        trial.ask(&mut daemon, "test.big", &json!({"bytes": bytes}), Expect::Letters(bytes));
    }
    daemon.pump(Duration::from_millis(20), |_| false);
    daemon.ledger.expect_fault();
    match trial.random.below(3) {
        0 => {
            trial.tell("stdin is closed");
            daemon.stdin = None;
            daemon.mark();
        }
        1 => trial.end_by(&mut daemon, rustix::process::Signal::TERM),
        _ => {
            trial.tell("shutdown");
            trial.ask(&mut daemon, "shutdown", &json!(null), Expect::Anything);
            daemon.mark();
            // It may not be read, as answers wait: then the closing of stdin is what ends it.
            daemon.pump(Duration::from_millis(50), |daemon| daemon.ended.is_some());
            daemon.stdin = None;
            daemon.mark();
        }
    }
    trial.finish(&mut daemon, &Ending::code(0).cut());
    Ok(())
}

/// Whoever reads the log is gone, and that is no reason to stop.
fn stderr_closed(trial: &mut Trial<'_>) -> io::Result<()> {
    let mut daemon = trial.daemon()?;
    if trial.random.once_in(2) && !trial.greet(&mut daemon) {
        return Ok(());
    }
    trial.tell("stderr is closed");
    daemon.stderr = None;
    trial.traffic(&mut daemon);
    trial.settle(&mut daemon);
    trial.was_idle = true;
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// Nobody reads the log.
fn stderr_unread(trial: &mut Trial<'_>) -> io::Result<()> {
    let command = trial.command_at("debug");
    let mut daemon = trial.start(command)?;
    // Kept, and not read.
    let unread = daemon.stderr.take();
    trial.messages(&mut daemon, 600);
    trial.settle(&mut daemon);
    if trial.random.once_in(2) {
        trial.close_stdin(&mut daemon);
    } else {
        trial.end_by(&mut daemon, rustix::process::Signal::HUP);
    }
    trial.finish(&mut daemon, &Ending::complete());
    drop(unread);
    Ok(())
}

/// As it is when a client dies.
fn all_closed(trial: &mut Trial<'_>) -> io::Result<()> {
    let mut daemon = trial.daemon()?;
    trial.traffic(&mut daemon);
    trial.pause(&mut daemon);
    trial.tell("all is closed");
    (daemon.stdin, daemon.stdout, daemon.stderr) = (None, None, None);
    // A frame may be cut by that.
    daemon.ledger.expect_fault();
    daemon.mark();
    trial.finish(&mut daemon, &Ending::code(0).or(1).cut());
    Ok(())
}

/// One after the other.
fn closed_in_order(trial: &mut Trial<'_>) -> io::Result<()> {
    let mut daemon = trial.daemon()?;
    trial.traffic(&mut daemon);
    // When stdin is closed a frame may be cut by that.
    daemon.ledger.expect_fault();
    let mut left = vec!["stdin", "stdout", "stderr"];
    while !left.is_empty() {
        trial.pause(&mut daemon);
        let name = left.remove(trial.random.below(left.len()));
        trial.tell(format_args!("{name} is closed"));
        let end = match name {
            "stdin" => &mut daemon.stdin,
            "stdout" => &mut daemon.stdout,
            _ => &mut daemon.stderr,
        };
        *end = None;
        daemon.mark();
    }
    trial.finish(&mut daemon, &Ending::code(0).or(1).cut());
    Ok(())
}
