//! Recordings that are not whole, and files that are no recordings.

use super::support::folder::Folder;
use super::{replay, said, server, stderr, trace, trace_text};

const ASK: &str = r#">{"id":1,"method":"a","params":{"token":"[redacted]"}}"#;
const ANSWER: &str = r#"<{"id":1,"result":{"key":"k","n":1}}"#;

#[test]
fn y7_files_that_cannot_be_played_are_refused_with_the_reason() {
    let folder = Folder::new();
    let cut = "{\"seq\":1,\"at\":0,\"dir\":\"c2s\",\"kind\":\"notification\",\"method\":\"a\",\"cut\":true,\"text\":\"{\"}\n";
    let loss = "{\"seq\":3,\"at\":0,\"dir\":\"c2s\",\"kind\":\"loss\",\"lost\":17}\n";
    let session = trace_text(&[ASK, ANSWER]);
    let header = "{\"duet\":1}\n".to_owned();
    for (bytes, what) in [
        (String::new(), "is not a trace: it is empty"),
        ("hello\n".to_owned(), "is not a trace: line 1 is not a header"),
        ("{\"duet\":2}\n".to_owned(), "update duet-rpc"),
        (header.clone() + "{}\n", "line 2 is not a record"),
        (header.clone(), "the recording has no message of the client"),
        (header.clone() + "{\"seq", "the last line is not whole"),
        (
            header.clone() + cut,
            "the message of record 1 is not whole: record again without --max-body",
        ),
        (session.clone() + loss, "17 bytes were not recorded, so messages are missing"),
    ] {
        let file = folder.write("bad.jsonl", &bytes);
        let output = replay(&file, &[], &["true"]);
        assert_eq!(said(&output), (1, ""), "{what}");
        assert!(stderr(&output).contains(what), "{what}: {}", stderr(&output));
        let torn = stderr(&output).matches("not read").count();
        assert!(torn <= 1, "a torn line is reported once: {}", stderr(&output));
    }
    let output = replay(&folder.text("none.jsonl"), &[], &["true"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn y7_incomplete_recordings_are_played_with_a_warning() {
    let folder = Folder::new();
    let session = trace_text(&[ASK, ANSWER]);
    let server = server(&folder, &["<", &ANSWER[1..]]);
    let s2c_loss = "{\"seq\":3,\"at\":9,\"dir\":\"s2c\",\"kind\":\"loss\",\"lost\":17}\n";
    let noise =
        "{\"seq\":3,\"at\":9,\"dir\":\"c2s\",\"kind\":\"noise\",\"size\":1,\"text\":\"x\"}\n";
    for (bytes, what) in [
        (session.clone(), "the recording has no end"),
        (session.clone() + "{\"seq\":3,\"at", "the last line is not whole"),
        (session.clone() + s2c_loss, "17 bytes of the server were not recorded"),
        (session.clone() + noise, "1 records of the client are not messages, and are not sent"),
    ] {
        let file = folder.write("part.jsonl", &bytes);
        let output = replay(&file, &[], &server);
        assert_eq!(said(&output), (0, "1 same, 0 changed, 0 missing, 0 extra\n"), "{what}");
        assert!(stderr(&output).contains(what), "{what}: {}", stderr(&output));
    }
}

#[test]
fn y7_redacted_values_match_any() {
    let folder = Folder::new();
    let golden =
        trace(&folder, "golden.jsonl", &[ASK, r#"<{"id":1,"result":{"key":"[redacted]","n":1}}"#]);
    let text = std::fs::read_to_string(&golden).expect("a file");
    let text = text.replace("\"wire\"", "\"redacted\":true,\"wire\"");
    let golden = folder.write("golden.jsonl", text);
    let server = server(&folder, &["<", r#"{"id":1,"result":{"key":"secret","n":2}}"#]);
    let output = replay(&golden, &[], &server);
    let expected = "\
changed c2s a (record 1)
        /result/n: 1 → 2
0 same, 1 changed, 0 missing, 0 extra
";
    assert_eq!(said(&output), (1, expected));
    assert!(stderr(&output).contains("values were redacted in 2 messages"), "{}", stderr(&output));
    // Their real values must not get into the file.
    let output = replay(&golden, &["--update"], &server);
    assert_eq!(said(&output), (1, ""));
    assert!(stderr(&output).contains("--update would write the redacted values"));
}
