//! Handlers that still run at the end, for longer than the daemon waits (L5).

use super::prelude::*;

pub(super) const KINDS: &[Kind] = &[
    ("handler-sleeps", |t| runs(t, "test.sleep")),
    ("handler-blocks", |t| runs(t, "test.block")),
    ("handler-spins", |t| runs(t, "test.spin")),
    ("handler-naps", |t| runs(t, "test.nap")),
    ("handler-jams", |t| runs(t, "test.jam")),
    // Many handlers panic, some possibly while the daemon already ends.
    ("handler-panics", |t| {
        let count = 1 + t.testbed().start()?.random.below(40);
        t.tell(format_args!("{count} panics"));
        for _ in 0..count {
            t.ask("test.panic", &json!(null), Outcome::Code(-32603));
            if t.random.once_in(5) {
                t.messages(1);
            }
        }
        t.close_stdin().finish(complete())?;
        let is_hidden = !t.daemon().has_said("must not show");
        t.conclude(is_hidden, "the message of a panic shows")
    }),
    // A handler sends many notifications while the daemon ends.
    ("handler-emits", |t| {
        let count = 1 + t.testbed().start()?.greet()?.random.below(20_000);
        t.tell(format_args!("{count} notifications"));
        t.ask("test.emit", &json!({"count": count}), Outcome::result(&json!(count)));
        match t.pause().random.once_in(2) {
            true => t.close_stdin().finish(complete()),
            false => t.flush().end_by(Signal::TERM).finish(Ending::code(0)),
        }
    }),
];

/// Starts a handler that outlasts the daemon, and ends the daemon in a random way.
fn runs(t: &mut Trial<'_>, method: &str) -> Lived {
    if t.telling().random.once_in(4) {
        t.tell("the exit hook never returns").env("TESTBED_IS_NEVER_DONE", "1");
    }
    if t.start()?.random.once_in(2) {
        t.greet()?;
    }
    t.ask(method, &json!({"ms": 60_000}), Outcome::Any).await_begin(method).pause();
    match t.random.below(5) {
        0 => t.close_stdin().daemon().counts_from_last_byte = false,
        // A handler that jams the reading thread keeps this message from being read.
        1 if method != "test.jam" && method != "test.nap" => {
            t.tell("shutdown").ask("shutdown", &json!(null), Outcome::Any).mark();
        }
        other => _ = t.end_by([Signal::INT, Signal::TERM, Signal::HUP][other % 3]),
    }
    t.finish(Ending::code(0))
}
