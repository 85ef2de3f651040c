//! Printed texts: completions, the manual, explanations.

use std::collections::BTreeSet;

use super::{COMMANDS, command, once, run, stderr, stdout};

/// Runs a command successfully, and returns its stdout.
fn print(words: &[&str]) -> String {
    let output = run(words);
    assert_eq!((stderr(&output), output.status.code()), ("", Some(0)), "{words:?}");
    stdout(&output).to_owned()
}

/// Long options in a text.
fn long_options(text: &str) -> BTreeSet<String> {
    let is_of_a_name = |character: char| character.is_ascii_alphanumeric() || character == '-';
    let words = text.split(|character| !is_of_a_name(character));
    words.filter(|word| word.len() > 2 && word.starts_with("--")).map(str::to_owned).collect()
}

/// Completions that bash offers for the last word.
fn complete(words: &[&str]) -> Option<Vec<String>> {
    let script = print(&["completions", "bash"]);
    let ask = r#"
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        registered=$(complete -p duet-rpc); function=${registered##*-F }
        "${function%% *}" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", &format!("{script}{ask}"), "bash"]).args(words);
    let output = bash.output().ok()?;
    assert_eq!(stderr(&output), "");
    Some(stdout(&output).lines().map(str::to_owned).collect())
}

/// A manual page without its markup for hyphens, bold and italics.
fn in_plain(page: &str) -> String {
    ["\\fB", "\\fI", "\\fR"]
        .iter()
        .fold(page.replace("\\-", "-"), |page, mark| page.replace(mark, ""))
}

#[test]
fn c1_completions_know_every_command_and_option() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = print(&["completions", shell]);
        for word in COMMANDS.into_iter().chain(["explain", "profile", "log-level"]) {
            assert!(script.contains(word), "{shell} does not complete {word}");
        }
    }
    for words in [&["completions", "cmd"][..], &["completions", ""], &["completions", "bash", "x"]]
    {
        assert_eq!(run(words).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn c1_bash_completes_commands_options_and_values() {
    let rows: [(&[&str], &[&str]); 6] = [
        (&["duet-rpc", "ver"], &["version"]),
        (&["duet-rpc", "rpc", "--prof"], &["--profile"]),
        (&["duet-rpc", "rpc", "--profile", "d"], &["desktop"]),
        (&["duet-rpc", "call", "--framing", ""], &["lsp", "ndjson", "length"]),
        (&["duet-rpc", "completions", "z"], &["zsh"]),
        (&["duet-rpc", "man", "do"], &["doctor"]),
    ];
    for (words, expect) in rows {
        let Some(offered) = complete(words) else {
            eprintln!("SKIPPED: completions in bash: bash is not installed");
            return;
        };
        assert_eq!(offered, expect, "{words:?}");
    }
}

#[test]
fn c1_the_manual_has_every_option_of_the_help() {
    for command in [None, Some("version"), Some("rpc"), Some("call"), Some("doctor"), Some("man")] {
        let words: Vec<_> = command.into_iter().collect();
        let page = in_plain(&print(&[&["man"], &words[..]].concat()));
        for section in [".TH", ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", ".SH ENVIRONMENT"] {
            assert!(page.contains(section), "{command:?} has no {section}");
        }
        let title = format!(".TH {} 1", [&["duet-rpc"], &words[..]].concat().join("-"));
        let first = page.lines().find(|line| line.starts_with(".TH")).expect("a title");
        assert!(first.starts_with(&title) && first.contains("duet-rpc 0.1.0"), "{first}");
        let missing: Vec<_> = long_options(&print(&[&words[..], &["--help"]].concat()))
            .difference(&long_options(&page))
            .cloned()
            .collect();
        assert_eq!(missing, [""; 0], "the page of {command:?}");
    }
    let whole = print(&["man"]);
    for name in COMMANDS {
        // A reserved command has no page to refer to.
        let is_told = whole.contains(&format!("duet\\-rpc\\-{name}(1)"));
        assert_eq!(is_told, name != "prompt", "the manual's description of {name}");
    }
    assert_eq!(run(&["man", "nonsense"]).status.code(), Some(2));
}

#[test]
fn explain_describes_a_stream_and_shows_no_payload() {
    let request = r#"{"jsonrpc":"2.0","id":7,"method":"a","params":["CANARY"]}"#;
    let stream = format!(
        "oops\r\nContent-Length: {}\r\n\r\n{request}Content-Length: 9\r\n\r\n[\"CANARY\"",
        request.len()
    );
    let output = once::run(command(&["explain"]), stream.as_bytes());
    let expect = "\
fault at byte 0: a line is not a header: stray output before a frame?; the answer is Parse error (-32700)
frame of 57 bytes at byte 28: request \"a\", id 7, params by position
fault at byte 85: the frame's body is not JSON at byte 9; the answer is Parse error (-32700)
";
    assert_eq!(stdout(&output), expect);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn c9_explain_names_the_reason_and_shows_params_on_request() {
    let stream = concat!(
        r#"{"jsonrpc":"1.0","id":7,"method":"a"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no \u001b[31m","data":[1, 2]}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":7,"error":"CANARY"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":7,"result":1,"error":null}"#,
        "\n",
        r#"[{"jsonrpc":"2.0","method":"a","params":{"CANARY": 1}},{"jsonrpc":"2.0","id":8,"result":"CANARY"},3]"#,
        "\n",
    );
    let lines = [
        "frame of 37 bytes at byte 0: invalid: `jsonrpc` is \"1.0\", expected \"2.0\"; the answer, id 7, is Invalid Request (-32600)",
        "frame of 88 bytes at byte 38: response with an error, id 7: \"no \\u{1b}[31m\", code -32601",
        "    data [1,2]",
        "frame of 41 bytes at byte 127: response with an error, id 7: `error` is a string, expected an object",
        "    error \"CANARY\"",
        "frame of 48 bytes at byte 169: dropped: a response has both a result and an error: \
         `result` and `error` are both there, expected one of them",
        "frame of 100 bytes at byte 218: batch of 3: notification \"a\", params by name; response with a result, id 8; invalid: \
         it is a number, expected an object or a batch of objects; the answer, id null, is Invalid Request (-32600)",
        "    params {\"CANARY\":1}",
        "    result \"CANARY\"",
    ];
    let output = once::run(command(&["explain", "--show-params"]), stream.as_bytes());
    assert_eq!(stdout(&output).lines().collect::<Vec<_>>(), lines);
    let output = once::run(command(&["explain"]), stream.as_bytes());
    let shown: Vec<_> = lines.into_iter().filter(|line| !line.starts_with("    ")).collect();
    assert_eq!(stdout(&output).lines().collect::<Vec<_>>(), shown);
    assert!(!stdout(&output).contains("CANARY"));
}

#[test]
fn explain_knows_every_framing() {
    let request = r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#;
    let streams = [
        ("lsp", format!("Content-Length: 37\r\n\r\n{request}"), 22),
        ("ndjson", format!(" {request}\n"), 1),
        ("length", format!("\0\0\0\x25{request}\n"), 4),
    ];
    for (framing, stream, begin) in &streams {
        let line = format!("frame of 37 bytes at byte {begin}: request \"a\", id 7, no params\n");
        for word in [framing, "auto"] {
            let output = once::run(command(&["explain", word]), stream.as_bytes());
            assert_eq!((stdout(&output), output.status.code()), (&*line, Some(0)), "{word}");
        }
    }
    let output = run(&["explain", "stream.bin"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("tip: to explain a file, use `duet-rpc explain < FILE`"), "{said}");
    assert!(said.contains("possible values: lsp, ndjson, length, auto"), "{said}");
}

#[test]
fn c9_explain_says_where_a_fault_is_and_why() {
    let request = r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#;
    let good = format!("Content-Length: 37\r\n\r\n{request}");
    #[rustfmt::skip]
    let rows = [
        // Too long, with a frame after it and without.
        (format!("{good}Content-Length: 90\r\n\r\n{request}{good}"), "auto",
         "fault at byte 59: the frame's body is not JSON at byte 37: \
          the JSON text ends at byte 37, the length is 90; ", "\"Content-Length: 90\\r\\n"),
        (format!("Content-Length: 90\r\n\r\n{request}"), "auto",
         "fault at byte 0: a frame ended early: its length is wrong, or the input ended: \
          the JSON text ends at byte 37, the length is 90; ", "\"Content-Length: 90\\r\\n"),
        // Too short.
        (format!("{good}Content-Length: 30\r\n\r\n{request}{good}"), "auto",
         "fault at byte 59: the frame's body is not JSON at byte 30: \
          the JSON text ends at byte 37, the length is 30; ", "\"Content-Length: 30\\r\\n"),
        (format!("\u{feff}{request}\n"), "auto",
         "fault at byte 0: a header line ends with LF instead of CR LF: \
          it begins with a byte order mark, which must be left out; ", "\"\\u{feff}{"),
        (format!("\u{feff}{request}\n"), "ndjson",
         "fault at byte 0: the frame's body is not JSON at byte 0: \
          it begins with a byte order mark, which must be left out; ", "\"\\u{feff}{"),
        (format!("{good}Loading...\nmore\n{good}"), "auto",
         "fault at byte 59: a header line ends with LF instead of CR LF: \
          the line is not a header: stray output?; ", "\"Loading...\\n\""),
        (format!("{request}\n\noops {{}}\n{request}\n"), "auto",
         "fault at byte 39: the frame's body is not JSON at byte 0; ", "\"oops {}\\n\""),
    ];
    for (stream, framing, told, excerpt) in rows {
        let output = once::run(command(&["explain", framing]), stream.as_bytes());
        let faults: Vec<_> =
            stdout(&output).lines().filter(|line| line.starts_with("fault")).collect();
        assert_eq!(faults, [format!("{told}the answer is Parse error (-32700)")], "{stream:?}");
        // Every frame has its place.
        for line in stdout(&output).lines().filter(|line| line.starts_with("frame")) {
            let begin = line.split(' ').nth(6).and_then(|word| word.strip_suffix(':'));
            let begin: usize = begin.and_then(|it| it.parse().ok()).expect("a position");
            assert!(stream[begin..].starts_with(request), "{line} in {stream:?}");
        }
        let output = once::run(command(&["explain", framing, "--show-params"]), stream.as_bytes());
        let bytes = format!("\n    bytes {excerpt}");
        assert!(format!("\n{}", stdout(&output)).contains(&bytes), "{}", stdout(&output));
    }
}

#[test]
fn c9_explain_keeps_the_place_in_a_long_stream() {
    let request = r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#;
    let long = format!(r#"{{"jsonrpc":"2.0","method":"b","params":["{}"]}}"#, "x".repeat(300_000));
    let one =
        format!("Content-Length: {}\r\n\r\n{long}Content-Length: 37\r\n\r\n{request}", long.len());
    let stream = one.repeat(5) + "Content-Length: 5\r\n\r\noops!";
    let output = once::run(command(&["explain"]), stream.as_bytes());
    let lines: Vec<_> = stdout(&output).lines().collect();
    assert_eq!(lines.len(), 11);
    for (number, line) in lines.iter().enumerate() {
        let whole = number / 2 * one.len();
        let begin = match number % 2 {
            _ if number == 10 => whole,
            0 => whole + one.find('{').expect("a text"),
            _ => whole + one.len() - request.len(),
        };
        assert!(line.contains(&format!(" at byte {begin}: ")), "{number}: {line}");
    }
}

#[test]
fn c9_explain_exits_with_1_on_request_and_knows_traces() {
    let request = r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#;
    for (stream, code) in [
        (format!("{request}\n"), 0),
        (format!("{request}\noops\n"), 1),
        ("{\"id\":7,\"method\":\"a\"}\n".to_owned(), 1),
        (format!("[{request},3]\n"), 1),
    ] {
        let exit = |words: &[&str]| once::run(command(words), stream.as_bytes()).status.code();
        assert_eq!(exit(&["explain"]), Some(0), "{stream}");
        assert_eq!(exit(&["explain", "--check"]), Some(code), "{stream}");
    }
    let output = once::run(command(&["explain"]), b"{\"duet\":1,\"session\":\"x\"}\n{\"seq\":1}\n");
    assert_eq!((stdout(&output), output.status.code()), ("", Some(1)));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("`duet-rpc trace show FILE`"), "{said}");
}
