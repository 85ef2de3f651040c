//! Files that are not traces, and traces that are damaged.

use super::support::folder::Folder;
use super::{SESSION, file, stderr, stdout, trace, trace_of, write};

/// Commands that read one trace, without the name of the file.
const COMMANDS: [&[&str]; 7] = [
    &["show"],
    &["show", "--json"],
    &["stats"],
    &["check", "--allow", "noise", "--allow", "unanswered", "--allow", "unknown-method"],
    &["convert", "--to", "har"],
    &["convert", "--to", "vscode"],
    &["redact", "--redact", "token"],
];

#[test]
fn r3_bad_input_is_an_error_with_the_line() {
    let folder = Folder::new();
    let good = file(SESSION);
    let with = |line: &str| [&good[..], line.as_bytes()].concat();
    let rows = [
        ("text.jsonl", b"hello\nworld\n".to_vec(), "is not a trace: line 1 is not a header"),
        ("array.jsonl", b"[1,2]\n".to_vec(), "is not a trace: line 1 is not a header"),
        ("bytes.jsonl", b"\x00\xff\n\n".to_vec(), "is not a trace: line 1 is not a header"),
        ("open.jsonl", b"{\"duet\":1".to_vec(), "is not a trace: line 1 does not end"),
        ("empty.jsonl", Vec::new(), "is not a trace: it is empty"),
        ("new.jsonl", b"{\"duet\":2}\n".to_vec(), "the trace has version 2 of the format"),
        (
            "record.jsonl",
            good[good.iter().position(|it| *it == b'\n').expect("a line") + 1..].to_vec(),
            "is not a trace: line 1 is not a header",
        ),
        ("bad.jsonl", with("hello\n"), "line 15 is not a record: expected value (column 1)"),
        ("half.jsonl", with("{\"seq\":1\n"), "line 15 is not a record: EOF while parsing"),
        (
            "kind.jsonl",
            with("{\"seq\":1,\"dir\":\"c2s\"}\n"),
            "line 15 is not a record: missing field `kind`",
        ),
        (
            "b64.jsonl",
            with("{\"seq\":1,\"dir\":\"c2s\",\"kind\":\"noise\",\"b64\":\"!\"}\n"),
            "line 15 is not a record: not base64",
        ),
    ];
    for (name, bytes, message) in rows {
        let path = folder.write(name, &bytes);
        for command in COMMANDS {
            let words: Vec<_> = command.iter().copied().chain([path.as_str()]).collect();
            let output = trace(&words);
            assert_eq!(output.status.code(), Some(1), "{words:?}");
            let said = stderr(&output);
            assert!(said.contains(name) && said.contains(message), "{words:?}: {said}");
            assert!(!said.contains("panicked"), "{said}");
            let words: Vec<_> = command.iter().copied().chain(["-"]).collect();
            let output = trace_of(&words, &bytes);
            assert!(stderr(&output).contains(message), "stdin, {words:?}: {}", stderr(&output));
        }
        for words in [["diff", &path, "good"], ["diff", "good", &path]] {
            let good = folder.write("good", &good);
            let words = words.map(|word| if word == "good" { good.as_str() } else { word });
            let output = trace(&words);
            assert_eq!(output.status.code(), Some(1), "{words:?}");
            assert!(stderr(&output).contains(message), "{words:?}: {}", stderr(&output));
        }
    }
}

#[test]
fn r3_paths_that_cannot_be_read_are_errors() {
    let folder = Folder::new();
    for path in [folder.text("missing.jsonl"), folder.text(""), "/".to_owned()] {
        for command in COMMANDS {
            let words: Vec<_> = command.iter().copied().chain([path.as_str()]).collect();
            let output = trace(&words);
            assert_eq!(output.status.code(), Some(1), "{words:?}");
            assert!(stderr(&output).starts_with("duet-rpc: cannot read "), "{}", stderr(&output));
        }
    }
    let output = trace(&["show", &folder.text("")]);
    assert!(stderr(&output).contains("; give a file, such as "), "{}", stderr(&output));
    // `tap --listen --to ws.jsonl` writes a file for each connection.
    let first = write(&folder, "ws-1.jsonl", SESSION);
    let output = trace(&["show", &folder.text("ws.jsonl")]);
    let expected = format!("; the first connection of `tap --listen` is in {first}\n");
    assert!(stderr(&output).ends_with(&expected), "{}", stderr(&output));
    std::fs::remove_file(first).expect("it is there");
    let path = write(&folder, "a.jsonl", SESSION);
    let output = trace(&["show", &folder.text("")]);
    let expected = format!("; give one of its files, the newest is {path}\n");
    assert!(stderr(&output).ends_with(&expected), "{}", stderr(&output));
}

#[test]
fn r3_a_torn_last_line_is_a_warning() {
    let folder = Folder::new();
    let good = file(SESSION);
    for torn in [&b"{\"seq\":"[..], b"x"] {
        let path = folder.write("torn.jsonl", [&good, torn].concat());
        for command in COMMANDS {
            let words: Vec<_> = command.iter().copied().chain([path.as_str()]).collect();
            let output = trace(&words);
            assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
            let message = format!("line 15 is not whole and not read ({} bytes)", torn.len());
            assert_eq!(stderr(&output).matches(&message).count(), 1, "{}", stderr(&output));
            assert!(!stdout(&output).is_empty());
        }
        let output = trace(&["diff", &path, &path]);
        assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
        assert_eq!(stderr(&output).matches("the last line is not whole").count(), 2);
    }
}

#[test]
fn r3_a_message_of_10_mb_is_read() {
    let folder = Folder::new();
    let text = "x".repeat(10_000_000);
    let script = format!(
        "0 > {{\"id\":1,\"method\":\"a\",\"params\":[\"{text}\"]}}\n1 < {{\"id\":1,\"result\":\"{text}\"}}\n"
    );
    let path = write(&folder, "big.jsonl", &script);
    for command in COMMANDS {
        let words: Vec<_> = command.iter().copied().chain([path.as_str()]).collect();
        let output = trace(&words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
    }
    assert!(stdout(&trace(&["show", &path])).len() < 1_000);
    assert_eq!(trace(&["diff", &path, &path]).status.code(), Some(0));
}

#[test]
fn r3_all_parts_of_a_rotated_trace_are_read() {
    let folder = Folder::new();
    let whole = String::from_utf8(file(SESSION)).expect("UTF-8");
    let lines: Vec<_> = whole.lines().collect();
    let part = |records: &[&str]| format!("{}\n{}\n", lines[0], records.join("\n"));
    let first = folder.write("a.jsonl", part(&lines[1..6]));
    folder.write("a.2.jsonl", part(&lines[6..8]));
    folder.write("a.3.jsonl", part(&lines[8..]));
    let single = folder.write("whole.jsonl", &whole);
    for command in [&["stats"][..], &["convert", "--to", "mermaid"]] {
        let run = |path: &str| {
            let words: Vec<_> = command.iter().copied().chain([path]).collect();
            stdout(&trace(&words)).to_owned()
        };
        assert_eq!(run(&first), run(&single), "{command:?}");
    }
    let same = trace(&["diff", &first, &single]);
    assert_eq!(same.status.code(), Some(0), "{}", stdout(&same));
}

#[test]
fn r3_a_closed_stdout_ends_the_command() {
    let folder = Folder::new();
    let rows: String = (0..20_000).map(|at| format!("{at} > {{\"method\":\"m{at}\"}}\n")).collect();
    let path = write(&folder, "long.jsonl", &rows);
    let script = format!("'{}' trace show '{path}' | head -n 1", env!("CARGO_BIN_EXE_duet-rpc"));
    let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("a shell");
    assert_eq!((stdout(&output).lines().count(), stderr(&output)), (1, ""));
}
