//! Tests of the replay, without a server: rows of messages.

use std::sync::Arc;

use super::{Action, Ending, Pace, Replay, ReplayOptions};
use crate::record::{Body, Dir, Kind, Record};
use crate::script::{Script, items_of};

/// Makes a script: `>` from the client, `<` from the server, at one millisecond each.
pub(crate) fn script(lines: &[&str]) -> Arc<Script> {
    let mut script = Script::new();
    for (number, line) in lines.iter().enumerate() {
        let seq = number as u64 + 1;
        let (dir, json) = line.split_at(1);
        let dir = if dir == ">" { Dir::C2s } else { Dir::S2c };
        let kind = match json {
            "eof" => Kind::Eof,
            json if json.starts_with('[') => Kind::Batch,
            json => items_of(json)[0].kind,
        };
        let mut record = Record::new(seq, seq * 1_000, dir, kind);
        record.body = Some(Body::from_json(json.to_owned()));
        script.handle(&record);
    }
    Arc::new(script)
}

fn options() -> ReplayOptions {
    ReplayOptions { timeout: 1_000, patience: 100, linger: 10, ..ReplayOptions::default() }
}

/// Plays a script. Each line is what the replay must do next, or what happens:
///
/// ```text
/// > JSON      it sends this message
/// . 100       it waits until this time
/// < JSON      the server sends this message
/// @ 100       the time is now this one
/// eof         the server closes the stream
/// = WORDS     it is finished, in this way
/// ```
fn check(lines: &[&str], options: ReplayOptions, expected: &[&str]) {
    let mut replay = Replay::new(script(lines), options);
    let mut now = 0;
    for line in expected {
        let (sign, rest) = line.split_at(1);
        let rest = rest.trim_start();
        match sign {
            "<" => drop(replay.handle_message(now, rest)),
            "@" => now = rest.parse().expect("a time"),
            "e" => replay.handle_end(now),
            _ => {
                let found = match replay.poll(now) {
                    Action::Send(outgoing) => format!("> {}", outgoing.json),
                    Action::Wait(until) => format!(". {until}"),
                    Action::Finished(Ending::Complete) => "= complete".to_owned(),
                    Action::Finished(Ending::TimedOut(what)) => format!("= timeout: {what}"),
                    Action::Finished(Ending::ServerEnded(what)) => format!("= ended: {what}"),
                };
                assert_eq!(found, *line, "in {expected:#?}");
            }
        }
    }
}

const ASK: &str = r#">{"id":1,"method":"a"}"#;
const ANSWER: &str = r#"<{"id":1,"result":1}"#;

#[test]
fn y1_a_message_waits_for_what_the_server_had_said_before() {
    let lines = [
        ASK,
        r#"<{"method":"log","params":["x"]}"#,
        ANSWER,
        r#">{"method":"b"}"#,
        r#">{"id":2,"method":"c"}"#,
        r#"<{"id":2,"error":{"code":1}}"#,
    ];
    check(
        &lines,
        options(),
        &[
            r#"> {"id":1,"method":"a"}"#,
            ". 100",
            r#"< {"id":1,"result":1}"#,
            ". 100",
            r#"< {"method":"log","params":["x"]}"#,
            r#"> {"method":"b"}"#,
            r#"> {"id":2,"method":"c"}"#,
            ". 100",
            r#"< {"id":2,"error":{"code":1}}"#,
            ". 10",
            "@ 10",
            "= complete",
        ],
    );
    // Messages that were sent without waiting are sent so again.
    let pipelined = [ASK, r#">{"id":2,"method":"b"}"#, ANSWER, r#"<{"id":2,"result":2}"#];
    check(
        &pipelined,
        options(),
        &[
            r#"> {"id":1,"method":"a"}"#,
            r#"> {"id":2,"method":"b"}"#,
            r#"< {"id":2,"result":2}"#,
            ". 100",
            r#"< {"id":1,"result":2}"#,
            "eof",
            "= complete",
        ],
    );
}

#[test]
fn y1_recorded_pace_is_not_faster_than_the_recording() {
    let options = ReplayOptions { pace: Pace::Recorded, ..options() };
    check(
        &[ASK, ANSWER, r#">{"method":"b"}"#, "<eof"],
        options,
        &[
            "@ 50",
            r#"> {"id":1,"method":"a"}"#,
            r#"< {"id":1,"result":1}"#,
            ". 2050",
            "@ 2050",
            r#"> {"method":"b"}"#,
            ". 2150",
            "eof",
            "= complete",
        ],
    );
}

#[test]
fn y2_silence_and_ends_are_reported() {
    let ask = r#"> {"id":1,"method":"a"}"#;
    let answer = r#"< {"id":1,"result":1}"#;
    // No answer.
    let what = "= timeout: the answer to a (record 2)";
    check(&[ASK, ANSWER], options(), &[ask, ". 100", "@ 100", ". 1000", "@ 1000", what]);
    // The server sends other messages, and no answer.
    let log = r#"< {"method":"log"}"#;
    let chatter = [ask, ". 100", "@ 90", log, ". 190", "@ 999", log, ". 1000", "@ 1000", what];
    check(&[ASK, ANSWER], options(), &chatter);
    // It ends.
    check(&[ASK, ANSWER], options(), &[ask, "eof", "= ended: the answer to a (record 2)"]);
    let more = [ASK, r#">{"method":"b"}"#];
    check(&more, options(), &[ask, "eof", "= ended: record 2 of the client was not sent"]);
    // An answer that the recording does not have is not missing.
    check(&[ASK], options(), &[ask, ". 10", "@ 10", "= complete"]);
    // A notification that does not come again is missing in the comparison, but nothing waits for it.
    let noted = [ASK, ANSWER, r#"<{"method":"log"}"#, r#">{"method":"b"}"#];
    let send = r#"> {"method":"b"}"#;
    check(
        &noted,
        options(),
        &[ask, answer, ". 100", "@ 100", send, ". 110", "@ 110", "= complete"],
    );
    // A client that wrote to a server that had ended.
    let late = [ASK, ANSWER, "<eof", r#">{"method":"b"}"#];
    check(&late, options(), &[ask, answer, ". 100", "eof", "= complete"]);
}

#[test]
fn y3_values_of_the_server_come_back() {
    for (given, used, new, expected) in [
        // A short value is known by its name.
        (
            r#"{"session":"a1"}"#,
            r#"{"session":"a1"}"#,
            r#"{"session":"b2"}"#,
            r#"{"session":"b2"}"#,
        ),
        (r#"{"session":"a1"}"#, r#"{"other":"a1"}"#, r#"{"session":"b2"}"#, r#"{"other":"a1"}"#),
        (r#"{"handle":7}"#, r#"{"handle": 7}"#, r#"{"handle":9}"#, r#"{"handle": 9}"#),
        (r#"{"handle":7}"#, r#"{"handle":7}"#, r#"{"handle":"x"}"#, r#"{"handle":"x"}"#),
        // A long one anywhere, also inside of another text.
        (r#"{"a":"12345678"}"#, r#"["12345678"]"#, r#"{"a":"87654321"}"#, r#"["87654321"]"#),
        (
            r#"{"a":"12345678"}"#,
            r#"["/s/12345678?x","12345678"]"#,
            r#"{"a":"é\n654321"}"#,
            r#"["/s/é\n654321?x","é\n654321"]"#,
        ),
        (
            r#"["12345678","abcdefgh"]"#,
            r#"["12345678 abcdefgh"]"#,
            r#"["11111111","22222222"]"#,
            r#"["11111111 22222222"]"#,
        ),
        // The old value is still there, so it is not made up.
        (
            r#"[{"name":"x1"},{"name":"y"}]"#,
            r#"{"name":"x1"}"#,
            r#"[{"name":"z"},{"name":"x1"}]"#,
            r#"{"name":"x1"}"#,
        ),
        // Another list: nobody knows which element is meant.
        (
            r#"[{"name":"x1"}]"#,
            r#"{"name":"x1"}"#,
            r#"[{"name":"z"},{"name":"y"}]"#,
            r#"{"name":"x1"}"#,
        ),
        // Gone, or never a value of the server alone.
        (r#"{"session":"a1"}"#, r#"{"session":"a1"}"#, r#"{}"#, r#"{"session":"a1"}"#),
        (
            r#"{"session":true}"#,
            r#"{"session":true}"#,
            r#"{"session":false}"#,
            r#"{"session":true}"#,
        ),
        (
            r#"{"session":"client's"}"#,
            r#"{"session":"client's"}"#,
            r#"{"session":"b"}"#,
            r#"{"session":"client's"}"#,
        ),
        (
            r#"{"session":"[redacted]"}"#,
            r#"{"session":"[redacted]"}"#,
            r#"{"session":"b"}"#,
            r#"{"session":"[redacted]"}"#,
        ),
    ] {
        let answer = format!(r#"<{{"id":1,"result":{given}}}"#);
        let uses = format!(r#">{{"method":"b","params":{used}}}"#);
        let ask = r#">{"id":1,"method":"a","params":["client's"]}"#;
        let mut replay = Replay::new(script(&[ask, &answer, &uses]), options());
        assert!(matches!(replay.poll(0), Action::Send(_)));
        let restored = replay.handle_message(0, &format!(r#"{{"id":1,"result":{new}}}"#));
        let Action::Send(sent) = replay.poll(0) else { panic!("{given} {new}: it waits") };
        assert_eq!(sent.json, format!(r#"{{"method":"b","params":{expected}}}"#), "{given} {new}");
        assert_eq!(sent.recorded, uses[1..]);
        // What changed with the variable is the same for the comparison.
        if sent.json != sent.recorded {
            assert_eq!(restored, answer[1..]);
            let later = format!(r#"{{"method":"c","params":{expected}}}"#);
            assert_eq!(
                replay.handle_message(0, &later),
                format!(r#"{{"method":"c","params":{}}}"#, used)
            );
        }
    }
}

#[test]
fn y3_texts_are_mapped_in_both_directions() {
    let lines =
        [r#">{"id":1,"method":"a","params":{"uri":"file:///old/x","name":"older"}}"#, ANSWER];
    let maps = vec![("/old".to_owned(), "/new".to_owned()), ("/new".to_owned(), "/no".to_owned())];
    let mut replay = Replay::new(script(&lines), ReplayOptions { maps, ..options() });
    let Action::Send(sent) = replay.poll(0) else { panic!("it waits") };
    assert_eq!(
        sent.json,
        r#"{"id":1,"method":"a","params":{"uri":"file:///new/x","name":"older"}}"#
    );
    let restored = replay.handle_message(0, r#"{"id":1,"result":"/new/y"}"#);
    assert_eq!(restored, r#"{"id":1,"result":"/old/y"}"#);
}

#[test]
fn y4_requests_of_the_server_get_the_recorded_answers() {
    let lines = [
        ASK,
        r#"<{"id":"s1","method":"config","params":["x"]}"#,
        r#"<{"id":"s2","method":"config","params":["y"]}"#,
        r#">{"id":"s1","result":"for x"}"#,
        r#">{"id":"s2","result":"for y"}"#,
        ANSWER,
    ];
    let ask = r#"> {"id":1,"method":"a"}"#;
    // The same params get the same answer, in whatever order they come.
    check(
        &lines,
        options(),
        &[
            ask,
            ". 100",
            r#"< {"id":7,"method":"config","params":["y"]}"#,
            ". 100",
            r#"< {"id":8,"method":"config","params":["z"]}"#,
            r#"> {"id":8,"result":"for x"}"#,
            r#"> {"id":7,"result":"for y"}"#,
            // One that the recording does not have.
            r#"< {"id":9,"method":"other"}"#,
            r#"> {"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"Method not found: the recording has no such request"}}"#,
            r#"< {"id":1,"result":1}"#,
            "eof",
            "= complete",
        ],
    );
    // A server that waits for an answer before its turn gets it, and so nothing hangs.
    check(
        &lines,
        options(),
        &[
            ask,
            r#"< {"id":7,"method":"config","params":["y"]}"#,
            ". 100",
            "@ 100",
            r#"> {"id":7,"result":"for y"}"#,
            ". 200",
            r#"< {"id":1,"result":1}"#,
            ". 110",
            "@ 200",
            "= complete",
        ],
    );
}

#[test]
fn y1_batches_are_played_as_they_were() {
    let lines = [
        r#">[{"id":1,"method":"a"},{"method":"b"},{"id":2,"method":"c"}]"#,
        r#"<[{"id":1,"result":{"key":"k1"}},{"id":2,"result":2}]"#,
        r#"<[{"id":5,"method":"ask"},{"method":"log"}]"#,
        r#">[{"id":5,"result":{"key":"k1"}}]"#,
    ];
    check(
        &lines,
        options(),
        &[
            r#"> [{"id":1,"method":"a"},{"method":"b"},{"id":2,"method":"c"}]"#,
            r#"< {"id":2,"result":2}"#,
            r#"< {"id":1,"result":{"key":"longer"}}"#,
            r#"< {"id":77,"method":"ask"}"#,
            r#"> [{"id":77,"result":{"key":"longer"}}]"#,
            ". 100",
            r#"< [{"method":"log"}]"#,
            "eof",
            "= complete",
        ],
    );
}
