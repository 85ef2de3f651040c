//! The parts of a session: F7, M7, M10 and M11.

use std::time::{Duration, Instant};

use duet_rpc_proto::Limits;
use duet_rpc_proto::message::{Id, Response, Settled, WhyStray};
use duet_rpc_proto::notice::{Notice, Severity};
use duet_rpc_proto::session::{InFlight, Pending, Storm, Treatment};

#[test]
fn f7_past_a_thousand_in_a_row_the_rest_is_counted_and_logged_once_a_second() {
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    let mut storm = Storm::new(&Limits::default());
    for _ in 0..1000 {
        assert_eq!(storm.handle_bad(start), Treatment::Answer);
    }
    assert_eq!(storm.handle_bad(at(0)), Treatment::Report(Notice::Muted(1)));
    assert_eq!(storm.handle_bad(at(500)), Treatment::Mute);
    assert_eq!(storm.handle_bad(at(999)), Treatment::Mute);
    assert_eq!(storm.handle_bad(at(1000)), Treatment::Report(Notice::Muted(3)));
    assert_eq!(storm.handle_bad(at(1001)), Treatment::Mute);
    // A valid message ends it; nothing goes uncounted, and still no more than once a second.
    storm.handle_good();
    for _ in 0..1000 {
        assert_eq!(storm.handle_bad(at(1002)), Treatment::Answer);
    }
    assert_eq!(storm.handle_bad(at(1002)), Treatment::Mute);
    assert_eq!(storm.handle_timeout(at(2000)), Some(Notice::Muted(2)));
}

#[test]
fn f7_what_was_muted_is_reported_though_nothing_more_comes() {
    let start = Instant::now();
    let mut storm = Storm::new(&Limits { answered_faults: 0, ..Limits::default() });
    assert_eq!(storm.poll_timeout(), None);
    assert_eq!(storm.handle_bad(start), Treatment::Report(Notice::Muted(1)));
    assert_eq!(storm.poll_timeout(), None, "nothing is left to report");
    assert_eq!(storm.handle_bad(start), Treatment::Mute);
    let due = start + Duration::from_secs(1);
    assert_eq!(storm.poll_timeout(), Some(due));
    assert_eq!(storm.handle_timeout(start), None);
    assert_eq!(storm.handle_timeout(due), Some(Notice::Muted(1)));
    assert_eq!((storm.poll_timeout(), storm.handle_timeout(due)), (None, None));
}

#[test]
fn f7_a_valid_message_in_between_keeps_the_answers_coming() {
    let mut storm = Storm::new(&Limits { answered_faults: 2, ..Limits::default() });
    for _ in 0..10 {
        assert_eq!(storm.handle_bad(Instant::now()), Treatment::Answer);
        assert_eq!(storm.handle_bad(Instant::now()), Treatment::Answer);
        storm.handle_good();
    }
}

#[test]
fn m7_a_response_is_matched_once_and_one_without_a_match_is_a_warning() {
    let respond = |id: Id| Response { id, settled: Settled::Result("1") };
    let mut pending = Pending::default();
    let (first, second) = (pending.begin("first"), pending.begin("second"));
    assert_ne!(first, second);
    assert_eq!(pending.settle(&respond(second.clone())), Ok("second"));
    assert_eq!(pending.settle(&respond(second)), Err(Notice::UnmatchedResponse));
    for stranger in [Id::NULL, Id::from(999), Id::from(first.as_raw()), Id::from("x")] {
        assert_eq!(pending.settle(&respond(stranger)), Err(Notice::UnmatchedResponse));
    }
    assert_eq!(pending.end(&first), Some("first"));
    assert_eq!(pending.settle(&respond(first)), Err(Notice::UnmatchedResponse));
    assert!(pending.is_empty());
    assert_eq!(pending.len(), 0);
    assert_eq!(Notice::UnmatchedResponse.severity(), Severity::Warn);
    assert_eq!(Notice::Stray(WhyStray::BadId).severity(), Severity::Warn);
}

#[test]
fn m10_a_notification_that_fails_is_loud_in_the_log_and_an_unknown_one_is_not() {
    assert_eq!(Notice::UnknownNotification.severity(), Severity::Warn);
    assert_eq!(Notice::NotificationParams.severity(), Severity::Error);
    assert_eq!(Notice::NotificationFailed.severity(), Severity::Error);
}

#[test]
fn m11_an_id_in_flight_is_refused_and_the_first_request_is_not_disturbed() {
    let mut in_flight = InFlight::default();
    for id in [Id::from(1), Id::from("1"), Id::NULL, Id::from("a")] {
        assert!(in_flight.begin(&id).is_ok(), "{id}");
    }
    let same = Id::from_raw(r#""\u0061""#).expect("a string");
    let refused = in_flight.begin(&same).expect_err("it is in flight");
    let mut answer = Vec::new();
    refused.write(&mut answer);
    let answer: serde_json::Value = serde_json::from_slice(&answer).expect("JSON");
    assert_eq!(answer["id"], "a");
    assert_eq!(answer["error"]["code"], -32600);
    assert_eq!(answer["error"]["data"]["reason"], "duplicate-id");
    assert_eq!(in_flight.len(), 4);
    assert!(in_flight.finish(&Id::from("a")) && !in_flight.finish(&Id::from("a")));
    assert!(in_flight.begin(&same).is_ok());
}
