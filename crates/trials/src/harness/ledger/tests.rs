//! Every fault that the ledger must find, as rows.

use super::*;

/// Returns the faults found in these texts, after `prepare`.
fn found(prepare: impl Fn(&mut Ledger), texts: &[&str]) -> Vec<String> {
    let mut ledger = Ledger { is_sequential: true, ..Ledger::default() };
    prepare(&mut ledger);
    let taken = texts.iter().map(|text| ledger.take(Event::Text((*text).to_owned())));
    let mut found: Vec<_> = taken.filter_map(|it| Some(it.err()?.what)).collect();
    found.extend((!ledger.is_settled()).then(|| ledger.missing()));
    found
}

/// Expects answers to two requests, with the ids 1 and 2.
fn two(ledger: &mut Ledger) {
    for id in ["1", "2"] {
        ledger.expect(Due::new("x", id, Outcome::Result("0".to_owned())));
    }
}

fn check(prepare: impl Fn(&mut Ledger), texts: &[&str], expect: &[&str]) {
    let found = found(prepare, texts);
    let is_right = found.len() == expect.len()
        && found.iter().zip(expect).all(|(found, expect)| found.contains(expect));
    assert!(is_right, "{texts:?}: {found:?}, and not {expect:?}");
}

const ONE: &str = r#"{"jsonrpc":"2.0","id":1,"result":0}"#;
const TWO: &str = r#"{"jsonrpc":"2.0","id":2,"result":0}"#;

#[test]
fn l2_m2_answers_that_are_lost_wrong_doubled_or_out_of_order_are_found() {
    check(two, &[ONE, TWO], &[]);
    check(two, &[ONE], &["1 unanswered"]);
    check(two, &[TWO, ONE], &["answers out of order"]);
    check(two, &[ONE, ONE, TWO], &["nothing is due with this id"]);
    let wrong = r#"{"jsonrpc":"2.0","id":2,"result":7}"#;
    check(two, &[ONE, wrong], &["differs from the due one", "1 unanswered"]);
    let both = r#"{"jsonrpc":"2.0","id":2,"result":0,"error":{"code":1,"message":""}}"#;
    let bare = r#"{"id":2,"result":0}"#;
    for wrong in [both, bare] {
        check(two, &[ONE, wrong], &["differs from the due one", "1 unanswered"]);
    }
    check(two, &[ONE, TWO, "{]"], &["not an object"]);
    check(two, &[ONE, TWO, "[]"], &["the answer to a batch"]);
    let batch = |ledger: &mut Ledger| {
        let due = |id| Due::new("x", id, Outcome::Code(-1));
        ledger.expect_batch(vec![due("1"), due("2")]);
    };
    let error = |id: u8| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-1}}}}"#);
    check(batch, &[&format!("[{},{}]", error(2), error(1))], &[]);
    let half = format!("[{},{}]", error(1), error(1));
    check(batch, &[&half], &["the answer to a batch", "1 unanswered"]);
}

#[test]
fn l1_unexpected_messages_are_found() {
    let event = |it: u64| format!(r#"{{"jsonrpc":"2.0","method":"test.event","params":[{it}]}}"#);
    let [first, second, third] = [1, 2, 3].map(event);
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":2}"#;
    let emit = |ledger: &mut Ledger| {
        let due = Due::new("x", "1", Outcome::Result("2".to_owned()));
        ledger.expect(Due { effect: Effect::Emitted(2), ..due });
    };
    check(|_| (), &[&first], &["unexpected message"]);
    check(emit, &[&first, &second, answer], &[]);
    check(emit, &[&first, &second, &third], &["unexpected message", "1 unanswered"]);
    check(emit, &[&first, &first, &second, answer], &["unexpected message"]);
    check(emit, &[&first, answer], &["before all was emitted", "0 unanswered"]);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"e","params":[1]}"#;
    check(|_| (), &[call], &["unexpected message"]);
    let called = |ledger: &mut Ledger| {
        ledger.unasked.calls.insert("e".to_owned(), Call { params: None, says: None });
    };
    check(called, &[call], &["a call has other params"]);
    check(called, &[], &["0 unanswered"]);
    let event = r#"{"jsonrpc":"2.0","method":"event","params":{"topic":"log","sequence":1}}"#;
    check(|_| (), &[event], &["without a subscription"]);
    check(|_| (), &[r#"{"jsonrpc":"2.0","method":"x"}"#], &["unexpected message"]);
}

#[test]
fn m5_an_answer_without_an_id_belongs_to_a_fault() {
    let fault = |code: i64| {
        format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":""}}}}"#)
    };
    let one = |ledger: &mut Ledger| {
        ledger.expect(Due::refusal(Outcome::Code(-32700)).or(Outcome::Code(-32600)));
    };
    for code in [-32700, -32600] {
        check(one, &[&fault(code)], &[]);
        check(one, &[&fault(code), &fault(code)], &["nothing is due with this id"]);
    }
    let result = r#"{"jsonrpc":"2.0","id":null,"result":1}"#;
    for wrong in [&fault(-32603), result] {
        check(one, &[wrong], &["differs from the due one", "1 unanswered"]);
    }
}

#[test]
fn t2_wrong_http_responses_are_found() {
    let fails = |status: u16, body: &str| {
        let mut ledger = Ledger::default();
        for id in ["1", "2"] {
            ledger.expect(Due::new("x", id, Outcome::Result("0".to_owned())));
            ledger.expect_post();
        }
        ledger.take(Event::Response(status, body.to_owned())).is_err()
    };
    assert!(!fails(200, ONE));
    for (status, body) in [(202, ""), (200, ""), (413, ONE), (200, TWO)] {
        assert!(fails(status, body), "{status} {body}");
    }
    let mut ledger = Ledger::default();
    assert!(ledger.take(Event::Response(200, ONE.to_owned())).is_err(), "unexpected message");
    for body in ["", "x"] {
        ledger.expect_post();
        assert!(!ledger.is_settled(), "a response is due");
        assert_eq!(ledger.take(Event::Response(202, body.to_owned())).is_ok(), body.is_empty());
    }
}

#[test]
fn t2_wrong_ends_of_a_connection_are_found() {
    let mut ledger = Ledger::default();
    ledger.pongs.extend([vec![1], vec![2]]);
    assert!(ledger.take(Event::Pong(vec![3])).is_err(), "a pong without a ping");
    assert!(!ledger.is_settled(), "pongs are due");
    assert!(ledger.take(Event::Pong(vec![2])).is_ok() && ledger.is_settled(), "for both");
    assert!(ledger.end(b"").is_ok() && ledger.end(b"{").is_err(), "a cut frame");
    ledger.closes = vec![1000];
    assert!(ledger.end(b"").is_err(), "no close frame");
    assert!(ledger.take(Event::Close(Some(1002))).is_err(), "another code");
    assert!(ledger.take(Event::Close(Some(1000))).is_ok() && ledger.end(b"").is_ok());
}
