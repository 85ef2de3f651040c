//! A daemon process that serves many inputs.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use duet_rpc_proto::frame::Framing;

use super::answer::{Frame, Outcome};
use super::expect::Catalog;
use super::{Profile, Setting};
use crate::support::framed;

/// Limits on a daemon's resources. It starts up to 32 threads for slow handlers, and on a busy
/// machine any handler is slow; each thread has some descriptors. Small messages take little
/// memory.
const MOST_THREADS: usize = 40;
const DESCRIPTORS_OF_A_THREAD: usize = 4;
const MOST_RESIDENT_KIB: usize = 16 * 1024;

/// Methods with a constant result, in every profile or in the larger ones.
const CONSTANT: [&str; 4] = ["version", "initialize", "listMethods", "describeMethods"];
const DISCOVER: &str = "rpc.discover";

pub struct Child {
    process: std::process::Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    log: Option<JoinHandle<()>>,
    framing: Framing,
    /// Bytes that were read and not yet parsed.
    read: Vec<u8>,
    inputs: usize,
    catalog: Catalog,
    /// The number of descriptors right after the start, including inherited ones.
    descriptors: usize,
}

impl Child {
    pub fn start(setting: &Setting) -> Child {
        let program = std::env::var_os("DUET_RPC").expect("DUET_RPC names the daemon's binary");
        let mut process = Command::new(program)
            .arg("rpc")
            .args(setting.flags)
            .args(["--read-timeout", "0"])
            .env_remove("DUET_RPC_LOG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(if setting.is_log_read { Stdio::piped() } else { Stdio::null() })
            .spawn()
            .expect("the daemon starts");
        let stdout = process.stdout.take().expect("it is piped");
        let is_json = setting.flags.contains(&"--log-format=json");
        let log = process.stderr.take();
        let log = log.map(|log| std::thread::spawn(move || check_log(log, is_json)));
        let mut child = Child {
            stdin: process.stdin.take(),
            process,
            stdout,
            log,
            framing: setting.framing,
            read: Vec::new(),
            inputs: 0,
            catalog: Catalog::new(),
            descriptors: 0,
        };
        child.learn(setting.profile);
        child.descriptors = child.count_descriptors();
        child
    }

    /// Calls all methods with a constant result, and keeps the results.
    fn learn(&mut self, profile: Profile) {
        let more = (profile != Profile::Editor).then_some(DISCOVER);
        for name in CONSTANT.into_iter().chain(more) {
            let request = format!(r#"{{"jsonrpc":"2.0","id":"{name}","method":"{name}"}}"#);
            self.write(&framed(self.framing, request), 0);
            let found = self.read(&format!("\"{name}\""), 1);
            let [Frame::One(answer)] = &found[..] else { panic!("{name}: {found:?}") };
            let Outcome::Result(result) = &answer.outcome else { panic!("{name}: {answer:?}") };
            self.catalog.insert(name, result.clone());
        }
        assert_eq!(self.catalog["version"], r#"{"version":"0.1.0"}"#);
        self.inputs = 0;
    }

    pub fn inputs(&self) -> usize {
        self.inputs
    }

    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Writes the stream in pieces of about this size; 0 writes it as one. A pipe holds a whole
    /// input, so this never waits for the daemon to read.
    pub fn write(&mut self, stream: &[u8], piece: usize) {
        self.inputs += 1;
        let least = stream.len() / 64 + 1;
        let piece = if piece == 0 { stream.len() } else { (piece % 64).max(least) };
        let stdin = self.stdin.as_mut().expect("it is open");
        for piece in stream.chunks(piece.max(1)) {
            // A daemon that shuts down need not read everything.
            if stdin.write_all(piece).is_err() {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Reads at least `count` frames, and up to the answer to this id.
    pub fn read(&mut self, id: &str, count: usize) -> Vec<Frame> {
        let mut found = Vec::new();
        let mut is_last = false;
        while !is_last || found.len() < count {
            match self.take_frame() {
                Some(frame) => {
                    is_last |= matches!(&frame, Frame::One(answer) if answer.id == id);
                    found.push(frame);
                }
                None => assert!(self.read_more(), "the daemon closed stdout, after {found:?}"),
            }
        }
        assert!(self.read.is_empty(), "more: {}", self.read.escape_ascii());
        found
    }

    /// Ends the daemon, by closing its stdin or because it was asked to shut down. Returns the
    /// frames until then.
    pub fn end(mut self, closes: bool) -> Vec<Frame> {
        if closes {
            self.stdin = None;
        }
        while self.read_more() {}
        let mut found = Vec::new();
        while let Some(frame) = self.take_frame() {
            found.push(frame);
        }
        assert!(self.read.is_empty(), "half a frame: {}", self.read.escape_ascii());
        let status = self.process.wait().expect("it can be waited for");
        assert!(status.success(), "the daemon exited with {status}, after {} inputs", self.inputs);
        if let Some(log) = self.log {
            log.join().expect("its log is in order");
        }
        found
    }

    fn read_more(&mut self) -> bool {
        let mut buffer = [0; 65536];
        // The fuzzer's alarm may interrupt the read.
        let count = loop {
            match self.stdout.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.expect("stdout can be read"),
            }
        };
        self.read.extend_from_slice(&buffer[..count]);
        count > 0
    }

    /// A whole frame, checked to be written exactly as specified (F5, F17).
    fn take_frame(&mut self) -> Option<Frame> {
        let bytes = &self.read[..];
        let (body, end) = match self.framing {
            Framing::Ndjson => {
                let end = bytes.iter().position(|byte| *byte == b'\n')?;
                (0..end, end + 1)
            }
            Framing::Length => {
                let (prefix, _) = bytes.split_first_chunk::<4>()?;
                let end = 4 + u32::from_be_bytes(*prefix) as usize;
                assert_eq!(*bytes.get(end)?, b'\n', "{}", bytes.escape_ascii());
                (4..end, end + 1)
            }
            Framing::Lsp => {
                let start = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
                let header = std::str::from_utf8(&bytes[..start]).expect("a header");
                let length = header.trim_end().strip_prefix("Content-Length: ");
                let length = length.and_then(|length| length.parse::<usize>().ok());
                let end = start + length.unwrap_or_else(|| panic!("no header: {header:?}"));
                bytes.get(..end)?;
                (start..end, end)
            }
        };
        let text = std::str::from_utf8(&bytes[body]).expect("answers are UTF-8");
        let frame = Frame::read(text);
        self.read.drain(..end);
        Some(frame)
    }

    fn count_descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).map_or(0, Iterator::count)
    }

    /// Checks the daemon's resources after every 256th input.
    pub fn check_resources(&self) {
        if !self.inputs.is_multiple_of(256) {
            return;
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        // Only Linux has this file.
        let Ok(status) = status else { return };
        let number = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name));
            let word = line.and_then(|line| line.split_whitespace().nth(1));
            word.and_then(|word| word.parse::<usize>().ok()).expect("a number of the system")
        };
        let descriptors = self.count_descriptors();
        let (threads, resident) = (number("Threads:"), number("VmRSS:"));
        assert!(
            descriptors <= self.descriptors + DESCRIPTORS_OF_A_THREAD * threads
                && threads <= MOST_THREADS
                && resident <= MOST_RESIDENT_KIB,
            "{descriptors} descriptors, {threads} threads, {resident} KiB after {} inputs",
            self.inputs
        );
    }
}

/// Checks that every line of the log is one record, and that none contains a control character (G3, G6).
fn check_log(log: ChildStderr, is_json: bool) {
    let mut lines = BufReader::new(log);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        let text = std::str::from_utf8(&line).expect("records are UTF-8");
        let text = text.strip_suffix('\n').expect("records are whole");
        assert!(!text.chars().any(char::is_control), "{text:?}");
        let is_record = match is_json {
            true => text.starts_with("{\"timestamp\":\"20") && text.ends_with('}'),
            false => {
                let (time, rest) = text.split_once(' ').unwrap_or((text, ""));
                let severity = rest.split(' ').next().unwrap_or_default();
                time.len() == 24
                    && time.ends_with('Z')
                    && ["DEBUG", "INFO", "WARN", "ERROR"].contains(&severity)
            }
        };
        assert!(is_record, "no record: {text:?}");
        line.clear();
    }
}
