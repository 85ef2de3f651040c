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
        assert!(said.starts_with("duet-rpc: the trace is incomplete: "), "{place}: {said}");
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
