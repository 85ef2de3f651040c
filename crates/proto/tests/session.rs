//! The session, rule by rule: F7, M6, M7, M10, M11, L2, L8, P1 to P4, P9.
//!
//! A row may hold several steps, `hold; a#1; free`: only the last has effects.

mod support;

use std::time::{Duration, Instant};

use duet_rpc_proto::message::{Code, Id, InvalidResponseReason};
use duet_rpc_proto::notice::{Notice, Severity};
use duet_rpc_proto::policy::Order::{self, Barrier, ByKey, Concurrent, Sequential};
use duet_rpc_proto::policy::{Dialect, IdStyle};
use duet_rpc_proto::session::{
    CallOptions, EventQueue, FaultAction, FaultLimit, Ids, Priority, Progress, Session,
};
use duet_rpc_proto::{Limits, Profile};
use support::pair::Checks as _;

fn ordered(order: Order) -> Profile {
    Profile::agent().with(|it| it.order = order)
}

fn limited(order: Order, set: impl FnOnce(&mut Limits)) -> Profile {
    ordered(order).with(|it| set(&mut it.limits))
}

fn in_flight(order: Order, in_flight: usize) -> Profile {
    limited(order, |it| it.in_flight = in_flight)
}

const ALL: [Order; 4] = [Sequential, Barrier, Concurrent, ByKey];

// ---- F7: limit on answered faults

#[test]
fn f7_beyond_a_thousand_in_a_row_bad_messages_are_counted_and_logged_once_a_second() {
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    let mut limit = FaultLimit::new(&Limits::default());
    for _ in 0..1000 {
        assert_eq!(limit.handle_bad(start), FaultAction::Answer);
    }
    assert_eq!(limit.handle_bad(at(0)), FaultAction::Report(Notice::Muted(1)));
    assert_eq!(limit.handle_bad(at(500)), FaultAction::Mute);
    assert_eq!(limit.handle_bad(at(999)), FaultAction::Mute);
    assert_eq!(limit.handle_bad(at(1000)), FaultAction::Report(Notice::Muted(3)));
    assert_eq!(limit.handle_bad(at(1001)), FaultAction::Mute);
    // A valid message resets the count. Every muted message is counted, and reports stay at one per
    // second.
    limit.handle_good();
    for _ in 0..1000 {
        assert_eq!(limit.handle_bad(at(1002)), FaultAction::Answer);
    }
    assert_eq!(limit.handle_bad(at(1002)), FaultAction::Mute);
    assert_eq!(limit.handle_timeout(at(2000)), Some(Notice::Muted(2)));
}

#[test]
fn f7_muted_messages_are_reported_even_if_nothing_more_comes() {
    let start = Instant::now();
    let mut limit = FaultLimit::new(&Limits::default().with(|it| it.answered_faults = 0));
    assert_eq!(limit.poll_timeout(), None);
    assert_eq!(limit.handle_bad(start), FaultAction::Report(Notice::Muted(1)));
    assert_eq!(limit.poll_timeout(), None, "nothing is left to report");
    assert_eq!(limit.handle_bad(start), FaultAction::Mute);
    let due = start + Duration::from_secs(1);
    assert_eq!(limit.poll_timeout(), Some(due));
    assert_eq!(limit.handle_timeout(start), None);
    assert_eq!(limit.handle_timeout(due), Some(Notice::Muted(1)));
    assert_eq!((limit.poll_timeout(), limit.handle_timeout(due)), (None, None));
    // At the end all are reported, even before a report is due.
    assert_eq!(limit.handle_bad(due), FaultAction::Mute);
    assert_eq!(limit.take_muted(), Some(Notice::Muted(1)));
    assert_eq!(limit.take_muted(), None);
}

#[test]
fn f7_a_valid_message_in_between_resets_the_count() {
    let mut limit = FaultLimit::new(&Limits::default().with(|it| it.answered_faults = 2));
    for _ in 0..10 {
        assert_eq!(limit.handle_bad(Instant::now()), FaultAction::Answer);
        assert_eq!(limit.handle_bad(Instant::now()), FaultAction::Answer);
        limit.handle_good();
    }
}

#[test]
fn f7_faults_invalid_messages_and_invalid_responses_count_and_any_valid_message_resets() {
    let profile = limited(Barrier, |it| it.answered_faults = 2);
    for good in ["unknown#1", "unknown", "9=", "~9"] {
        let mut side = profile.play(&[
            ("fault", "null!-32700"),
            ("{}", "null!-32600"),
            ("7", "?Muted(1)"),
            (r#"{"jsonrpc":"2.0","result":1}"#, ""),
            ("+1000", "?Muted(1)"),
            ("+1000", ""),
        ]);
        side.step(good);
        assert_eq!(side.step("{}"), "null!-32600", "after {good}");
        side.finish();
    }
}

#[test]
fn f7_muted_entries_leave_their_batch_and_a_batch_of_them_is_not_answered() {
    let profile = limited(Barrier, |it| it.answered_faults = 2);
    profile.check(&[
        ("[1 2 3 4]", "?Muted(1) [null!-32600 null!-32600]"),
        ("[5 6]; +1000", "?Muted(3)"),
        ("[7 a#1 8]", ">a#1 [1=ok null!-32600]"),
    ]);
}

// ---- M6: batches

#[test]
fn m6_a_batch_is_answered_as_a_whole_after_its_last_request() {
    for order in ALL {
        ordered(order).check(&[("[a#1 b#2]", ">a#1 >b#2 [1=ok 2=ok]"), ("[a#1]", ">a#1 [1=ok]")]);
    }
    ordered(Barrier).check(&[
        ("[park.a#1 b#2 fail#3 n]", ">park.a#1 >b#2 >fail#3 >n"),
        ("c#4", ">c#4 4=ok"),
        ("end park.a", "[2=ok 3!-32603 1=ok]"),
    ]);
}

#[test]
fn m6_a_batch_of_notifications_and_responses_gets_no_answer() {
    ordered(Barrier).check(&[
        ("[n m]", ">n >m"),
        ("call x", "x#1"),
        ("[1= n]", "1:ok >n"),
        ("[park]", ">park"),
        ("end park; [9=]", "?UnmatchedResponse"),
    ]);
}

#[test]
fn m6_a_response_in_a_batch_settles_its_call_and_the_rest_is_answered() {
    ordered(Barrier).check(&[("call x", "x#1"), ("[a#7 1! b#8]", ">a#7 1:error >b#8 [7=ok 8=ok]")]);
}

#[test]
fn m6_each_invalid_entry_is_answered_in_the_array() {
    ordered(Sequential).check(&[
        ("[1 2 3]", "[null!-32600 null!-32600 null!-32600]"),
        ("[]", "null!-32600"),
        ("[a#1 {} [] n]", ">a#1 >n [1=ok null!-32600 null!-32600]"),
    ]);
    let profile = limited(Barrier, |it| it.batch_entries = 2);
    profile.check(&[
        ("[a#1 b#2 c#3]", "null!-32600:oversize"),
        ("[1 2]", "[null!-32600 null!-32600]"),
    ]);
    Profile::editor().check(&[("[a#1]", "null!-32600:batch-not-supported")]);
}

#[test]
fn m6_waiting_entries_delay_the_array() {
    ordered(Sequential).check(&[
        ("[park.a#1 b#2 park.c#3]", ">park.a#1"),
        ("d#4; end park.a", ">b#2 >park.c#3"),
        ("end park.c", "[1=ok 2=ok 3=ok] >d#4 4=ok"),
    ]);
    ordered(Barrier)
        .check(&[("[park.n a#1 b#2]", ">park.n"), ("end park.n", ">a#1 >b#2 [1=ok 2=ok]")]);
}

#[test]
fn m6_a_cancelled_entry_is_answered_in_its_array() {
    ordered(Sequential).check(&[
        ("[park.a#1 b#2]", ">park.a#1"),
        ("~2; ~1", "[2!-32800 1!-32800] stop park.a"),
        ("end park.a", ""),
    ]);
    // Even if the cancellation is in the same array.
    ordered(Barrier).check(&[
        ("[park.a#1 ~1 b#2]", ">park.a#1 stop park.a >b#2 [1!-32800 2=ok]"),
        ("end park.a", ""),
    ]);
}

#[test]
fn m6_answers_of_two_concurrent_batches_do_not_mix() {
    ordered(Concurrent).check(&[
        ("[park.a#1 x#2]", ">park.a#1 >x#2"),
        ("[park.b#3 y#4]", ">park.b#3 >y#4"),
        ("end park.b", "[4=ok 3=ok]"),
        ("fail park.a", "[2=ok 1!-32603]"),
    ]);
}

#[test]
fn m6_beyond_the_limit_of_its_answer_the_rest_of_a_batch_is_answered_busy() {
    limited(Barrier, |it| it.batch_bytes = 200).check(&[(
        "[big#1 big#2 c#3 n d#4]",
        ">big#1 >big#2 >n [1=xxxxxxxxxx 2=xxxxxxxxxx 3!-32000:200 4!-32000:200]",
    )]);
}

#[test]
fn m6_waiting_entries_are_answered_busy_once_the_array_is_too_large() {
    limited(Sequential, |it| it.batch_bytes = 200).check(&[
        ("[park.a#1 big#2 big#3 c#4 n d#5]", ">park.a#1"),
        (
            "end park.a",
            ">big#2 >big#3 >n \
             [1=ok 2=xxxxxxxxxx 3=xxxxxxxxxx 4!-32000:200 5!-32000:200]",
        ),
        ("e#6", ">e#6 6=ok"),
    ]);
}

#[test]
fn m6_the_limit_counts_all_open_batches_together() {
    limited(Barrier, |it| it.batch_bytes = 200).check(&[
        ("[park.a#1 big#2]", ">park.a#1 >big#2"),
        ("[park.b#3 big#4]", ">park.b#3 >big#4"),
        ("[c#5]", "[5!-32000:200]"),
        ("end park.a", "[2=xxxxxxxxxx 1=ok]"),
        ("[c#6]", ">c#6 [6=ok]"),
        ("end park.b", "[4=xxxxxxxxxx 3=ok]"),
    ]);
}

// ---- M7, M10, M11

#[test]
fn m7_a_response_matches_once_and_an_unmatched_one_is_a_warning() {
    let side = ordered(Barrier).play(&[
        ("call x", "x#1"),
        ("call y", "y#2"),
        ("2=", "2:ok"),
        ("2=", "?UnmatchedResponse"),
        ("3=", "?UnmatchedResponse"),
        // An id of another type, or the same number in another spelling, is another id.
        ("{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":0}", "?UnmatchedResponse"),
        ("{\"jsonrpc\":\"2.0\",\"id\":1.0,\"result\":0}", "?UnmatchedResponse"),
        ("{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":0}", "?UnmatchedResponse"),
        ("1!", "1:error"),
    ]);
    side.finish();
    assert_eq!(side.session.unmatched_responses(), 5);
    assert_eq!(Notice::UnmatchedResponse.severity(), Severity::Warn);
    assert_eq!(Notice::InvalidResponse(InvalidResponseReason::BadId).severity(), Severity::Warn);
}

#[test]
fn m7_an_invalid_response_is_dropped_and_its_call_stays_pending() {
    ordered(Barrier).check(&[
        ("call x", "x#1"),
        (r#"{"jsonrpc":"2.0","result":1}"#, "?InvalidResponse(BadId)"),
        (r#"{"jsonrpc":"1.0","id":1,"result":1}"#, "?InvalidResponse(BadVersion)"),
        (r#"{"jsonrpc":"2.0","id":1,"result":1,"result":1}"#, "?InvalidResponse(MemberTwice)"),
        (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#, "?InvalidResponse(ResultAndError)"),
        ("1=", "1:ok"),
    ]);
}

#[test]
fn m10_a_notification_is_never_answered() {
    for order in ALL {
        ordered(order).check(&[
            ("n", ">n"),
            ("fail", ">fail"),
            ("park", ">park"),
            ("fail park", ""),
        ]);
    }
}

#[test]
fn m10_a_dropped_notification_is_an_error_in_the_log_and_an_unknown_one_a_warning() {
    assert_eq!(Notice::UnknownNotification.severity(), Severity::Warn);
    assert_eq!(Notice::NotificationDropped.severity(), Severity::Error);
}

#[test]
fn m11_an_id_in_flight_is_refused_and_the_first_request_is_not_disturbed() {
    for order in [Barrier, Concurrent, ByKey] {
        ordered(order).check(&[
            ("park.a#1", ">park.a#1"),
            ("b#1", "1!-32600:duplicate-id"),
            ("{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"c\"}", ">c#1 1=ok"),
            ("[d#1 e#2]", ">e#2 [1!-32600:duplicate-id 2=ok]"),
            ("end park.a", "1=ok"),
            ("f#1", ">f#1 1=ok"),
        ]);
    }
}

#[test]
fn m11_a_waiting_id_is_in_flight_and_escapes_do_not_make_another_id() {
    ordered(Barrier).check(&[
        ("park", ">park"),
        ("a#a", ""),
        (r#"{"jsonrpc":"2.0","id":"\u0061","method":"b"}"#, "a!-32600:duplicate-id"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"c"}"#, ""),
        (r#"{"jsonrpc":"2.0","id":null,"method":"d"}"#, "null!-32600:duplicate-id"),
        ("end park", ">a#a a=ok >c#null null=ok"),
    ]);
}

#[test]
fn m11_under_sequential_order_no_id_is_a_duplicate() {
    ordered(Sequential).check(&[
        ("park.a#1", ">park.a#1"),
        ("park.b#1; c#1; end park.a", "1=ok >park.b#1"),
        ("end park.b", "1=ok >c#1 1=ok"),
    ]);
}

// ---- L2: the orders

#[test]
fn p3_m11_under_sequential_order_a_cancellation_finds_every_request_with_the_same_id() {
    // Both wait: the later one is cancelled, then the other, then none.
    ordered(Sequential).check(&[
        ("park.x#1", ">park.x#1"),
        ("park.a#7; park.b#7; ~7", "7!-32800"),
        ("~7", "7!-32800"),
        ("~7; end park.x", "1=ok"),
    ]);
    // Three of them wait, and a request before them starts.
    ordered(Sequential).check(&[
        ("park.x#1", ">park.x#1"),
        ("park.y#8; park.a#7; park.b#7; park.c#7; end park.x", "1=ok >park.y#8"),
        ("~7", "7!-32800"),
        ("~7", "7!-32800"),
        ("~7", "7!-32800"),
        ("~7; end park.y", "8=ok"),
    ]);
    // The first runs and ends, and another request waits between the two.
    ordered(Sequential).check(&[
        ("park.x#1", ">park.x#1"),
        ("park.a#7; park.c#8; park.b#7; end park.x", "1=ok >park.a#7"),
        ("end park.a", "7=ok >park.c#8"),
        ("~7", "7!-32800"),
        ("end park.c", "8=ok"),
    ]);
    // The first runs, and is cancelled too.
    ordered(Sequential).check(&[
        ("park.a#7", ">park.a#7"),
        ("park.b#7; ~7", "7!-32800"),
        ("~7", "7!-32800 stop park.a"),
        ("~7; end park.a", ""),
    ]);
}

#[test]
fn l2_sequential_one_message_is_finished_before_the_next_begins() {
    ordered(Sequential).check(&[
        ("park.a#1", ">park.a#1"),
        ("b#2; n; park.m; c#3; end park.a", "1=ok >b#2 2=ok >n >park.m"),
        ("end park.m", ">c#3 3=ok"),
    ]);
}

#[test]
fn l2_sequential_invalid_messages_are_answered_in_their_turn() {
    ordered(Sequential).check(&[
        ("park.a#1", ">park.a#1"),
        (r#"{"jsonrpc":"2.0","id":2,"method":7}"#, ""),
        ("fault; b#3; {}; end park.a", "1=ok 2!-32600 null!-32700 >b#3 3=ok null!-32600"),
        ("{}", "null!-32600"),
    ]);
    // They are answered immediately if no more may wait and reading cannot stop.
    limited(Sequential, |it| it.waiting = 1).check(&[
        ("park.a#1", ">park.a#1"),
        ("b#2; call x", "x#1"),
        ("{}", "null!-32600"),
        ("1=", "1:ok"),
        ("end park.a", "1=ok >b#2 2=ok"),
    ]);
    // Every other order answers immediately.
    for order in [Barrier, Concurrent, ByKey] {
        ordered(order).check(&[("park#1", ">park#1"), ("{}", "null!-32600"), ("end park", "1=ok")]);
    }
}

#[test]
fn l2_m6_sequential_a_batch_of_invalid_entries_is_answered_in_its_turn() {
    ordered(Sequential).check(&[
        ("park.a#1", ">park.a#1"),
        ("fault; [1 {}]; [{} b#2]; c#3", ""),
        (
            "end park.a",
            "1=ok null!-32700 [null!-32600 null!-32600] >b#2 [null!-32600 2=ok] >c#3 3=ok",
        ),
        ("[1]", "[null!-32600]"),
    ]);
}

#[test]
fn l2_sequential_an_invalid_message_does_not_overtake_a_held_request() {
    ordered(Sequential).check(&[
        ("hold; a#1; {}; free", ">a#1 1=ok null!-32600"),
        // It does not overtake a running request either. A call of ours is pending, so reading
        // cannot stop, but one more message may wait.
        ("call x", "x#1"),
        ("park#2", ">park#2"),
        ("{}; end park", "2=ok null!-32600"),
        ("1=", "1:ok"),
    ]);
}

#[test]
fn l8_while_requests_are_held_reading_stops_at_the_in_flight_limit() {
    for order in [Barrier, Concurrent, ByKey] {
        in_flight(order, 2).check(&[
            ("hold; a#1; wants", "true"),
            ("b#2; wants", "false"),
            ("free", ">a#1 1=ok >b#2 2=ok"),
            ("wants", "true"),
        ]);
    }
}

#[test]
fn l2_barrier_requests_run_concurrently_and_a_notification_finishes_first() {
    ordered(Barrier).check(&[
        ("park.a#1", ">park.a#1"),
        ("park.b#2", ">park.b#2"),
        ("park.n", ">park.n"),
        ("c#3; park.m; d#4", ""),
        // Earlier requests do not delay the notification, nor does it delay them.
        ("end park.b", "2=ok"),
        ("end park.n", ">c#3 3=ok >park.m"),
        ("end park.m", ">d#4 4=ok"),
        ("end park.a", "1=ok"),
    ]);
}

#[test]
fn l2_concurrent_nothing_waits_for_anything() {
    ordered(Concurrent).check(&[
        ("park.n", ">park.n"),
        ("park.a#1", ">park.a#1"),
        ("b#2", ">b#2 2=ok"),
        ("end park.a", "1=ok"),
        ("end park.n", ""),
    ]);
}

#[test]
fn l2_by_key_messages_of_one_key_run_in_order_and_others_concurrently() {
    ordered(ByKey).check(&[
        ("park.a/1#1", ">park.a/1#1"),
        ("b/1#2; park.n/2", ">park.n/2"),
        ("c/2#3; d#4", ">d#4 4=ok"),
        ("m/1; end park.n/2", ">c/2#3 3=ok"),
        ("end park.a/1", "1=ok >b/1#2 2=ok >m/1"),
    ]);
    // The greatest key is a key like any other.
    ordered(ByKey).check(&[
        ("park/18446744073709551615", ">park/18446744073709551615"),
        ("a/18446744073709551615#1; b#2", ">b#2 2=ok"),
        ("end park/18446744073709551615", ">a/18446744073709551615#1 1=ok"),
    ]);
}

#[test]
fn l2_by_key_a_lane_that_is_never_empty_does_not_starve_others() {
    in_flight(ByKey, 2).check(&[
        ("park.x", ">park.x"),
        ("park.a/1", ">park.a/1"),
        ("park.b/1; park.c/2; park.d/1; park.e; end park.a/1", ">park.b/1"),
        ("end park.b/1", ">park.c/2"),
        ("end park.c/2", ">park.d/1"),
        ("end park.d/1", ">park.e"),
        ("end park.e; end park.x", ""),
    ]);
}

#[test]
fn l2_by_key_requests_and_notifications_take_turns_by_their_age() {
    in_flight(ByKey, 2).check(&[
        ("park.x", ">park.x"),
        ("park.y", ">park.y"),
        ("park.a/1; b/2#1; park.c/3; end park.x", ">park.a/1"),
        ("end park.y", ">b/2#1 1=ok >park.c/3"),
        ("end park.a/1; end park.c/3", ""),
    ]);
}

#[test]
fn l8_messages_without_a_lane_do_not_wait_behind_a_held_request() {
    for order in [Concurrent, ByKey] {
        in_flight(order, 1).check(&[
            ("park.x", ">park.x"),
            ("a#1; n; hold; end park.x", ">n"),
            ("free", ">a#1 1=ok"),
        ]);
    }
}

#[test]
fn l2_responses_and_cancellations_never_wait() {
    for order in ALL {
        ordered(order).check(&[
            ("call x", "x#1"),
            ("park.n/1", ">park.n/1"),
            ("park.a/1#7", if order == Concurrent { ">park.a/1#7" } else { "" }),
            ("hold; 1=", "1:ok"),
            ("~7", if order == Concurrent { "7!-32800 stop park.a/1" } else { "7!-32800" }),
            ("end park.n/1", ""),
            if order == Concurrent { ("end park.a/1", "") } else { ("free", "") },
        ]);
    }
}

// ---- P4: capacity

#[test]
fn p4_requests_over_the_limit_are_answered_busy_with_the_limit() {
    for order in [Barrier, Concurrent, ByKey] {
        in_flight(order, 2).check(&[
            ("call x", "x#1"),
            ("park.a#1", ">park.a#1"),
            ("park.b#2", ">park.b#2"),
            ("c#3", "3!-32000:2"),
            ("1=", "1:ok"),
            // A notification cannot be refused.
            ("n; ~1", "1!-32800 stop park.a"),
            // Its handler still runs.
            ("d#4", "4!-32000:2"),
            ("end park.a", ">n"),
            ("e#5", ">e#5 5=ok"),
            ("end park.b", "2=ok"),
        ]);
    }
}

#[test]
fn p4_waiting_requests_count_like_running_ones() {
    in_flight(Barrier, 2).check(&[
        ("park.n", ">park.n"),
        ("a#1; b#2; c#3", "3!-32000:2"),
        ("end park.n", ">a#1 1=ok >b#2 2=ok"),
    ]);
    in_flight(Barrier, 0).check(&[("a#1", "1!-32000:0"), ("n", ">n")]);
}

#[test]
fn p4_a_call_over_the_limit_of_pending_calls_fails_immediately() {
    limited(Barrier, |it| it.pending_calls = 2).check(&[
        ("call a", "a#1"),
        ("call b", "b#2"),
        ("call c", "3:refused"),
        ("drop 1", "~1 1:dropped"),
        ("call d", "d#4"),
        ("2=", "2:ok"),
        ("4=", "4:ok"),
    ]);
}

#[test]
fn p1_an_id_that_is_pending_is_not_given_to_a_second_call() {
    let (now, second) = (Instant::now(), Duration::from_secs(1));
    let mut session = Session::new(&ordered(Barrier));
    let terms = |timeout| CallOptions { timeout: Some(timeout), progress: None };
    assert_eq!(session.call(Id::from(1), "first", terms(second), now), Ok(()));
    assert_eq!(session.call(Id::from(1), "second", terms(second * 2), now), Err("second"));
    assert_eq!(session.next_expired(now), None);
    let expired = session.next_expired(now + second).cloned().expect("its time is over");
    assert_eq!(session.fail(&expired), Some("first"));
    assert!(session.is_clean() && session.poll_timeout().is_none());
}

#[test]
fn p6_a_call_that_the_transport_lost_ends_once_and_leaves_nothing_behind() {
    let (now, second) = (Instant::now(), Duration::from_secs(1));
    let mut session = Session::new(&ordered(Barrier));
    let progress = Some(Progress { token: Id::from(7), total: second * 9 });
    let terms = CallOptions { timeout: Some(second), progress };
    assert_eq!(session.call(Id::from(1), "lost", terms, now), Ok(()));
    assert_eq!(session.fail(&Id::from(2)), None, "there is no such call");
    assert_eq!(session.fail(&Id::from(1)), Some("lost"));
    assert_eq!(session.fail(&Id::from(1)), None, "it has ended");
    assert_eq!(session.next_expired(now + second), None);
    assert!(session.is_clean() && session.poll_timeout().is_none());
}

// ---- L8: back-pressure

#[test]
fn l8_under_sequential_order_reading_stops_at_the_waiting_limit() {
    limited(Sequential, |it| it.waiting = 2).check(&[
        ("park.a#1", ">park.a#1"),
        ("b#2; wants", "true"),
        ("park.c#3; wants", "false"),
        // Messages that were read already still wait.
        ("d#4; end park.a", "1=ok >b#2 2=ok >park.c#3"),
        ("wants", "true"),
        ("end park.c", "3=ok >d#4 4=ok"),
    ]);
}

#[test]
fn l8_while_a_call_is_pending_excess_requests_are_answered_busy() {
    limited(Sequential, |it| it.waiting = 1).check(&[
        ("park.a#1", ">park.a#1"),
        ("b#2; wants", "false"),
        ("call x", "x#1"),
        ("wants", "true"),
        ("c#3", "3!-32000:1"),
        ("n; 1=", "1:ok"),
        ("wants", "false"),
        ("end park.a", "1=ok >b#2 2=ok >n"),
    ]);
}

#[test]
fn l8_waiting_bytes_are_bounded_and_the_answer_names_the_limit_reached() {
    limited(Sequential, |it| it.waiting_bytes = 500).check(&[
        ("park.a#1", ">park.a#1"),
        ("b#2; wants", "true"),
        ("c#3; wants", "false"),
        ("call x", "x#1"),
        ("d#4", "4!-32000:500"),
        // Notifications may exceed it by some bytes, then they are dropped.
        ("n1; n2; n3; n4; n5; n6; n7", "?NotificationDropped"),
        ("1=", "1:ok"),
        ("end park.a", "1=ok >b#2 2=ok >c#3 3=ok >n1 >n2 >n3 >n4 >n5 >n6"),
    ]);
}

#[test]
fn l8_while_requests_are_held_notifications_go_on() {
    for order in ALL {
        ordered(order).check(&[
            ("hold; n/1", ">n/1"),
            ("a/1#1; b/2#2; free", ">a/1#1 1=ok >b/2#2 2=ok"),
            ("c#3", ">c#3 3=ok"),
        ]);
    }
}

#[test]
fn l8_a_notification_after_a_held_request_keeps_its_place() {
    for order in [Sequential, Barrier, ByKey] {
        ordered(order).check(&[
            ("hold; a/1#1; n/1", ""),
            // Without the request it has nothing to wait for.
            ("~1", "1!-32800 >n/1"),
            ("b/1#2; m/1; free", ">b/1#2 2=ok >m/1"),
        ]);
    }
}

// ---- P2, P3: the words of cancellation and progress

/// The cancellation of a request in each dialect.
fn cancellations(id: u8) -> [String; 2] {
    [("$/cancelRequest", "id"), ("notifications/cancelled", "requestId")].map(|(method, member)| {
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"{member}":{id}}}}}"#)
    })
}

const DIALECTS: [Dialect; 3] = [Dialect::Dollar, Dialect::Notifications, Dialect::None];

#[test]
fn p3_cancellations_of_both_dialects_are_understood_in_every_dialect() {
    for dialect in DIALECTS {
        // In MCP's dialect a cancelled request gets no answer.
        let answered = |text| if dialect == Dialect::Notifications { "" } else { text };
        for (running, waiting) in cancellations(1).into_iter().zip(cancellations(2)) {
            let stopped = format!("{} stop park", answered("1!-32800"));
            Profile::agent()
                .with(|it| {
                    it.dialect = dialect;
                    it.order = Sequential;
                })
                .check(&[
                    ("park#1", ">park#1"),
                    ("a#2", ""),
                    (&waiting, answered("2!-32800")),
                    (&waiting, ""),
                    (&running, stopped.trim()),
                    (&running, ""),
                    ("b#3; end park", ">b#3 3=ok"),
                ]);
        }
    }
}

#[test]
fn p3_m6_under_mcp_a_cancelled_entry_is_left_out_of_the_answer_to_its_batch() {
    let profile = Profile::mcp().with(|it| it.order = Sequential);
    profile.check(&[
        // A running entry and a waiting one.
        ("[park#1 a#2 b#3]", ">park#1"),
        ("~2; ~1", "stop park"),
        ("end park", ">b#3 [3=ok]"),
        // The last unanswered entry is cancelled.
        ("[a#1 park#2]", ">a#1 >park#2"),
        ("~2", "[1=ok] stop park"),
        ("end park", ""),
        // Nothing is left to answer.
        ("[park#1 a#2]", ">park#1"),
        ("~1", "stop park"),
        ("~2; end park", ""),
        // A cancellation in the batch itself.
        ("[park#1 ~1]", ">park#1 stop park"),
        ("end park", ""),
    ]);
}

#[test]
fn p3_the_dialect_decides_which_cancellation_is_sent() {
    for dialect in DIALECTS {
        let said = |text| if dialect == Dialect::None { "" } else { text };
        let dropped = format!("{} 1:dropped", said("~1"));
        let expired = format!("{} 2:timeout", said("~2"));
        Profile::agent().with(|it| it.dialect = dialect).check(&[
            ("call x", "x#1"),
            ("call y", "y#2"),
            ("drop 1", dropped.trim()),
            ("drop 1", ""),
            ("+30000", expired.trim()),
        ]);
    }
}

#[test]
fn p4_the_code_of_a_busy_answer_is_a_setting_of_the_profile() {
    let rows = [
        (Profile::agent(), "2!-32000:1"),
        // The codes around -32000 have other meanings in MCP.
        (Profile::mcp(), "2!-32603:1"),
        (Profile::agent().with(|it| it.busy_code = Code(-31000)), "2!-31000:1"),
    ];
    for (profile, busy) in rows {
        let profile = profile.max_in_flight(1);
        profile.check(&[("park#1", ">park#1"), ("a#2", busy), ("end park", "1=ok")]);
    }
}

#[test]
fn p3_a_malformed_cancellation_is_ignored() {
    let rows = [
        "",
        r#","params":{}"#,
        r#","params":[1]"#,
        r#","params":null"#,
        r#","params":{"id":{}}"#,
        r#","params":{"id":[1]}"#,
        r#","params":{"id":true}"#,
        r#","params":{"id":1,"id":1}"#,
        r#","params":{"ID":1}"#,
        r#","params":{"requestId":1}"#,
        r#","params":{"a":{"id":1}}"#,
    ];
    for params in rows {
        let text = format!(r#"{{"jsonrpc":"2.0","method":"$/cancelRequest"{params}}}"#);
        ordered(Barrier).check(&[
            ("park.a#1", ">park.a#1"),
            (&text, "?BadCancellation"),
            ("end park.a", "1=ok"),
        ]);
    }
    // Unknown members are ignored, and a name may contain escapes.
    let text = r#"{"jsonrpc":"2.0","method":"$\/cancelRequest","params":{"x":[{}],"\u0069d":1}}"#;
    ordered(Barrier).check(&[
        ("park.a#1", ">park.a#1"),
        (text, "1!-32800 stop park.a"),
        ("end park.a", ""),
    ]);
}

#[test]
fn p3_a_request_named_like_a_cancellation_is_a_request() {
    let text = r#"{"jsonrpc":"2.0","id":2,"method":"$/cancelRequest","params":{"id":1}}"#;
    ordered(Barrier).check(&[
        ("park#1", ">park#1"),
        (text, ">$/cancelRequest#2 2=ok"),
        ("end park", "1=ok"),
    ]);
}

#[test]
fn p2_progress_restarts_the_timeout_up_to_the_total_and_reaches_the_application() {
    ordered(Barrier).check(&[
        ("call x timeout=100 token=7 total=250", "x#1"),
        ("+90; %7", ">$/progress"),
        ("+90; %7", ">$/progress"),
        ("+69; %7", ">$/progress"),
        ("+1", "~1 1:timeout"),
        ("%7", ">$/progress"),
    ]);
}

#[test]
fn p2_progress_in_the_words_of_both_dialects_restarts_the_timeout_in_every_dialect() {
    let rows = [("$/progress", "token"), ("notifications/progress", "progressToken")];
    for (dialect, (method, member)) in DIALECTS.into_iter().flat_map(|it| rows.map(|row| (it, row)))
    {
        let text = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"{member}":7}}}}"#);
        let expired = if dialect == Dialect::None { "1:timeout" } else { "~1 1:timeout" };
        Profile::agent().with(|it| it.dialect = dialect).check(&[
            ("call x timeout=100 token=7 total=250", "x#1"),
            ("+90", ""),
            (&text, &format!(">{method}")),
            ("+99", ""),
            ("+1", expired),
        ]);
    }
}

#[test]
fn p2_progress_on_something_else_or_without_a_token_restarts_nothing() {
    for progress in ["%8", r#"{"jsonrpc":"2.0","method":"$/progress","params":[7]}"#] {
        ordered(Barrier).check(&[
            ("call x timeout=100 token=7 total=250", "x#1"),
            ("+90", ""),
            (progress, ">$/progress"),
            ("+10", "~1 1:timeout"),
        ]);
    }
}

#[test]
fn p2_the_total_limits_a_call_without_timeout_with_a_longer_timeout_or_without_progress() {
    for call in ["call x timeout=none token=7 total=250", "call x timeout=900 token=7 total=250"] {
        ordered(Barrier).check(&[
            (call, "x#1"),
            ("+249; %7", ">$/progress"),
            ("+1", "~1 1:timeout"),
        ]);
    }
    ordered(Barrier)
        .check(&[("call x timeout=900 token=7 total=250", "x#1"), ("+250", "~1 1:timeout")]);
}

#[test]
fn p2_a_call_without_timeout_waits_forever_and_a_timeout_of_zero_fails_immediately() {
    ordered(Barrier).check(&[
        ("call x timeout=none", "x#1"),
        ("call y timeout=0", "y#2"),
        ("tick", "~2 2:timeout"),
        ("+1000000000; 1=", "1:ok"),
    ]);
}

#[test]
fn p2_two_calls_with_one_token_do_not_disturb_each_other() {
    ordered(Barrier).check(&[
        ("call x timeout=100 token=7 total=900", "x#1"),
        ("call y timeout=100 token=7 total=900", "y#2"),
        ("1=", "1:ok"),
        ("+60; %7", ">$/progress"),
        ("+60; 2=", "2:ok"),
    ]);
}

// ---- P1, P9: ids and events

#[test]
fn p1_ids_from_many_threads_are_unique() {
    for style in [IdStyle::Counter, IdStyle::Uuid] {
        let ids = Ids::new(style, 7);
        let mut all: Vec<String> = std::thread::scope(|scope| {
            let count = || (0..500).map(|_| ids.next().as_raw().to_owned()).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("it counts")).collect()
        });
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2000, "{style:?}");
    }
}

#[test]
fn p1_the_two_directions_may_use_the_same_ids() {
    ordered(Barrier).check(&[
        ("call x", "x#1"),
        ("park.a#1", ">park.a#1"),
        ("~1", "1!-32800 stop park.a"),
        ("1=", "1:ok"),
        ("end park.a", ""),
    ]);
}

/// Runs a script on a queue: `l3` or `h3` pushes an event with this priority and size, and `?`
/// takes one. Shows each taken event as `sequence-dropped`.
fn events(most_events: usize, most_bytes: usize, script: &str) -> String {
    let mut queue = EventQueue::new(most_events, most_bytes);
    let (mut taken, mut pushed) = (Vec::new(), 0);
    for word in script.split_whitespace() {
        let (kind, bytes) = word.split_at(1);
        if kind == "?" {
            taken.push(queue.pop().map_or("none".to_owned(), |event| {
                assert_eq!(event.data, event.sequence, "the sequence counts all pushed events");
                format!("{}-{}", event.sequence, event.dropped)
            }));
        } else {
            pushed += 1;
            let priority = if kind == "l" { Priority::Low } else { Priority::High };
            queue.push(priority, pushed, bytes.parse().expect("a size"));
        }
        assert!(queue.len() <= most_events);
        let left = queue.dropped_in_all() + queue.len() as u64;
        let gone = taken.iter().filter(|word| *word != "none").count() as u64;
        assert_eq!(left + gone, pushed, "every event is there, taken or counted");
    }
    taken.join(" ")
}

#[test]
fn p9_a_full_queue_drops_the_oldest_events_of_low_priority_and_counts_them() {
    let rows = [
        (3, 99, "l1 l1 l1 ? ? ? ?", "1-0 2-0 3-0 none"),
        (2, 99, "l1 l1 l1 l1 ? ? ?", "3-2 4-0 none"),
        // Events of high priority stay, in their order among the others.
        (2, 99, "h1 l1 l1 ? ?", "1-0 3-1"),
        (2, 99, "l1 h1 h1 ? ?", "2-1 3-0"),
        (2, 99, "h1 h1 l1 ? ? ?", "1-0 2-0 none"),
        (2, 99, "h1 h1 h1 ? ?", "2-1 3-0"),
        // The first event after the gap carries the number of dropped events, even if it comes
        // later.
        (2, 99, "h1 l1 l1 h1 ? ? ?", "1-0 4-2 none"),
        (2, 99, "h1 h1 l1 ? ? l1 ?", "1-0 2-0 4-1"),
        (0, 99, "l1 h1 ?", "none"),
        (2, 99, "l1 l1 l1 ? l1 l1 ? ?", "2-1 4-1 5-0"),
        // The bound in bytes.
        (9, 10, "l4 l4 l4 ? ? ?", "2-1 3-0 none"),
        (9, 10, "l4 h4 l9 ? ? l2 ?", "2-1 none 4-1"),
        (9, 10, "h5 h5 h5 ? ?", "2-1 3-0"),
        // An event that never fits does not displace others.
        (9, 10, "l4 l4 l11 ? ? ?", "1-0 2-0 none"),
        (9, 10, "l4 h11 h4 ? ?", "1-0 3-1"),
        (9, 0, "l1 l0 ?", "2-1"),
    ];
    for (most_events, most_bytes, script, expect) in rows {
        assert_eq!(events(most_events, most_bytes, script), expect, "{script}");
    }
}
