//! Handlers that run when the end comes, for longer than there is time (L5).

use std::io;

use rustix::process::Signal;
use serde_json::json;

use super::Kind;
use super::ending::Ending;
use super::ledger::Expect;
use super::trial::Trial;

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "handler-sleeps", live: |trial| runs(trial, "test.sleep") },
    Kind { name: "handler-blocks", live: |trial| runs(trial, "test.block") },
    Kind { name: "handler-spins", live: |trial| runs(trial, "test.spin") },
    Kind { name: "handler-naps", live: |trial| runs(trial, "test.nap") },
    Kind { name: "handler-jams", live: |trial| runs(trial, "test.jam") },
    Kind { name: "handler-panics", live: panics },
    Kind { name: "handler-emits", live: emits },
];

/// One that never ends, and whatever ends the daemon.
fn runs(trial: &mut Trial<'_>, method: &str) -> io::Result<()> {
    let mut command = trial.telling_testbed();
    if trial.random.once_in(4) {
        trial.tell("the last act never ends");
        command.env("TESTBED_IS_NEVER_DONE", "1");
    }
    let mut daemon = trial.start(command)?;
    if trial.random.once_in(2) && !trial.greet(&mut daemon) {
        return Ok(());
    }
    trial.ask(&mut daemon, method, &json!({"ms": 60_000}), Expect::Anything);
    let begins = format!("{method} begins");
    let has_begun = daemon.pump(trial.hang(), |daemon| daemon.has_said(&begins));
    trial.check(has_begun, "the handler does not begin");
    trial.pause(&mut daemon);
    match trial.random.below(5) {
        0 => {
            trial.close_stdin(&mut daemon);
            daemon.counts_from_last_byte = false;
        }
        // What jams the thread that reads keeps this from being read.
        1 if method != "test.jam" && method != "test.nap" => {
            trial.tell("shutdown");
            trial.ask(&mut daemon, "shutdown", &json!(null), Expect::Anything);
            daemon.mark();
        }
        other => {
            let signal = [Signal::INT, Signal::TERM, Signal::HUP][other % 3];
            trial.end_by(&mut daemon, signal);
        }
    }
    trial.finish(&mut daemon, &Ending::code(0));
    Ok(())
}

/// Many that panic, up to the end and beyond it.
fn panics(trial: &mut Trial<'_>) -> io::Result<()> {
    trial.is_testbed = true;
    let mut daemon = trial.daemon()?;
    let count = 1 + trial.random.below(40);
    trial.tell(format_args!("{count} panics"));
    for _ in 0..count {
        trial.ask(&mut daemon, "test.panic", &json!(null), Expect::Code(-32603));
        if trial.random.once_in(5) {
            trial.messages(&mut daemon, 1);
        }
    }
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    trial.check(!daemon.has_said("must not show"), "the message of a panic shows");
    Ok(())
}

/// One that sends notifications without end when it comes.
fn emits(trial: &mut Trial<'_>) -> io::Result<()> {
    trial.is_testbed = true;
    let mut daemon = trial.daemon()?;
    if !trial.greet(&mut daemon) {
        return Ok(());
    }
    let count = 1 + trial.random.below(20_000);
    trial.tell(format_args!("{count} notifications"));
    daemon.ledger.expect_events("test.event", count);
    trial.ask(&mut daemon, "test.emit", &json!({"count": count}), Expect::Result(json!(count)));
    trial.pause(&mut daemon);
    let ending = if trial.random.once_in(2) {
        trial.close_stdin(&mut daemon);
        Ending::complete()
    } else {
        trial.flush(&mut daemon);
        trial.end_by(&mut daemon, Signal::TERM);
        Ending::code(0)
    };
    trial.finish(&mut daemon, &ending);
    Ok(())
}
