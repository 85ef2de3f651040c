//! The options of `rpc` and the global ones, with good and bad values (C3, G2).

use super::{command, once, run, stderr, stdout};

/// Options with values that they refuse.
const BAD: [(&str, &[&str]); 14] = [
    ("--profile", &["", "nobody", "editor,agent", " editor"]),
    ("--framing", &["", "morse", "lsp ", "content-length"]),
    (
        "--max-message-bytes",
        &["", "0", "-1", "1.5", "1e3", "1k", "0x10", "many", "2147483648", "99999999999999999999"],
    ),
    ("--read-timeout", &["", "-1", "-0.5", "soon", "1s", "nan", "inf", "1e400", "31536001"]),
    ("--batch", &["", "maybe", "true"]),
    ("--max-in-flight", &["", "0", "-1", "1.5", "many", "1000001", "99999999999999999999"]),
    ("--listen", &["", "nowhere", "ftp://127.0.0.1/", "stdio"]),
    ("--max-connections", &["", "0", "-1", "1.5", "many", "1000001"]),
    ("--allow-host", &["", "a b", "host:80", "http://host", "[::1"]),
    ("--allow-origin", &["", "*", "editor.example", "https://", "https://a/path", "https://*a"]),
    ("--subprotocol", &["", "a b", "a,b", "bearer.x"]),
    ("--allow-uid", &["", "-1", "no such user", "4294967296"]),
    ("--log-level", &["", "loud", "trace", "warning", "1", "debug,info"]),
    ("--log-format", &["", "xml", "JSON "]),
];

/// Options of stdio with values that they accept, including the least and the greatest.
const GOOD: [(&str, &[&str]); 10] = [
    ("--profile", &["editor", "desktop", "agent"]),
    ("--framing", &["lsp", "ndjson", "length", "auto"]),
    ("--max-message-bytes", &["1", "1048576", "2147483647"]),
    ("--read-timeout", &["0", "0.001", "30", "2.5", "31536000"]),
    ("--batch", &["reject", "allow"]),
    ("--max-in-flight", &["1", "2", "1000000"]),
    ("--listen", &["stdio:"]),
    ("--max-connections", &["1", "1000000"]),
    ("--log-level", &["debug", "info", "warn", "error", "DEBUG", "Info", "wARN", "ERROR"]),
    ("--log-format", &["text", "json"]),
];

fn check_refused(words: &[&str], option: &str) {
    let output = run(words);
    assert_eq!((stdout(&output), output.status.code()), ("", Some(2)), "{words:?}");
    let message = stderr(&output);
    assert!(message.starts_with("error: "), "{words:?}: {message}");
    let first = message.lines().next().expect("a line");
    assert!(first.contains(option), "{words:?} does not say which option: {message}");
}

#[test]
fn c3_g2_a_bad_value_is_refused_and_the_message_names_the_option() {
    for (option, values) in BAD {
        for value in values {
            check_refused(&["rpc", option, value], option);
            check_refused(&["rpc", &format!("{option}={value}")], option);
        }
        check_refused(&["rpc", option], option);
        let is_global = option.starts_with("--log-");
        if is_global {
            check_refused(&[option, values[1], "version"], option);
            check_refused(&["version", option, values[1]], option);
        }
    }
    for value in ["", "yes", "0", "-1", "1.5", "2147483648"] {
        check_refused(&["rpc", &format!("--exit-with-parent={value}")], "--exit-with-parent");
    }
}

#[test]
fn c3_an_option_of_rpc_is_given_once_and_belongs_to_rpc() {
    check_refused(&["rpc", "--framing", "lsp", "--framing", "ndjson"], "--framing");
    check_refused(&["--framing", "lsp", "rpc"], "--framing");
    check_refused(&["version", "--framing", "lsp"], "--framing");
}

#[test]
fn c3_g2_a_good_value_is_accepted() {
    for (option, values) in GOOD {
        for value in values {
            for words in [&["rpc", option, value][..], &["rpc", &format!("{option}={value}")]] {
                let output = run(words);
                assert_eq!((stdout(&output), output.status.code()), ("", Some(0)), "{words:?}");
            }
        }
    }
}

#[test]
fn c3_every_option_overrides_its_part_of_the_profile() {
    // A batch that the profile would reject, in the framing of another profile, and a message within the
    // limit of the profile but above that of the option.
    let words = ["rpc", "--profile", "editor", "--framing", "ndjson", "--batch", "allow"];
    let more = ["--max-message-bytes", "64", "--read-timeout", "1.5", "--max-in-flight", "7"];
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"version"}]"#;
    let long = format!("[{}1]", "1,".repeat(40));
    let words = [&words[..], &more, &["--exit-with-parent", "--listen", "stdio:"]].concat();
    let output = once::run(command(&words), format!("{batch}\n{long}\n").as_bytes());
    assert_eq!(output.status.code(), Some(0));
    let expected = r#"[{"jsonrpc":"2.0","id":1,"result":{"version":"0.1.0"}}]"#;
    let (first, second) = stdout(&output).split_once('\n').expect("two lines");
    assert_eq!(first, expected);
    assert!(second.contains("\"oversize\""), "{second}");
}
