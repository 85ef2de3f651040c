//! Methods and params of calls: from the command line, stdin or a file.

use crate::{Ended, call, call_with, write};

/// Returns a call whose stderr shows the request made from these words.
fn request(words: &[&str], input: &[u8]) -> Ended {
    let script = r#"read -r request; printf '%s\n' "$request" >&2
        printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":null}'"#;
    call_with(&[words, &["--", "sh", "-c", script]].concat(), input)
}

#[test]
fn m3_params_come_from_the_command_line_stdin_or_a_file() {
    let file = write("params.json", b"\xef\xbb\xbf{\n  \"a\": 1.0,\n  \"a\": 2\n}\n");
    let file = format!("@{file}");
    #[rustfmt::skip]
    let rows: [(&[&str], &[u8], &str); 8] = [
        (&["m"], b"", r#""method":"m"}"#),
        (&[""], b"", r#""method":""}"#),
        (&["a\"b"], b"", r#""method":"a\"b"}"#),
        (&["m", "null"], b"", r#""method":"m"}"#),
        (&["m", " [1.0, 1e400]"], b"", r#""method":"m","params":[1.0, 1e400]}"#),
        (&["m", "{}"], b"", r#""method":"m","params":{}}"#),
        (&["m", "-"], b"[\"from stdin\"]\n", r#""method":"m","params":["from stdin"]}"#),
        // Line breaks are removed, and nothing else changes.
        (&["m", &file], b"", r#""params":{    "a": 1.0,    "a": 2  }}"#),
    ];
    for (words, input, expect) in rows {
        let ended = request(words, input);
        ended.has_result("null");
        let squeeze = |text: &str| text.split_whitespace().collect::<String>();
        assert!(squeeze(&ended.err).contains(&squeeze(expect)), "{expect} is not in {ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    }
}

#[test]
fn m3_bad_params_are_refused_before_a_server_is_started() {
    let text = write("text.json", b"\"text\"");
    let bytes = write("bytes.json", b"[\"\xff\"]");
    let (text, bytes) = (format!("@{text}"), format!("@{bytes}"));
    #[rustfmt::skip]
    let rows: [(&str, &[u8], i32, &str); 9] = [
        ("[1,", b"", 2, "not JSON: EOF while parsing a value at line 1 column 3"),
        ("word", b"", 2, "quote them for the shell"),
        ("1", b"", 2, "are a number: JSON-RPC takes an array, an object, or null for none"),
        ("true", b"", 2, "are a boolean"),
        ("-", b"[1,\n2,\noops]", 2, "the params from stdin are not JSON: expected value at line 3"),
        ("-", b"", 2, "stdin are not JSON: EOF"),
        (&text, b"", 2, "text.json` are a string"),
        (&bytes, b"", 2, "bytes.json` are not UTF-8: byte 2"),
        ("@no/such/file.json", b"", 1, "the file `no/such/file.json`: "),
    ];
    for (params, input, code, told) in rows {
        let ended = request(&["m", params], input);
        ended.has_failed(code, &["duet-rpc: ", told]);
        assert_eq!(ended.err.lines().count(), 1, "no server was started: {ended:?}");
    }
}

#[test]
fn c3_a_bad_option_value_is_refused() {
    for words in [
        &[][..],
        &["--framing", "auto", "m"],
        &["--framing", "morse", "m"],
        &["--profile", "nobody", "m"],
        &["--timeout", "-1", "m"],
        &["--timeout", "soon", "m"],
        &["m", "[]", "more"],
    ] {
        call(words).has_failed(2, &["error: "]);
    }
}
