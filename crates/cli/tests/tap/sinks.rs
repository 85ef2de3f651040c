//! W3: a trace that cannot be written loses records, never bytes.

use std::fs::{self, File};
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;

use super::support::folder::Folder;
use super::support::once::run;
use super::support::programs::DUET_RPC;
use super::{cat_file, records, tap, write};

/// A tap to this place, before `cat`.
fn tap_to(place: &str, options: &[&str]) -> Command {
    let mut command = Command::new(DUET_RPC);
    command.args(["tap", "--to", place]).args(options).args(["--", "cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn w3_full_disk_loses_no_byte() {
    let input = vec![b'x'; 1_000_000];
    for place in ["/dev/full", "/proc/nothing/trace.jsonl", "/dev/null/trace"] {
        let output = run(tap_to(place, &[]), &input);
        assert_eq!(output.status.code(), Some(0), "{place}");
        assert!(output.stdout == input, "{place}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!("duet-rpc: the trace is incomplete: cannot write {place}: ");
        assert!(said.starts_with(&expected), "{place}: {said}");
        assert!(said.contains("choose another place with --to"), "{place}: {said}");
    }
    assert!(!fs::exists("/dev/full.2").expect("it can be checked"));
}

#[test]
fn w3_folder_that_is_removed_while_the_tap_runs_loses_no_byte() {
    let folder = Folder::new();
    let place = folder.text("traces/trace.jsonl");
    let mut process = tap_to(&place, &["--max-file", "1k"]).spawn().expect("it starts");
    let mut stdout = process.stdout.take().expect("a pipe");
    let line = format!("{}\n", r#"{"method":"m"}"#);
    for round in 0..200 {
        write(&mut process, line.as_bytes());
        let mut echoed = vec![0; line.len()];
        stdout.read_exact(&mut echoed).expect("it passes");
        if round == 100 {
            let _ = fs::remove_dir_all(folder.path("traces"));
        }
    }
    drop(process.stdin.take());
    assert_eq!(process.wait().expect("our child").code(), Some(0));
}

#[test]
fn w3_sink_that_blocks_loses_records_and_says_so() {
    let folder = Folder::new();
    let fifo = folder.fifo("trace");
    // More than the queue and the pipe hold. Nobody reads the trace until all bytes have passed.
    let input = format!("{}\n", r#"{"method":"m","params":["x"]}"#).repeat(200_000);
    let mut process =
        tap_to(fifo.to_str().expect("plain"), &["--buffer", "1m"]).spawn().expect("it starts");
    let mut stdout = process.stdout.take().expect("a pipe");
    let size = input.len();
    let reader = thread::spawn(move || {
        let mut echoed = vec![0; size];
        stdout.read_exact(&mut echoed).map(|()| (echoed, stdout))
    });
    write(&mut process, input.as_bytes());
    let (echoed, _stdout) = reader.join().expect("it does not panic").expect("all bytes pass");
    assert!(echoed == input.as_bytes());
    // Now the trace is read, and the rest of the session is recorded.
    let trace = thread::spawn(move || {
        let mut bytes = Vec::new();
        File::open(fifo).and_then(|mut file| file.read_to_end(&mut bytes)).map(|_| bytes)
    });
    write(&mut process, b"{\"method\":\"last\"}\n");
    drop(process.stdin.take());
    assert_eq!(process.wait().expect("our child").code(), Some(0));
    let trace = trace.join().expect("it does not panic").expect("it can be read");
    let file = folder.write("copy.jsonl", trace);
    let records = records(file.clone().into());
    let lost: u64 = records.iter().filter_map(|it| it["lost"].as_u64()).sum();
    assert!(lost > 0);
    let end = records.last().expect("an end");
    assert_eq!((&end["kind"], &end["lossless"]), (&"end".into(), &false.into()));
    let last = |it: &&serde_json::Value| it["method"] == "last" && it["dir"] == "c2s";
    assert_eq!(records.iter().filter(last).count(), 1, "the frame after the gap is found");
    let output = cat_file(file.as_ref(), "c2s");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("duet-rpc: the trace is not lossless: record "), "{said}");
}

#[test]
fn w3_sink_that_never_unblocks_does_not_stop_the_exit() {
    let folder = Folder::new();
    // Nobody ever opens it, so the recorder waits in `open`.
    let fifo = folder.fifo("trace");
    let output = run(tap_to(fifo.to_str().expect("plain"), &[]), b"hello");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"hello"[..]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said, "duet-rpc: the trace is incomplete: the trace is written too slowly\n");
}

#[test]
fn w3_slow_reader_of_the_trace_does_not_slow_the_tap() {
    let folder = Folder::new();
    let input = vec![b'y'; 3_000_000];
    let output = run(tap(&folder, &["--buffer", "64k"], &["cat"]), &input);
    assert!(output.stdout == input);
    // Losses or none, the totals are right.
    let records = records(folder.path("trace.jsonl"));
    let end = records.last().expect("an end");
    assert_eq!(end["bytes"]["c2s"], 3_000_000);
}

#[test]
fn w8_file_that_is_not_a_trace_is_never_replaced() {
    let folder = Folder::new();
    let header = r#"{"duet":1,"session":"s"}"#;
    for (name, content, is_replaced) in [
        ("empty.jsonl", String::new(), true),
        ("trace.jsonl", format!("{header}\nnot a record\n"), true),
        ("notes.txt", "my notes\n".to_owned(), false),
        ("torn.jsonl", header.to_owned(), false),
        ("data.jsonl", "{\"a\":1}\n".to_owned(), false),
    ] {
        let place = folder.write(name, &content);
        let marker = folder.text(&format!("{name}.started"));
        let mut command = Command::new(DUET_RPC);
        command.args(["tap", "--to", &place, "--", "touch", &marker]);
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let after = fs::read_to_string(&place).expect("it is there");
        assert_eq!(fs::exists(marker).expect("it can be checked"), is_replaced, "{name}: {said}");
        match is_replaced {
            true => assert!(output.status.success() && after.ends_with("}\n"), "{name}: {said}"),
            false => {
                assert_eq!((output.status.code(), after), (Some(2), content), "{name}: {said}");
                assert!(said.contains("exists and is not a trace"), "{name}: {said}");
            }
        }
    }
    // The later parts of a trace do not replace other files either.
    let notes = folder.write("rotated.2.jsonl", "my notes\n");
    let input = "{\"method\":\"m\"}\n".repeat(100);
    let output =
        run(tap_to(&folder.text("rotated.jsonl"), &["--max-file", "1k"]), input.as_bytes());
    assert!(output.stdout == input.as_bytes());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("rotated.2.jsonl: the file exists and is not a trace"), "{said}");
    assert_eq!(fs::read_to_string(notes).expect("it is there"), "my notes\n");
}

#[test]
fn w8_trace_of_a_running_tap_is_not_replaced() {
    let folder = Folder::new();
    let place = folder.text("session.jsonl");
    let line = "{\"method\":\"first\"}\n";
    let mut first = tap_to(&place, &[]).spawn().expect("it starts");
    write(&mut first, line.as_bytes());
    let mut echoed = vec![0; line.len()];
    first.stdout.as_mut().expect("a pipe").read_exact(&mut echoed).expect("it passes");
    let output = run(tap_to(&place, &[]), b"{\"method\":\"second\"}\n");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let second = folder.text("session-2.jsonl");
    let expected = format!("duet-rpc: another tap writes {place}; this trace goes to {second}\n");
    assert_eq!((output.status.code(), said), (Some(0), expected));
    drop(first.stdin.take());
    assert_eq!(first.wait().expect("our child").code(), Some(0));
    for (file, method) in [(place.clone(), "first"), (second, "second")] {
        let records = records(file.into());
        assert!(records.iter().all(|it| it["method"].is_null() || it["method"] == method));
        assert_eq!(records.last().expect("an end")["kind"], "end");
    }
    // Nobody writes it any more.
    let output = run(tap_to(&place, &[]), b"");
    assert!(output.status.success() && output.stderr.is_empty());
}
