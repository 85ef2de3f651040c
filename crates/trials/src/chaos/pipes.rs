//! stdin, stdout and stderr that are closed: between frames, inside of one, in every order (L3, L5, L7).

use super::prelude::*;

pub(super) const KINDS: &[Kind] = &[
    ("eof-idle", |t| {
        t.start()?.greet()?.traffic().settle().idle().close_stdin().finish(complete())?;
        t.check_records(&["stdin closed, shutting down gracefully"])
    }),
    // All requests before the end are answered, however many.
    ("eof-traffic", |t| t.start()?.traffic().close_stdin().finish(complete())),
    // Before it is even up.
    ("eof-at-once", |t| {
        let count = t.start()?.random.below(2);
        t.ask_many(count, "version").close_stdin().finish(complete())
    }),
    // A cut frame is a fault, and the normal end follows.
    ("eof-mid-frame", |t| {
        // Behind a fault, a part of a frame may belong to the same fault; behind a request it does not.
        t.start()?.traffic().ask_many(1, "version");
        let framing = t.profile.framing();
        let frame = framing.frame(br#"{"jsonrpc":"2.0","id":77777,"method":"version"}"#);
        // A line is a message even without its end.
        let most = if framing == Framing::Ndjson { frame.len() - 2 } else { frame.len() - 1 };
        let mut cut = 1 + t.random.below(most);
        if framing == Framing::Length && cut == frame.len() - 1 {
            // All but the newline: nobody says whether that is whole.
            cut -= 1;
        }
        t.tell(format_args!("{cut} bytes of a frame")).daemon().send(&frame[..cut]);
        t.daemon().link.ledger.expect_fault();
        t.close_stdin().finish(complete())
    }),
    // Requests run that take less time than there is.
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
    // It answers what came before, then `shutdown`, and goes, even if stdin stays open.
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
            t.tell("and more behind it").ask_many(20, "version");
        }
        t.mark().finish(Ending::code(0))?;
        let [own, next] = [id, id + 1].map(|id| t.daemon().link.ledger.is_answered(id));
        t.check(own, "shutdown is not answered").conclude(!next, "it goes on after shutdown")
    }),
    // That ends it, and shows at the next answer.
    ("stdout-closed", |t| {
        if t.start()?.random.once_in(2) {
            t.greet()?;
        }
        t.traffic().tell("stdout is closed").daemon().link.output = None;
        t.ask_until_it_ends().finish(Ending::code(1).cut())?;
        t.check_reason(false)
    }),
    // Nobody reads its answers, and it ends all the same.
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
                // It may not be read, because answers wait: then the closing of stdin ends it.
                t.tell("shutdown").ask("shutdown", &json!(null), Outcome::Any).mark().run_for(50);
                t.daemon().link.input = None;
                t.mark();
            }
        }
        t.finish(Ending::code(0).cut())
    }),
    // The reader of the log is gone, and that is no reason to stop.
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
    // As when a client dies. A frame may be cut by that.
    ("all-closed", |t| {
        t.start()?.traffic().pause().tell("all is closed").daemon().close_both();
        t.daemon().process.stderr = None;
        t.daemon().link.ledger.expect_fault();
        t.mark().finish(Ending::code(0).or(1).cut())
    }),
    // One after the other. When stdin is closed a frame may be cut by that.
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

/// A slow reader loses nothing: the time counts from the last byte. One that naps is away once for almost as long
/// as there is time.
fn slow_reader(t: &mut Trial<'_>, naps: bool) -> Lived {
    t.testbed().start()?;
    let count = 1 + t.random.below(4);
    // Far more than a few reads take, if something must be left at the nap.
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

/// Reads nothing for almost as long as the daemon waits, between two bytes. Whether a loss can only be the
/// daemon's fault: on a late machine we may oversleep, and the daemon may hear too late that somebody reads again.
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
        t.tell("it has ended while nobody read");
        return end < taken + NAP + MARGIN;
    }
    read(t);
    let gap = taken.elapsed();
    t.daemon().run_for(2 * MARGIN);
    let late = t.world.lag.late_between(taken + NAP, Instant::now());
    t.tell(format_args!("a nap of {gap:?}, and the machine was {late:?} late behind it"));
    gap < NAP + MARGIN && late < MARGIN
}
