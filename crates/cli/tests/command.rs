//! The real binary: what this version of the command does (C1), and that it is honest about what
//! it does not.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn run(words: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_duet-rpc"))
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // Commands that read nothing may be gone already.
    let _ = child.stdin.take().expect("stdin is piped").write_all(input);
    child.wait_with_output().expect("the binary ends")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

#[test]
fn c1_version_and_help() {
    for words in [&["version"][..], &["-V"], &["--version"]] {
        let output = run(words, b"");
        assert_eq!((stdout(&output), output.status.code()), ("0.1.0\n", Some(0)));
        assert_eq!(output.stderr, b"");
    }
    for words in [&[][..], &["-h"], &["--help"]] {
        let output = run(words, b"");
        assert!(stdout(&output).contains("Usage: duet-rpc"));
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn c1_what_is_unknown_or_not_there_is_told_on_stderr() {
    for (words, code) in [
        (&["nonsense"][..], 2),
        (&["--nonsense"], 2),
        (&["version", "more"], 2),
        (&["explain", "morse"], 2),
        (&["prompt"], 1),
        (&["rpc"], 1),
    ] {
        let output = run(words, b"");
        assert_eq!((stdout(&output), output.status.code()), ("", Some(code)), "{words:?}");
        assert!(output.stderr.starts_with(b"duet-rpc: "));
    }
}

#[test]
fn explain_says_what_a_stream_holds_and_shows_none_of_it() {
    let request = r#"{"jsonrpc":"2.0","id":7,"method":"a","params":["CANARY"]}"#;
    let stream = format!(
        "oops\r\nContent-Length: {}\r\n\r\n{request}Content-Length: 9\r\n\r\n[\"CANARY\"",
        request.len()
    );
    let output = run(&["explain"], stream.as_bytes());
    let expect = "\
fault: a line is no header: stray output before a frame?; the answer is Parse error (-32700)
frame of 57 bytes: request \"a\", id 7, params by position
fault: the frame's body is not JSON at byte 9; the answer is Parse error (-32700)
";
    assert_eq!(stdout(&output), expect);
    assert_eq!(output.status.code(), Some(0));
}
