//! Calls that are answered, by servers of every kind.

use std::fs;
use std::io::{BufRead, BufReader, Read};

use crate::support::terminal::terminal;
use crate::{answers, answers_and_stays, call_script, command, file, read_all, wait};

#[test]
fn t1_a_result_is_printed_unchanged_except_for_white_space() {
    let long = "1234567890123456789012345678901234567890";
    #[rustfmt::skip]
    let rows = [
        ("null", "null"),
        ("1.0", "1.0"),
        ("1e400", "1e400"),
        ("-0", "-0"),
        (long, long),
        (r#""two  spaces""#, r#""two  spaces""#),
        (r#"{ "b": [ ], "a": { }, "a": [1 , 2] }"#, r#"{"b":[],"a":{},"a":[1,2]}"#),
    ];
    for (sent, printed) in rows {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{sent}}}"#);
        call_script(&[], &answers(&answer)).has_result(printed);
    }
}

#[test]
fn t1_an_answer_counts_whether_the_server_exits_stays_or_never_ends() {
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":"ok"}"#;
    for script in [
        answers(answer),
        format!("{}; exit 3", answers(answer)),
        answers_and_stays(answer),
        format!("{}; exec sleep 600", answers(answer)),
        // A background process holds its pipes.
        format!("{}; sleep 30 & exit", answers(answer)),
        // It answers before the request.
        format!("printf '%s\\n' '{answer}'; cat >/dev/null; :"),
        // Its last line has no newline.
        format!("read -r request; printf '%s' '{answer}'"),
    ] {
        call_script(&[], &script).has_result(r#""ok""#);
    }
}

#[test]
fn t1_the_answer_is_printed_before_the_server_is_stopped() {
    let seen = file("answer-was-seen");
    let _ = fs::remove_file(&seen);
    // The server ignores SIGTERM, and exits after the test has seen the answer.
    let script = format!(
        "trap '' TERM; {}; while [ ! -e '{}' ]; do sleep 0.01; done; echo it was seen >&2",
        answers(r#"{"jsonrpc":"2.0","id":1,"result":1}"#),
        seen.display()
    );
    let mut child = command(&["m", "--", "sh", "-c", &script]).spawn().unwrap();
    let err = read_all(child.stderr.take());
    let (mut line, mut out) = (String::new(), BufReader::new(child.stdout.take().unwrap()));
    out.read_line(&mut line).unwrap();
    fs::write(&seen, "").unwrap();
    assert_eq!((&*line, wait(child).code()), ("1\n", Some(0)));
    assert_eq!(err.join().unwrap(), "it was seen\n");
}

#[test]
fn t1_an_answer_in_pretty_json_and_in_each_framing_is_understood() {
    let answer = "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 1,\n  \"result\": {\n    \"a\": [\n      1\n    ]\n  }\n}";
    let length = answer.len();
    #[rustfmt::skip]
    let rows = [
        ("lsp", format!("printf 'Content-Length: {length}\\r\\n\\r\\n%s' '{answer}'")),
        ("length", format!("printf '\\000\\000\\000\\{length:03o}%s\\n' '{answer}'")),
        ("ndjson", format!("printf '%s\\n' '{}'", answer.replace('\n', ""))),
    ];
    for (framing, script) in rows {
        let ended = call_script(&["--framing", framing], &format!("{script}; cat >/dev/null; :"));
        ended.has_result(r#"{"a":[1]}"#);
    }
}

#[test]
fn t1_other_messages_of_the_server_do_not_matter() {
    let first = r#"{"jsonrpc":"2.0","id":1,"result":"first"}"#;
    let second = r#"{"jsonrpc":"2.0","id":1,"result":"second"}"#;
    let other = r#"{"jsonrpc":"2.0","id":7,"result":"other"}"#;
    let notification = r#"{"jsonrpc":"2.0","method":"log","params":["hello"]}"#;
    for lines in [
        [first, second, ""],
        [other, first, ""],
        [notification, first, notification],
        ["stray output", first, ""],
    ] {
        let script = answers_and_stays(&lines.join("\n"));
        call_script(&[], &script).has_result(r#""first""#);
    }
}

#[test]
fn t1_a_request_of_the_server_gets_method_not_found() {
    let script = r#"printf '%s\n' '{"jsonrpc":"2.0","id":"s","method":"ask"}'
        read -r one; read -r two; printf '%s\n' "$one" "$two" >&2
        printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":null}'"#;
    let ended = call_script(&[], script);
    ended.has_result("null");
    assert!(ended.err.contains(r#""id":"s","error":{"code":-32601"#), "{ended:?}");
}

#[test]
fn t1_the_servers_stderr_is_passed_on() {
    let answer = answers(r#"{"jsonrpc":"2.0","id":1,"result":1}"#);
    let ended =
        call_script(&[], &format!("echo one >&2; {answer}; echo two >&2; printf three >&2"));
    ended.has_result("1");
    assert_eq!(ended.err, "one\ntwo\nthree\n");
}

#[test]
fn g2_call_keeps_a_log_beside_a_foreign_server_on_request() {
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":1}"#;
    let script = answers_and_stays(&format!("stray output\n{answer}"));
    assert_eq!(call_script(&[], &script).err, "");
    let ended = call_script(&["--log-level", "warn"], &script);
    ended.has_result("1");
    assert!(ended.err.contains(" WARN "), "{ended:?}");
}

#[test]
fn t1_a_call_ends_even_if_nobody_reads_its_stderr() {
    let talk = "dd if=/dev/zero bs=65536 count=64 2>/dev/null | tr '\\0' x >&2; echo >&2";
    for (answer, code, printed) in [
        (r#"{"jsonrpc":"2.0","id":1,"result":1}"#, 0, "1\n"),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#, 3, ""),
    ] {
        let script = format!("{talk}; {}", answers(answer));
        let mut child = command(&["m", "--", "sh", "-c", &script]).spawn().unwrap();
        let _unread = child.stderr.take();
        let out = read_all(child.stdout.take());
        assert_eq!((wait(child).code(), &*out.join().unwrap()), (Some(code), printed));
    }
}

#[test]
fn t1_a_closed_stdout_fails_the_call_without_a_panic() {
    let script = answers_and_stays(r#"{"jsonrpc":"2.0","id":1,"result":1}"#);
    let mut child = command(&["m", "--", "sh", "-c", &script]);
    // The reader closes it before anything is written.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = child.stdout(writer).spawn().unwrap();
    let err = read_all(child.stderr.take());
    assert_eq!((wait(child).code(), &*err.join().unwrap()), (Some(1), ""));
}

#[test]
fn c2_on_a_terminal_a_result_is_indented() {
    let (screen, stdout) = terminal();
    let script = answers(r#"{"jsonrpc":"2.0","id":1,"result":{"a":[1.0,{}],"b":"\u009b"}}"#);
    let mut call = command(&["m", "--", "sh", "-c", &script]);
    let status = wait(call.stdout(stdout).spawn().unwrap());
    drop(call);
    let mut shown = Vec::new();
    // Reading a terminal without a writer ends with an error.
    let _ = fs::File::from(screen).read_to_end(&mut shown);
    let expect = "{\r\n  \"a\": [\r\n    1.0,\r\n    {}\r\n  ],\r\n  \"b\": \"\\u009b\"\r\n}\r\n";
    assert_eq!((&*String::from_utf8_lossy(&shown), status.code()), (expect, Some(0)));
}
