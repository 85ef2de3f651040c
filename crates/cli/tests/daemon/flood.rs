//! More events than the client reads: bounded, and counted (P9).

use std::fs::File;
use std::io::Write;
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::message;
use super::support::concurrently;
use super::support::daemon::{Daemon, HANG, Trigger, frame, framing_of, pipe, read_frames, rpc};

/// Number of notifications. Each makes a few log events, in all more than the buffers and pipes to the client
/// hold.
const COUNT: usize = 6_000;

#[test]
fn p9_a_client_that_does_not_read_loses_events_and_gets_their_count() {
    concurrently(["desktop", "agent"], flood);
}

fn flood(profile: &str) {
    let framing = framing_of(profile);
    let (out, into) = pipe();
    let mut command = rpc(&["--profile", profile, "--log-level", "debug"]);
    command.stdin(Stdio::piped()).stdout(into).stderr(Stdio::null());
    let mut daemon = Daemon::with_pipes(command, framing);
    daemon.request(1, "events.subscribe", r#"{"topics":["log"]}"#);
    let mut stdin = daemon.stdin.take().expect("a pipe");
    let (written, is_written) = channel();
    let writer = thread::spawn(move || {
        let flood = frame(framing, &message(None, "system.ping", "")).repeat(COUNT);
        let last = frame(framing, &message(Some(2), "system.ping", ""));
        stdin.write_all(&[flood, last].concat()).expect("the remote reads");
        let _ = written.send(());
        stdin
    });
    // Write until the daemon has read everything, or stops reading because its answers are not read.
    let _ = is_written.recv_timeout(Duration::from_secs(3));
    let (message, messages) = channel();
    let reader = thread::spawn(move || {
        read_frames(File::from(out), framing, |value| drop(message.send(value)));
    });
    let (mut last, mut seen, mut dropped, mut answers) = (0, 0, 0, Vec::new());
    while answers.len() < 2 {
        let message = messages.recv_timeout(HANG).expect("a message arrives");
        if message["method"] != "event" {
            answers.push(message["id"].clone());
            continue;
        }
        let params = &message["params"];
        let sequence = params["sequence"].as_u64().expect("a number");
        let gap = params.get("dropped").map_or(0, |count| count.as_u64().expect("a number"));
        assert_eq!(sequence, last + 1 + gap, "{profile}: {params}");
        assert_ne!(
            params.get("dropped"),
            Some(&Value::from(0)),
            "{profile}: a count of 0 is not sent"
        );
        last = sequence;
        seen += 1;
        dropped += gap;
    }
    assert_eq!(answers, [1, 2], "{profile}: no answer is lost");
    assert!(dropped > 0, "{profile}: {seen} events");
    daemon.stdin = Some(writer.join().expect("the writer thread does not panic"));
    assert_eq!(daemon.end(Trigger::Eof).status.code(), Some(0), "{profile}");
    reader.join().expect("stdout holds frames and nothing else");
}
