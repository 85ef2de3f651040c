//! W1, W2: every byte passes, unchanged and immediately.

use std::io::{Read, Write};
use std::thread;

use super::support::folder::Folder;
use super::support::once::run;
use super::{cat, tap, tap_shell, write};

#[test]
fn w1_r0_every_byte_value_passes_in_both_directions() {
    let folder = Folder::new();
    let all: Vec<u8> = (0..=255).collect();
    let mut input = Vec::new();
    // Each value at the start, at the end, and after every other.
    for first in &all {
        input.extend(all.iter().flat_map(|second| [*first, *second]));
    }
    let output = run(tap(&folder, &[], &["cat"]), &input);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout == input && output.stderr.is_empty());
    assert!(cat(&folder, "c2s") == input && cat(&folder, "s2c") == input);
}

/// Random bytes that are the same in each run.
fn random(count: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(count);
    bytes
}

#[test]
fn w1_hundred_megabytes_of_random_bytes_pass() {
    let folder = Folder::new();
    let input = random(100_000_000);
    let output = run(tap(&folder, &[], &["cat"]), &input);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout == input);
}

#[test]
fn r0_megabytes_of_messages_are_in_the_trace() {
    let folder = Folder::new();
    let mut input = Vec::new();
    for size in [0, 1, 100, 5_000, 100_000, 3_000_000] {
        let body = format!(r#"{{"jsonrpc":"2.0","method":"m","params":["{}"]}}"#, "x".repeat(size));
        let _ = write!(input, "Content-Length: {}\r\n\r\n{body}", body.len());
    }
    let output = run(tap(&folder, &["--buffer", "1g"], &["cat"]), &input);
    assert!(output.stdout == input);
    assert!(cat(&folder, "c2s") == input && cat(&folder, "s2c") == input);
}

#[test]
fn w1_r0_stderr_passes_and_is_recorded() {
    let folder = Folder::new();
    let output = run(tap_shell(&folder, r"printf 'a\nb\r\n\377 no end' >&2"), b"");
    assert_eq!(output.stderr, b"a\nb\r\n\xff no end");
    assert_eq!(cat(&folder, "err"), output.stderr);
}

#[test]
fn w2_half_a_frame_passes_before_the_rest_of_it() {
    for half in ["Content-Length: 100\r\n\r\n{", "{\"id\":", "\0\0\0\x09{"] {
        let folder = Folder::new();
        let mut process = tap(&folder, &[], &["cat"]).spawn().expect("it starts");
        write(&mut process, half.as_bytes());
        let mut echoed = vec![0; half.len()];
        process.stdout.as_mut().expect("a pipe").read_exact(&mut echoed).expect("it passes");
        assert_eq!(echoed, half.as_bytes());
        drop(process.stdin.take());
        assert_eq!(process.wait().expect("our child").code(), Some(0));
        assert_eq!(cat(&folder, "s2c"), half.as_bytes());
    }
}

#[test]
fn w4_back_pressure_passes_through() {
    let folder = Folder::new();
    let mut process = tap_shell(&folder, "read line; cat").spawn().expect("it starts");
    let mut stdin = process.stdin.take().expect("a pipe");
    // The pipes on the way hold less than this, so the write must wait for the server.
    let size = 1_000_000;
    let writer = thread::spawn(move || {
        stdin.write_all(b"line\n").expect("the server reads");
        stdin.write_all(&vec![b'x'; size]).expect("the server reads");
    });
    let mut echoed = Vec::new();
    process.stdout.take().expect("a pipe").read_to_end(&mut echoed).expect("it can be read");
    writer.join().expect("the writer does not panic");
    assert!(echoed == vec![b'x'; size]);
    assert_eq!(process.wait().expect("our child").code(), Some(0));
}

#[test]
fn w4_unread_output_stops_the_server_and_is_complete_afterwards() {
    let folder = Folder::new();
    let size = 1_000_000;
    let script = format!("head -c {size} /dev/zero; echo done >&2");
    let mut process = tap_shell(&folder, &script).spawn().expect("it starts");
    let mut stderr = process.stderr.take().expect("a pipe");
    let is_done = thread::spawn(move || {
        let mut said = String::new();
        stderr.read_to_string(&mut said).map(|_| said)
    });
    // The pipes on the way hold a fraction of this, so the server cannot have finished.
    let mut stdout = process.stdout.take().expect("a pipe");
    let mut first = vec![0; 1];
    stdout.read_exact(&mut first).expect("it comes");
    assert!(process.try_wait().expect("our child").is_none());
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).expect("it comes");
    assert_eq!(rest.len() + 1, size);
    assert_eq!(is_done.join().expect("it does not panic").expect("text"), "done\n");
    assert_eq!(process.wait().expect("our child").code(), Some(0));
}
