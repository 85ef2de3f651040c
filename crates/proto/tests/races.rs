//! Races of reply, timeout, cancel, drop and close, on a virtual clock (P2, P3, P5, L3 to L5).
//!
//! `a` calls and `b` serves, unless stated otherwise. At the end of each race nothing is left on
//! either side, every call has settled once and every request was answered once. A row may hold
//! several steps, `a close; <-`: only the last has effects.

mod support;

use std::time::{Duration, Instant};

use duet_rpc_proto::message::Id;
use duet_rpc_proto::policy::{Dialect, Order};
use duet_rpc_proto::session::{CallOptions, Ending, Phase, Session};
use duet_rpc_proto::{Limits, Profile};
use support::pair::{Checks as _, Pair};

fn agent() -> Profile {
    Profile::agent()
}

fn desktop() -> Profile {
    Profile::desktop()
}

fn timely(millis: u64) -> Profile {
    agent().with(|it| it.call_timeout = Some(Duration::from_millis(millis)))
}

// ---- reply and timeout

#[test]
fn p2_a_timeout_after_the_reply_has_no_effect() {
    timely(100).race(&[
        ("a call x", "x#1"),
        ("->", ">x#1 1=ok"),
        ("a wait 100; <-", "1:ok"),
        ("a tick; +1000", ""),
    ]);
}

#[test]
fn p2_a_reply_after_the_timeout_is_dropped_and_counted() {
    let a = Pair::new(&timely(100), &agent()).race(&[
        ("a call x", "x#1"),
        ("->", ">x#1 1=ok"),
        ("a wait 100; a tick", "~1 1:timeout"),
        ("<-", "?UnmatchedResponse"),
        ("->", ""),
    ]);
    assert_eq!(a.session.unmatched_responses(), 1);
}

#[test]
fn p2_a_reply_just_before_the_deadline_is_in_time() {
    timely(100).race(&[("a call x", "x#1"), ("->", ">x#1 1=ok"), ("+99; <-", "1:ok"), ("+1", "")]);
}

#[test]
fn p2_a_timeout_cancels_the_handler_and_its_answer_is_dropped() {
    timely(100).race(&[
        ("a call park", "park#1"),
        ("->", ">park#1"),
        ("+100", "~1 1:timeout"),
        ("->", "1!-32800 stop park"),
        ("<-", "?UnmatchedResponse"),
        ("b end park", ""),
    ]);
}

#[test]
fn p2_a_timeout_overtakes_its_own_request() {
    timely(100).race(&[
        ("a call park", "park#1"),
        ("+100", "~1 1:timeout"),
        ("->1", ">park#1"),
        ("->1", "1!-32800 stop park"),
        ("b end park; <-", "?UnmatchedResponse"),
    ]);
}

#[test]
fn p2_many_calls_time_out_in_the_order_of_their_deadlines() {
    agent().race(&[
        ("a call park.x timeout=300", "park.x#1"),
        ("a call park.y timeout=100", "park.y#2"),
        ("a call park.z timeout=100", "park.z#3"),
        ("a call park.w timeout=none", "park.w#4"),
        ("+99; +1", "~2 2:timeout ~3 3:timeout"),
        ("+1000", "~1 1:timeout"),
        ("a drop 4", "~4 4:dropped"),
        (
            "->",
            ">park.x#1 >park.y#2 >park.z#3 >park.w#4 2!-32800 stop park.y \
             3!-32800 stop park.z 1!-32800 stop park.x 4!-32800 stop park.w",
        ),
        ("b end park.x; b end park.y; b end park.z; b end park.w", ""),
    ]);
}

#[test]
fn p2_progress_and_timeout_at_the_same_instant_in_both_orders() {
    let call = ("a call park timeout=100 token=7 total=1000", "park#1");
    agent().race(&[
        call,
        ("->", ">park#1"),
        ("b send %7; a wait 100; <-", ">$/progress"),
        ("a tick; b end park", "1=ok"),
        ("<-", "1:ok"),
    ]);
    agent().race(&[
        call,
        ("->", ">park#1"),
        ("b send %7; a wait 100; a tick", "~1 1:timeout"),
        ("<-", ">$/progress"),
        ("->", "1!-32800 stop park"),
        ("b end park", ""),
    ]);
}

#[test]
fn p2_progress_after_the_reply_has_no_effect() {
    agent().race(&[
        ("a call x timeout=100 token=7 total=1000", "x#1"),
        ("->", ">x#1 1=ok"),
        ("b send %7; <-", "1:ok >$/progress"),
        ("+1000", ""),
    ]);
}

// ---- reply and cancel

#[test]
fn p3_a_cancel_crosses_the_reply_on_the_wire() {
    agent().race(&[
        ("a call x", "x#1"),
        ("->", ">x#1 1=ok"),
        ("a drop 1", "~1 1:dropped"),
        ("->; <-", "?UnmatchedResponse"),
    ]);
}

#[test]
fn p3_a_cancel_right_after_its_request_cancels_it() {
    for profile in [agent(), desktop()] {
        profile.race(&[
            ("a call park", "park#1"),
            ("a drop 1", "~1 1:dropped"),
            ("->", ">park#1 1!-32800 stop park"),
            ("b end park", ""),
        ]);
    }
}

#[test]
fn p3_a_cancel_before_its_request_has_no_effect() {
    agent().race(&[("a send ~1; a call x", "x#1"), ("->", ">x#1 1=ok"), ("<-", "1:ok")]);
}

#[test]
fn p3_a_request_that_waits_is_cancelled_and_never_starts() {
    desktop().race(&[
        ("a call park.x", "park.x#1"),
        ("a call y", "y#2"),
        ("a call z", "z#3"),
        ("->", ">park.x#1"),
        ("a drop 2", "~2 2:dropped"),
        ("->", "2!-32800"),
        ("b end park.x", "1=ok >z#3 3=ok"),
        ("<-", "?UnmatchedResponse 1:ok 3:ok"),
    ]);
}

#[test]
fn p3_the_next_request_waits_until_the_cancelled_handler_has_ended() {
    desktop().race(&[
        ("a call park.x", "park.x#1"),
        ("a call y", "y#2"),
        ("a drop 1", "~1 1:dropped"),
        ("->", ">park.x#1 1!-32800 stop park.x"),
        ("b end park.x", ">y#2 2=ok"),
        ("<-", "?UnmatchedResponse 2:ok"),
    ]);
}

#[test]
fn p3_the_outcome_of_a_cancelled_handler_is_dropped() {
    for end in ["b end park", "b fail park"] {
        agent().race(&[
            ("a call park", "park#1"),
            ("->", ">park#1"),
            ("a drop 1", "~1 1:dropped"),
            ("->", "1!-32800 stop park"),
            (end, ""),
            ("<-", "?UnmatchedResponse"),
        ]);
    }
}

#[test]
fn p3_a_handler_that_finishes_just_before_the_cancel_has_answered() {
    agent().race(&[
        ("a call park", "park#1"),
        ("->", ">park#1"),
        ("a drop 1", "~1 1:dropped"),
        ("b end park", "1=ok"),
        ("->; <-", "?UnmatchedResponse"),
    ]);
}

#[test]
fn p3_a_second_cancel_has_no_effect() {
    agent().race(&[
        ("a call park", "park#1"),
        ("a drop 1", "~1 1:dropped"),
        ("a drop 1; a send ~1; ->", ">park#1 1!-32800 stop park"),
        ("b end park", ""),
    ]);
}

#[test]
fn p3_a_cancelled_id_can_be_reused_while_its_old_handler_runs_or_if_it_never_ran() {
    agent().check(&[
        ("park.a#1", ">park.a#1"),
        ("~1", "1!-32800 stop park.a"),
        ("park.b#1", ">park.b#1"),
        ("c#1", "1!-32600:duplicate-id"),
        // The end of the old request does not affect the new one, which can still be cancelled.
        ("end park.a; d#1", "1!-32600:duplicate-id"),
        ("~1", "1!-32800 stop park.b"),
        ("end park.b; e#1", ">e#1 1=ok"),
    ]);
    // The first request had only waited.
    agent().check(&[
        ("park.n", ">park.n"),
        ("a#1; ~1", "1!-32800"),
        ("b#1; end park.n", ">b#1 1=ok"),
    ]);
}

#[test]
fn p3_of_two_requests_with_one_id_under_sequential_order_the_last_is_cancelled() {
    desktop().check(&[
        ("park.a#1", ">park.a#1"),
        ("b#1; c#1; ~1", "1!-32800"),
        ("end park.a", "1=ok >b#1 1=ok"),
    ]);
}

#[test]
fn p3_cancelling_a_waiting_message_releases_the_messages_after_it() {
    agent()
        .with(|it| it.order = Order::ByKey)
        .check(&[("hold; a/1#1; n/1; m/1; ~1", "1!-32800 >n/1 >m/1"), ("free", "")]);
}

#[test]
fn p3_both_sides_cancel_the_same_id_at_the_same_time() {
    agent().race(&[
        ("a call park", "park#1"),
        ("b call park", "park#1"),
        ("->", ">park#1"),
        ("<-", ">park#1"),
        ("a drop 1", "~1 1:dropped"),
        ("b drop 1", "~1 1:dropped"),
        ("->", "1!-32800 stop park"),
        ("<-", "1!-32800 stop park ?UnmatchedResponse"),
        ("a end park; b end park; ->", "?UnmatchedResponse"),
    ]);
}

#[test]
fn p3_two_sides_with_different_dialects_understand_each_other() {
    let mcp = agent().with(|it| it.dialect = Dialect::Notifications);
    Pair::new(&agent(), &mcp).race(&[
        ("a call park", "park#1"),
        ("b call park", "park#1"),
        ("->", ">park#1"),
        ("<-", ">park#1"),
        // One side uses MCP's dialect and does not answer a cancelled request.
        ("a drop 1", "~1 1:dropped"),
        ("->", "stop park"),
        ("b end park; b drop 1", "~1 1:dropped"),
        ("<-", "1!-32800 stop park"),
        ("a end park; ->", "?UnmatchedResponse"),
    ]);
}

// ---- duplicate and foreign replies

#[test]
fn p1_a_second_reply_is_dropped() {
    agent().race(&[
        ("a call x", "x#1"),
        ("->", ">x#1 1=ok"),
        ("b send {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":2}", ""),
        ("<-", "1:ok ?UnmatchedResponse"),
    ]);
}

#[test]
fn p1_replies_may_come_in_any_order() {
    agent().race(&[
        ("a call park.x", "park.x#1"),
        ("a call park.y", "park.y#2"),
        ("->", ">park.x#1 >park.y#2"),
        ("b end park.y", "2=ok"),
        ("b fail park.x", "1!-32603"),
        ("<-", "2:ok 1:error"),
    ]);
}

#[test]
fn p1_each_side_calls_the_other_from_within_a_handler() {
    desktop().race(&[
        ("a call park.outer", "park.outer#1"),
        ("->", ">park.outer#1"),
        ("b call inner", "inner#1"),
        ("<-", ">inner#1 1=ok"),
        ("->", "1:ok"),
        ("b end park.outer", "1=ok"),
        ("<-", "1:ok"),
    ]);
}

#[test]
fn l8_a_response_after_more_requests_than_may_wait_is_still_read() {
    let limits = Limits::default().with(|it| it.waiting = 1);
    desktop().with(|it| it.limits = limits).race(&[
        ("a call park.outer", "park.outer#1"),
        ("->", ">park.outer#1"),
        ("b call inner", "inner#1"),
        ("a call x", "x#2"),
        ("a call y", "y#3"),
        ("a call z", "z#4"),
        ("<-", ">inner#1 1=ok"),
        ("->", "3!-32000:1 4!-32000:1 1:ok"),
        ("b end park.outer", "1=ok >x#2 2=ok"),
        ("<-", "3:error 4:error 1:ok 2:ok"),
    ]);
}

#[test]
fn l8_without_a_pending_call_excess_requests_stay_unread() {
    let limits = Limits::default().with(|it| it.waiting = 1);
    desktop().with(|it| it.limits = limits).race(&[
        ("a call park.x", "park.x#1"),
        ("a call y", "y#2"),
        ("a call z", "z#3"),
        ("->", ">park.x#1"),
        ("b wants", "false"),
        ("b end park.x", "1=ok >y#2 2=ok"),
        ("->", ">z#3 3=ok"),
        ("<-", "1:ok 2:ok 3:ok"),
    ]);
}

// ---- the end of the input

#[test]
fn l3_messages_before_the_end_of_the_input_are_handled_and_answered() {
    desktop().race(&[
        ("a call park.x", "park.x#1"),
        ("a call y", "y#2"),
        ("->", ">park.x#1"),
        ("b eof", ""),
        // A message that was read with the last bytes is still handled.
        ("b z#9; b end park.x", "1=ok >y#2 2=ok >z#9 9=ok"),
        ("<-", "1:ok 2:ok ?UnmatchedResponse"),
    ]);
}

#[test]
fn p5_the_end_of_the_input_fails_every_pending_call() {
    agent().race(&[
        ("a call park.x", "park.x#1"),
        ("a call y", "y#2"),
        ("->", ">park.x#1 >y#2 2=ok"),
        ("a eof", "1:closed 2:closed"),
        ("a call z", "3:refused"),
        ("b end park.x", "1=ok"),
        // Responses that still arrive are late.
        ("<-", "?UnmatchedResponse ?UnmatchedResponse"),
    ]);
}

#[test]
fn l5_after_the_end_of_the_input_the_time_counts_from_the_last_byte_taken() {
    agent().check(&[
        ("park#1", ">park#1"),
        ("left", "none"),
        ("eof; left", "1750"),
        ("+1000; left", "750"),
        ("took; left", "1750"),
        // Neither a second end nor a byte before the first one gives more time.
        ("+300; eof; left", "1450"),
        ("end park", "1=ok"),
    ]);
}

#[test]
fn l5_after_a_close_the_time_counts_from_the_close() {
    agent().check(&[
        ("park#1", ">park#1"),
        ("close; +1000; took; left", "750"),
        ("close; eof; left", "750"),
        ("end park", "1=ok"),
    ]);
}

#[test]
fn l5_a_signal_after_the_end_of_the_input_only_shortens_the_wait() {
    agent().check(&[
        ("park#1", ">park#1"),
        ("eof; +1000; close; left", "750"),
        ("took; left", "750"),
        ("a#2; end park", "1=ok"),
    ]);
    agent().check(&[
        ("park#1", ">park#1"),
        ("eof; +1000; took; +100; close; left", "1650"),
        ("end park", "1=ok"),
    ]);
}

// ---- closing

#[test]
fn l4_closing_gives_a_running_request_the_time_to_finish_and_takes_no_new_one() {
    agent().race(&[
        ("a call park", "park#1"),
        ("->", ">park#1"),
        ("b close; b wants", "false"),
        ("b late#9; b late; b [late#8 late]; b end park", "1=ok"),
        ("<-", "1:ok"),
    ]);
}

#[test]
fn l4_closing_finishes_waiting_messages_too() {
    desktop().race(&[
        ("a call park.x", "park.x#1"),
        ("a call y", "y#2"),
        ("->", ">park.x#1"),
        ("b close; b end park.x", "1=ok >y#2 2=ok"),
        ("<-", "1:ok 2:ok"),
    ]);
}

#[test]
fn l4_a_shutdown_request_is_answered_and_later_messages_are_dropped() {
    desktop().check(&[
        ("park.x#1", ">park.x#1"),
        ("y#2; shut#3; z#4; n; [w#5 m]", ""),
        ("end park.x", "1=ok >y#2 2=ok >shut#3 [5!-32600:shutting-down] 3=ok"),
        ("late#6; [late#7]", ""),
    ]);
}

#[test]
fn l4_requests_running_before_the_shutdown_are_finished() {
    agent().check(&[("park.x#1", ">park.x#1"), ("shut", ">shut"), ("late#2; end park.x", "1=ok")]);
}

#[test]
fn l4_m6_every_request_of_a_batch_is_answered_if_it_came_before_the_shutdown() {
    let late = |shown: &str| shown.replace("!late", "!-32600:shutting-down");
    desktop()
        .check(&[("[a#1 shut#2 b#3 n 7]", &late(">a#1 >shut#2 [1=ok 2=ok 3!late null!-32600]"))]);
    // It does not start, so running requests do not delay it.
    agent().check(&[
        ("[park.a#1 shut#2 b#3 a#1]", ">park.a#1 >shut#2"),
        ("end park.a", &late("[2=ok 3!late 1!late 1=ok]")),
    ]);
    // Messages after a handler that closes: in its own batch, in another, and alone.
    desktop().check(&[
        ("[park.a#1 park.shut#2 b#3 c#4]", ">park.a#1"),
        ("end park.a", ">park.shut#2"),
        ("close park.shut", ""),
        ("end park.shut", &late("[1=ok 3!late 4!late 2=ok]")),
    ]);
    desktop().check(&[
        ("park.shut#1", ">park.shut#1"),
        ("[a#2 7 b#3]; c#4", ""),
        ("close park.shut", &late("[2!late null!-32600 3!late]")),
        ("end park.shut", "1=ok"),
    ]);
    // A running request of a batch whose other requests wait.
    agent().with(|it| it.order = Order::ByKey).check(&[
        ("park.shut#1", ">park.shut#1"),
        ("[park.a/1#2 b/1#3]", ">park.a/1#2"),
        ("close park.shut", ""),
        ("end park.a/1", &late("[3!late 2=ok]")),
        ("end park.shut", "1=ok"),
    ]);
    // A batch that arrives later is not answered, like any other request.
    agent().check(&[
        ("park.a#1", ">park.a#1"),
        ("call x", "x#1"),
        ("shut#2", ">shut#2 2=ok"),
        ("[b#3 7]; b#4; 1=", "1:ok"),
        ("end park.a", "1=ok"),
    ]);
}

#[test]
fn l4_a_closing_session_answers_neither_valid_nor_bad_messages() {
    agent().check(&[
        ("park#1", ">park#1"),
        ("call x", "x#1"),
        ("close; wants", "true"),
        ("a#2; {}; fault; [1 2]; 1=", "1:ok"),
        ("end park", "1=ok"),
    ]);
}

#[test]
fn p3_a_request_can_be_cancelled_while_we_close() {
    agent().race(&[
        ("a call park", "park#1"),
        ("->", ">park#1"),
        ("b close; b ~1", "1!-32800 stop park"),
        ("b end park; <-", "1:error"),
    ]);
}

#[test]
fn p5_a_closing_session_still_receives_responses() {
    agent().race(&[
        ("a call park.outer", "park.outer#1"),
        ("->", ">park.outer#1"),
        ("b call inner", "inner#1"),
        ("b close; b wants", "true"),
        ("<-", ">inner#1 1=ok"),
        ("a call more", "more#2"),
        ("->", "1:ok"),
        ("b wants", "false"),
        ("b call again", "2:refused"),
        ("b end park.outer", "1=ok"),
        ("<-", "1:ok"),
        ("a eof", "2:closed"),
    ]);
}

#[test]
fn p5_if_the_input_ends_while_closing_pending_calls_fail() {
    agent().check(&[
        ("park.outer#1", ">park.outer#1"),
        ("call inner", "inner#1"),
        ("close; eof", "1:closed"),
        ("wants", "false"),
        ("end park.outer", "1=ok"),
    ]);
}

#[test]
fn p5_a_close_right_after_the_end_of_the_input_does_not_make_calls_wait_again() {
    let (now, mut session) = (Instant::now(), Session::new(&agent()));
    assert_eq!(session.call(Id::from(1), "caller", CallOptions::default(), now), Ok(()));
    session.handle_end(now);
    session.close(None, now, &mut Vec::new());
    assert_eq!(session.abandon(), Some((Id::from(1), "caller")));
    assert!(session.is_clean());
}

#[test]
fn p5_when_the_connection_is_gone_every_pending_call_fails() {
    agent().race(&[
        ("a call park.x", "park.x#1"),
        ("a call y", "y#2"),
        ("->", ">park.x#1 >y#2 2=ok"),
        ("a gone", "1:closed 2:closed"),
        ("a call z", "3:refused"),
        ("a 2=", "?UnmatchedResponse"),
        ("b gone; b end park.x", ""),
    ]);
}

#[test]
fn p5_a_timeout_drop_or_reply_at_the_instant_of_the_end_in_both_orders() {
    timely(100).race(&[
        ("a call x", "x#1"),
        ("a wait 100; a tick", "~1 1:timeout"),
        ("a gone", ""),
    ]);
    timely(100).race(&[("a call x", "x#1"), ("a wait 100; a gone", "1:closed"), ("a tick", "")]);
    agent().race(&[("a call x", "x#1"), ("a drop 1", "~1 1:dropped"), ("a gone", "")]);
    agent().race(&[("a call x", "x#1"), ("a gone", "1:closed"), ("a drop 1", "")]);
    agent().race(&[
        ("a call x", "x#1"),
        ("->", ">x#1 1=ok"),
        ("<-", "1:ok"),
        ("a close; a gone", ""),
    ]);
    agent().race(&[
        ("a call x", "x#1"),
        ("->", ">x#1 1=ok"),
        ("a close; <-", "1:ok"),
        ("a gone", ""),
    ]);
}

#[test]
fn p5_waiting_messages_never_start_after_the_connection_is_gone() {
    desktop().check(&[
        ("park.x#1", ">park.x#1"),
        ("y#2; n; [z#3 m w#4]; gone; late#5; late; end park.x", ""),
    ]);
}

#[test]
fn p5_a_phase_never_goes_back() {
    let mut pair = Pair::new(&agent(), &agent());
    let ending = |pair: &Pair| match pair.a.session.phase() {
        Phase::Open => "open",
        Phase::Draining(draining) if draining.ending == Ending::Input => "input",
        Phase::Draining(_) => "closing",
        Phase::Closed => "closed",
    };
    let rows = [
        ("a tick", "open"),
        ("a eof", "input"),
        ("a eof", "input"),
        ("a close", "closing"),
        ("a eof", "closing"),
        ("a gone", "closed"),
        ("a close", "closed"),
        ("a eof", "closed"),
        ("a took", "closed"),
    ];
    for (step, expect) in rows {
        pair.step(step);
        assert_eq!(ending(&pair), expect, "{step}");
    }
    pair.finish();
}

#[test]
fn l5_a_closed_session_has_no_deadline() {
    let mut pair = Pair::new(&agent(), &agent());
    for step in ["a call x timeout=none", "a close", "a left", "a gone"] {
        pair.step(step);
    }
    assert_eq!(pair.a.session.poll_timeout(), None);
    assert_eq!(pair.a.session.drain_deadline(), None);
    pair.finish();
}
