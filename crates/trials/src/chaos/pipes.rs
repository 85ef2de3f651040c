//! Closed stdin, stdout and stderr: between frames, inside a frame, in every order (L3, L5, L7).

use super::prelude::*;

pub(super) const KINDS: &[Kind] = &[
    ("eof-idle", |t| {
        t.start()?.greet()?.traffic().settle().idle().close_stdin().finish(complete())?;
        t.check_records(&["stdin closed, shutting down gracefully"])
    }),
    // All requests before the end of input are answered.
    ("eof-traffic", |t| t.start()?.traffic().close_stdin().finish(complete())),
    // stdin ends before the daemon is up.
    ("eof-immediate", |t| {
        let count = t.start()?.random.below(2);
        t.ask_many(count, "version").close_stdin().finish(complete())
    }),
    // A cut frame is a fault, and the normal end follows.
    ("eof-mid-frame", |t| {
        // After a fault, a partial frame may belong to the same fault; after a request it does not.
        t.start()?.traffic().ask_many(1, "version");
        let framing = t.profile.framing();
        let frame = framing.frame(br#"{"jsonrpc":"2.0","id":77777,"method":"version"}"#);
        // The last line is a message even without a newline.
        let most = if framing == Framing::Ndjson { frame.len() - 2 } else { frame.len() - 1 };
        let mut cut = 1 + t.random.below(most);
        if framing == Framing::Length && cut == frame.len() - 1 {
            // Only the newline is missing: the contract does not say whether the frame counts as whole.
            cut -= 1;
        }
        t.tell(format_args!("{cut} bytes of a frame")).daemon().send(&frame[..cut]);
        t.daemon().link.ledger.expect_fault();
        t.close_stdin().finish(complete())
    }),
    // Requests still run, and take less time than the daemon waits.
    ("eof-running", |t| {
        t.testbed().start()?;
        for _ in 0..1 + t.random.below(3) {
            let ms = t.random.below(300);
            let method = *t.random.pick(&["test.sleep", "test.block", "test.spin"]);
            t.ask_slow(method, ms);
        }
        t.messages(5).close_stdin().finish(complete())
    }),
    ("eof-slow-reader", |t| slow_reader(t, false)),
    ("eof-slow-reader-naps", |t| slow_reader(t, true)),
    // The daemon answers earlier requests, then `shutdown`, and exits, even if stdin stays open.
    ("shutdown", |t| {
        t.start()?.traffic().settle().idle();
        if t.random.once_in(3) {
            t.tell("shutdown as a notification");
            t.daemon().say(r#"{"jsonrpc":"2.0","method":"shutdown"}"#);
            return t.mark().finish(complete());
        }
        let answer = Outcome::result(&json!({"message": "Shutting down gracefully"}));
        t.tell("shutdown").ask("shutdown", &json!(null), answer);
        let id = t.daemon().link.ledger.last;
        if t.random.once_in(2) {
            t.tell("and more requests after it").ask_many(20, "version");
        }
        t.mark().finish(Ending::code(0))?;
        let [own, next] = [id, id + 1].map(|id| t.daemon().link.ledger.is_answered(id));
        t.check(own, "shutdown is not answered").conclude(!next, "it goes on after shutdown")
    }),
    // A closed stdout ends the daemon at its next answer.
    ("stdout-closed", |t| {
        if t.start()?.random.once_in(2) {
            t.greet()?;
        }
        t.traffic().tell("stdout is closed").daemon().link.output = None;
        t.ask_until_it_ends().finish(Ending::code(1).cut())?;
        t.check_reason(false)
    }),
    // Nobody reads the answers, and the daemon ends anyway.
    ("stdout-unread", |t| {
        t.testbed().start()?.greet()?.leave_stdout(true);
        (0..1 + t.random.below(5)).for_each(|_| _ = t.ask_big(0, 2_000_000));
        t.run_for(20).daemon().link.ledger.expect_fault();
        match t.random.below(3) {
            0 => {
                t.tell("stdin is closed").daemon().link.input = None;
                t.mark();
            }
            1 => _ = t.end_by(Signal::TERM),
            _ => {
                // The daemon may not read this request while answers wait. Then closing stdin ends it.
                t.tell("shutdown").ask("shutdown", &json!(null), Outcome::Any).mark().run_for(50);
                t.daemon().link.input = None;
                t.mark();
            }
        }
        t.finish(Ending::code(0).cut())
    }),
    // The log has no reader any more; the daemon keeps running.
    ("stderr-closed", |t| {
        if t.start()?.random.once_in(2) {
            t.greet()?;
        }
        t.tell("stderr is closed").daemon().process.stderr = None;
        t.traffic().settle().idle().close_stdin().finish(complete())
    }),
    // Nobody reads the log.
    ("stderr-unread", |t| {
        let _unread = t.at_level("debug").start()?.daemon().process.stderr.take();
        t.messages(600).settle().end_either_way(Signal::HUP)
    }),
    // All closed together, as when a client dies. That may cut a frame.
    ("all-closed", |t| {
        t.start()?.traffic().pause().tell("all is closed").daemon().close_both();
        t.daemon().process.stderr = None;
        t.daemon().link.ledger.expect_fault();
        t.mark().finish(Ending::code(0).or(1).cut())
    }),
    // Closed one after the other. Closing stdin may cut a frame.
    ("closed-in-order", |t| {
        t.start()?.traffic().daemon().link.ledger.expect_fault();
        let mut left = vec!["stdin", "stdout", "stderr"];
        while !left.is_empty() {
            t.pause();
            let name = left.remove(t.random.below(left.len()));
            let daemon = t.tell(format_args!("{name} is closed")).daemon();
            match name {
                "stdin" => daemon.link.input = None,
                "stdout" => daemon.link.output = None,
                _ => daemon.process.stderr = None,
            }
            t.mark();
        }
        t.finish(Ending::code(0).or(1).cut())
    }),
];

/// A slow reader loses nothing: the time limit counts from the last byte. With `naps`, the reader stops once
/// for almost the whole time limit.
fn slow_reader(t: &mut Trial<'_>, naps: bool) -> Lived {
    t.testbed().start()?;
    let count = 1 + t.random.below(4);
    // More bytes than a few reads take, so that some are left when the nap begins.
    let least = if naps { 900_000 } else { 100_000 };
    (0..count).for_each(|_| _ = t.ask_big(least, 1_000_000));
    t.tell(format_args!("{count} large answers")).leave_stdout(true).close_stdin();
    let long = naps.then(|| t.random.below(3));
    let mut is_sure = true;
    for round in 0..20 {
        if long == Some(round) {
            is_sure = nap(t);
        }
        let short = t.random.below(60) as u64;
        t.leave_stdout(true).run_for(short).leave_stdout(false);
        t.daemon().run_for(Duration::from_micros(100));
    }
    t.finish(if is_sure { complete() } else { Ending::code(0).cut() })
}

/// Reads nothing for almost the daemon's whole time limit, between two bytes. Returns true if a loss could
/// only be the daemon's fault: on a slow machine we may oversleep, or the daemon may notice too late that
/// reading resumed.
fn nap(t: &mut Trial<'_>) -> bool {
    const NAP: Duration = Duration::from_millis(1500);
    const MARGIN: Duration = Duration::from_millis(100);
    let read = |t: &mut Trial<'_>| {
        let before = t.leave_stdout(false).daemon().trigger;
        t.wait(|daemon| daemon.trigger != before || daemon.has_ended());
        t.leave_stdout(true).daemon().trigger
    };
    let taken = read(t);
    t.daemon().run_for(NAP);
    if let Some((_, end)) = t.daemon().process.ended {
        t.tell("it ended during a pause in reading");
        return end < taken + NAP + MARGIN;
    }
    read(t);
    let gap = taken.elapsed();
    t.daemon().run_for(2 * MARGIN);
    let late = t.world.lag.late_between(taken + NAP, Instant::now());
    t.tell(format_args!("a pause of {gap:?}, after which the machine was {late:?} late"));
    gap < NAP + MARGIN && late < MARGIN
}
