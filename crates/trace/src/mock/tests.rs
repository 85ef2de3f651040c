//! Tests of the mock, without a client: rows of messages.

use super::{Mock, MockAction, MockOptions, OnMiss};
use crate::replay::tests::script;

/// Plays a script. Each line is what happens, or what the mock must do next:
///
/// ```text
/// > JSON      the client sends this message
/// < JSON      the mock sends this message
/// ! WORDS     the mock tells this
/// ^ JSON      the mock passes this message on
/// v JSON      the other server sends this message; `v` alone: it ends
/// .           the mock has nothing to do
/// ```
fn check(lines: &[&str], options: MockOptions, expected: &[&str]) {
    let mut mock = Mock::new(script(lines), options);
    for line in expected {
        let (sign, rest) = line.split_at(1);
        match sign {
            ">" => mock.handle_message(rest.trim_start()),
            "v" if rest.is_empty() => mock.handle_lost_server(),
            "v" => mock.handle_passed(rest.trim_start()),
            _ => {
                let found = match mock.poll() {
                    None => ".".to_owned(),
                    Some(MockAction::Send(json)) => format!("< {json}"),
                    Some(MockAction::Pass(json)) => format!("^ {json}"),
                    Some(MockAction::Note(note)) => {
                        let changes = note.changes.iter().map(|it| format!(" {}", it.path));
                        format!("! {note}{}", changes.collect::<String>())
                    }
                };
                assert_eq!(found, *line, "in {expected:#?}");
            }
        }
    }
    assert_eq!(mock.poll(), None, "after {expected:#?}");
}

fn on_miss(on_miss: OnMiss) -> MockOptions {
    MockOptions { on_miss, ..MockOptions::default() }
}

const SESSION: [&str; 9] = [
    r#"<{"method":"hello"}"#,
    r#">{"id":1,"method":"open","params":{"name":"x","size":1}}"#,
    r#"<{"method":"opening"}"#,
    r#"<{"id":1,"result":"first"}"#,
    r#">{"method":"change","params":[1]}"#,
    r#"<{"method":"changed"}"#,
    r#">{"id":2,"method":"open","params":{"name":"y","size":1}}"#,
    r#"<{"id":2,"result":"second"}"#,
    r#"<{"method":"bye"}"#,
];

#[test]
fn k1_requests_are_matched_by_method_and_params() {
    check(
        &SESSION,
        MockOptions::default(),
        &[
            r#"< {"method":"hello"}"#,
            ".",
            // Members in another order, and an id of the client.
            r#"> {"id":"a","method":"open","params":{"size":1,"name":"x"}}"#,
            r#"< {"method":"opening"}"#,
            r#"< {"id":"a","result":"first"}"#,
            ".",
            // Again, more often than in the recording.
            r#"> {"id":"b","method":"open","params":{"size":1,"name":"x"}}"#,
            r#"< {"id":"b","result":"first"}"#,
            ".",
        ],
    );
    // The exact one counts, not the first one.
    check(
        &SESSION,
        MockOptions::default(),
        &[
            r#"< {"method":"hello"}"#,
            r#"> {"id":1,"method":"open","params":{"name":"y","size":1}}"#,
            r#"< {"method":"opening"}"#,
            r#"< {"method":"changed"}"#,
            r#"< {"id":1,"result":"second"}"#,
            r#"< {"method":"bye"}"#,
            r#"> {"id":2,"method":"open","params":{"name":"x","size":1}}"#,
            r#"< {"id":2,"result":"first"}"#,
        ],
    );
}

#[test]
fn k2_messages_of_the_server_come_after_those_of_the_client() {
    // The recorded client did not wait, and this one does.
    let pipelined = [
        r#">{"id":1,"method":"a"}"#,
        r#">{"id":2,"method":"b"}"#,
        r#"<{"method":"n"}"#,
        r#"<{"id":2,"result":2}"#,
        r#"<{"id":1,"result":1}"#,
    ];
    check(
        &pipelined,
        MockOptions::default(),
        &[
            r#"> {"id":1,"method":"a"}"#,
            r#"< {"id":1,"result":1}"#,
            ".",
            r#"> {"id":2,"method":"b"}"#,
            r#"< {"method":"n"}"#,
            r#"< {"id":2,"result":2}"#,
        ],
    );
    // A client that leaves a notification out gets what followed it.
    check(
        &SESSION,
        MockOptions::default(),
        &[
            r#"< {"method":"hello"}"#,
            r#"> {"id":1,"method":"open","params":{"name":"x","size":1}}"#,
            r#"< {"method":"opening"}"#,
            r#"< {"id":1,"result":"first"}"#,
            r#"> {"id":2,"method":"open","params":{"name":"y","size":1}}"#,
            r#"< {"method":"changed"}"#,
            r#"< {"id":2,"result":"second"}"#,
            r#"< {"method":"bye"}"#,
        ],
    );
}

#[test]
fn k2_requests_of_the_server_are_sent_and_their_answers_taken() {
    let lines = [
        r#">{"id":1,"method":"a"}"#,
        r#"<{"id":"s","method":"config","params":["x"]}"#,
        r#">{"id":"s","result":7}"#,
        r#"<{"method":"configured"}"#,
        r#"<{"id":1,"result":1}"#,
    ];
    for (answer, note) in [
        (r#"> {"id":"s","result":7}"#, None),
        (
            r#"> {"id":"s","result":8}"#,
            Some("! config: not in the recording; taken for record 3 /result"),
        ),
    ] {
        let mut expected = vec![
            r#"> {"id":5,"method":"a"}"#,
            r#"< {"id":"s","method":"config","params":["x"]}"#,
            r#"< {"id":5,"result":1}"#,
            ".",
            answer,
        ];
        expected.extend(note);
        expected.push(r#"< {"method":"configured"}"#);
        check(&lines, MockOptions::default(), &expected);
    }
    check(
        &lines,
        MockOptions::default(),
        &[r#"> {"id":9,"result":7}"#, "! an answer: not in the recording"],
    );
}

#[test]
fn k3_values_of_the_client_are_repeated() {
    let lines = [
        r#">{"id":1,"method":"run","params":{"_meta":{"progressToken":"old-token"},"n":1}}"#,
        r#"<{"method":"notifications/progress","params":{"progressToken":"old-token"}}"#,
        r#"<{"id":1,"result":{"n":1}}"#,
        r#">{"id":2,"method":"run","params":{"_meta":{"progressToken":"old-token"},"n":2}}"#,
        r#"<{"id":2,"result":{"n":2}}"#,
    ];
    check(
        &lines,
        on_miss(OnMiss::Error),
        &[
            r#"> {"id":1,"method":"run","params":{"_meta":{"progressToken":"new-token"},"n":1}}"#,
            r#"< {"method":"notifications/progress","params":{"progressToken":"new-token"}}"#,
            r#"< {"id":1,"result":{"n":1}}"#,
            // It is known from now on.
            r#"> {"id":2,"method":"run","params":{"_meta":{"progressToken":"new-token"},"n":2}}"#,
            r#"< {"id":2,"result":{"n":2}}"#,
        ],
    );
    let options = MockOptions {
        maps: vec![("/old".to_owned(), "/new".to_owned())],
        ignore: vec!["/params/pid".parse().expect("a pointer")],
        on_miss: OnMiss::Error,
    };
    let lines = [
        r#">{"id":1,"method":"open","params":{"root":"/old/x","pid":1}}"#,
        r#"<{"id":1,"result":"/old/x/y"}"#,
    ];
    check(
        &lines,
        options,
        &[
            r#"> {"id":1,"method":"open","params":{"root":"/new/x","pid":2}}"#,
            r#"< {"id":1,"result":"/new/x/y"}"#,
        ],
    );
}

#[test]
fn k3_progress_tokens_have_several_names() {
    let lines = [
        r#">{"id":1,"method":"run","params":{"workDoneToken":1}}"#,
        r#"<{"method":"$/progress","params":{"token":1}}"#,
        r#"<{"id":1,"result":1}"#,
    ];
    check(
        &lines,
        on_miss(OnMiss::Error),
        &[
            r#"> {"id":1,"method":"run","params":{"workDoneToken":"a"}}"#,
            r#"< {"method":"$/progress","params":{"token":"a"}}"#,
            r#"< {"id":1,"result":1}"#,
        ],
    );
}

#[test]
fn k3_k4_an_answer_is_never_made_up_for_other_params() {
    // The server repeats the value, but the rest of its answer depends on it.
    let uuid = r#"{"user":"0b3c7a52-94c1-4d8e-8f0a-6b1f4f0c2d11"}"#;
    let rows = [
        (r#"{"account":7}"#, r#"{"account":8}"#, "/params/account"),
        (r#"{"name":"ada"}"#, r#"{"name":"zoe"}"#, "/params/name"),
        (r#"{"name":"ada lovelace"}"#, r#"{"name":"zoe lovelace"}"#, "/params/name"),
        (uuid, r#"{"user":"1b3c7a52-94c1-4d8e-8f0a-6b1f4f0c2d11"}"#, "/params/user"),
    ];
    for (old, new, path) in rows {
        let lines = [
            format!(r#">{{"id":1,"method":"get","params":{old}}}"#),
            format!(r#"<{{"id":1,"result":{{"balance":100,"of":{old}}}}}"#),
        ];
        let lines = lines.each_ref().map(String::as_str);
        let ask = format!(r#"> {{"id":1,"method":"get","params":{new}}}"#);
        let refused = format!("! get: not in the recording; answered with an error {path}");
        let error = r#"< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Invalid params: the recording has get with other params"}}"#;
        check(&lines, on_miss(OnMiss::Error), &[&ask, &refused, error]);
        let passed = format!(r#"^ {{"id":1,"method":"get","params":{new}}}"#);
        let note = "! get: not in the recording; passed on";
        check(&lines, on_miss(OnMiss::Pass), &[&ask, note, &passed]);
        // The nearest answer, and a value that is declared to be free, are the client's.
        let answer = format!(r#"< {{"id":1,"result":{{"balance":100,"of":{new}}}}}"#);
        let note = format!("! get: not in the recording; taken for record 1 {path}");
        check(&lines, on_miss(OnMiss::Nearest), &[&ask, &note, &answer]);
        let ignore = vec![path.parse().expect("a pointer")];
        let options = MockOptions { ignore, ..on_miss(OnMiss::Error) };
        check(&lines, options, &[&ask, &answer]);
    }
}

#[test]
fn k4_misses_are_refused_or_answered_with_the_nearest() {
    let ask = r#"> {"id":1,"method":"open","params":{"name":"y","size":2}}"#;
    let hello = r#"< {"method":"hello"}"#;
    check(
        &SESSION,
        on_miss(OnMiss::Nearest),
        &[
            hello,
            ask,
            "! open: not in the recording; taken for record 7 /params/size",
            r#"< {"method":"opening"}"#,
            r#"< {"method":"changed"}"#,
            r#"< {"id":1,"result":"second"}"#,
            r#"< {"method":"bye"}"#,
            r#"> {"id":2,"method":"none"}"#,
            "! none: not in the recording; answered with an error",
            r#"< {"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Method not found: none is not in the recording"}}"#,
            r#"> {"method":"quiet"}"#,
            "! quiet: not in the recording",
            // A cancellation names an id of this client, and its request was answered.
            r#"> {"method":"$/cancelRequest","params":{"id":2}}"#,
        ],
    );
    check(
        &SESSION,
        on_miss(OnMiss::Error),
        &[
            hello,
            ask,
            "! open: not in the recording; answered with an error /params/size",
            r#"< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Invalid params: the recording has open with other params"}}"#,
        ],
    );
}

#[test]
fn k4_misses_are_passed_on_after_the_handshake() {
    let lines = [
        r#">{"id":0,"method":"initialize"}"#,
        r#"<{"id":0,"result":"recorded"}"#,
        r#">{"method":"initialized"}"#,
    ];
    check(
        &lines,
        on_miss(OnMiss::Pass),
        &[
            r#"> {"id":5,"method":"initialize"}"#,
            r#"< {"id":5,"result":"recorded"}"#,
            r#"> {"method":"initialized"}"#,
            r#"> {"id":6,"method":"a"}"#,
            "! a: not in the recording; passed on",
            r#"^ {"id":5,"method":"initialize"}"#,
            ".",
            r#"> {"method":"b"}"#,
            ".",
            r#"v {"id":5,"result":"of the other server"}"#,
            r#"^ {"method":"initialized"}"#,
            r#"^ {"id":6,"method":"a"}"#,
            r#"^ {"method":"b"}"#,
            r#"v [{"id":6,"result":1}, {"id":5,"method":"config"}]"#,
            r#"< {"id":6,"result":1}"#,
            r#"< {"id":"duet-rpc-passed-1","method":"config"}"#,
            r#"> {"id":"duet-rpc-passed-1","result":2}"#,
            r#"^ {"id":5,"result":2}"#,
            // It ends, and the next one begins with the handshake.
            r#"> {"id":7,"method":"a"}"#,
            "! a: not in the recording; passed on",
            r#"^ {"id":7,"method":"a"}"#,
            "v",
            r#"< {"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"Internal error: the server has ended"}}"#,
            r#"> {"method":"b"}"#,
            r#"^ {"id":5,"method":"initialize"}"#,
        ],
    );
}

#[test]
fn k1_batches_are_answered_with_a_batch() {
    check(
        &SESSION,
        on_miss(OnMiss::Error),
        &[
            r#"< {"method":"hello"}"#,
            r#"> [{"id":1,"method":"open","params":{"name":"x","size":1}},{"method":"change","params":[1]},{"id":2,"method":"open","params":{"name":"y","size":1}},7]"#,
            r#"< {"method":"opening"}"#,
            r#"< [{"id":1,"result":"first"},{"id":2,"result":"second"},{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}]"#,
            r#"< {"method":"changed"}"#,
            r#"< {"method":"bye"}"#,
        ],
    );
}
