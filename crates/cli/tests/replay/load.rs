//! `--copies` and `--repeat`.

use std::io::Read as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::support::folder::Folder;
use super::support::programs::DUET_RPC;
use super::support::terminal::terminal;
use super::{replay, server, stderr, stdout, trace};

#[test]
fn y9_copies_and_repeats_are_a_load_test() {
    let folder = Folder::new();
    let golden = trace(
        &folder,
        "golden.jsonl",
        &[r#">{"id":1,"method":"a"}"#, r#"<{"id":1,"result":1}"#, r#">{"method":"b"}"#],
    );
    let good = server(&folder, &["<", r#"{"id":1,"result":1}"#, "<"]);
    let options = ["--copies", "4", "--repeat", "3"];
    let output = replay(&golden, &options, &good);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    assert!(text.starts_with("12 sessions of 4 clients in "), "{text}");
    assert!(text.contains(" s: 12 same, 0 different, 0 failed\n36 messages; "), "{text}");
    // There is one time: that of the whole test.
    assert_eq!((text.matches(" in ").count(), text.matches("messages").count()), (1, 2), "{text}");
    assert!(text.contains("\na       c2s     12 "), "{text}");
    assert!(text.contains("latency of answers\n  up to "), "{text}");
    assert_eq!(stderr(&output), "", "no progress bar without a terminal");

    let json = [&options[..], &["--format", "json"]].concat();
    let bad = server(&folder, &["<", r#"{"id":1,"result":2}"#, "<"]);
    let output = replay(&golden, &json, &bad);
    let report: Value = serde_json::from_str(stdout(&output)).expect("JSON");
    let counts = ["sessions", "copies", "same", "different", "failed"];
    assert_eq!(counts.map(|name| report[name].as_u64().expect("a number")), [12, 4, 0, 12, 0]);
    assert_eq!(report["failures"][0]["count"], 12);
    let seconds = report["seconds"].as_f64().expect("a number");
    let duration = report["stats"]["duration"].as_f64().expect("a number");
    assert!((seconds * 1e6 - duration).abs() <= 1.0, "{report}");
    assert_eq!(output.status.code(), Some(1));
    let output = replay(&golden, &json, &["true"]);
    let report: Value = serde_json::from_str(stdout(&output)).expect("JSON");
    assert_eq!((report["failed"].as_u64(), output.status.code()), (Some(12), Some(6)));
    let output = replay(&golden, &[&options[..], &["--format", "junit"]].concat(), &good);
    assert!(stdout(&output).contains("<testsuites tests=\"1\" failures=\"0\" errors=\"0\">"));
}

#[test]
fn y9_a_difference_under_load_has_its_place_and_its_values() {
    let folder = Folder::new();
    let golden = trace(
        &folder,
        "golden.jsonl",
        &[r#">{"id":1,"method":"a"}"#, r#"<{"id":1,"result":{"n":[1]}}"#],
    );
    // Each session differs at the same place, with another value.
    let bad = ["sh", "-c", "read x; echo '{\"id\":1,\"result\":{\"n\":['$$'5]}}'; cat"];
    let output = replay(&golden, &["--repeat", "2"], &bad);
    let text = stdout(&output);
    let place = "  2 × different: 0 same, 1 changed, 0 missing, 0 extra, 0 slower; \
                 first changed c2s a (record 1)\n        /result/n/0: 1 → ";
    assert!(text.contains(place), "{text}");
    let output = replay(&golden, &["--repeat", "2", "--format", "junit"], &bad);
    let text = stdout(&output);
    assert!(text.contains("<testsuites tests=\"1\" failures=\"1\" errors=\"0\">"), "{text}");
    assert!(text.contains("name=\"2 sessions\""), "{text}");
    assert!(text.contains(">/result/n/0: 1 → "), "{text}");
    assert!(!text.contains("\"0 sessions\""), "{text}");
}

#[test]
fn y9_a_terminal_shows_the_progress() {
    let folder = Folder::new();
    let golden = trace(&folder, "golden.jsonl", &[r#">{"method":"a"}"#]);
    let (screen, end) = terminal();
    let mut command = Command::new(DUET_RPC);
    command.args(["replay", &golden, "--repeat", "2", "--", "sh", "-c", "cat > /dev/null"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(end);
    assert!(command.status().expect("it starts").success());
    // The terminal has an end when the last program has closed it.
    drop(command);
    let (mut shown, mut chunk) = (Vec::new(), [0; 1024]);
    let mut screen = std::fs::File::from(screen);
    while let Ok(count @ 1..) = screen.read(&mut chunk) {
        shown.extend_from_slice(&chunk[..count]);
    }
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.starts_with("\r━"), "{shown:?}");
    assert!(shown.contains(" 1/2 sessions, 0 s"), "{shown:?}");
    assert!(shown.ends_with("\r\x1b[K"), "{shown:?}");
}
