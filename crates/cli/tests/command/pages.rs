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
fault: a line is not a header: stray output before a frame?; the answer is Parse error (-32700)
frame of 57 bytes: request \"a\", id 7, params by position
fault: the frame's body is not JSON at byte 9; the answer is Parse error (-32700)
";
    assert_eq!(stdout(&output), expect);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn explain_knows_every_framing() {
    let request = r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#;
    let line = "frame of 37 bytes: request \"a\", id 7, no params\n";
    let streams = [
        ("lsp", format!("Content-Length: 37\r\n\r\n{request}")),
        ("ndjson", format!("{request}\n")),
        ("length", format!("\0\0\0\x25{request}\n")),
    ];
    for (framing, stream) in &streams {
        for word in [framing, "auto"] {
            let output = once::run(command(&["explain", word]), stream.as_bytes());
            assert_eq!((stdout(&output), output.status.code()), (line, Some(0)), "{word}");
        }
    }
    assert_eq!(run(&["explain", "morse"]).status.code(), Some(2));
}
