//! A daemon as a process: what it is told, what it answers, how it ends.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use duet_rpc::Profile;
use duet_rpc::proto::frame::{Decoder, Event, Framing, FramingChoice, write_frame};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::process::{MOST_KEPT, PATIENCE, Process};
use super::report::{Finding, in_words};
use crate::args::ProfileName;

/// The program that is checked.
pub(super) struct Subject {
    pub(super) program: PathBuf,
    /// What it says that its version is, if it does.
    pub(super) version: Option<String>,
}

impl Subject {
    /// The program with these words behind it. Its log goes to stderr, whatever the user has set.
    pub(super) fn command<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).env_remove(LOG_VARIABLE);
        command
    }
}

/// Names the file that the log goes to (G1).
pub(super) const LOG_VARIABLE: &str = "DUET_RPC_LOG";

/// How a daemon is started and spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Combination {
    pub(super) profile: ProfileName,
    pub(super) choice: FramingChoice,
    pub(super) spoken: Framing,
}

impl Combination {
    /// A profile with the framing that is its own.
    pub(super) fn own(profile: ProfileName) -> Combination {
        let spoken = match profile {
            ProfileName::Editor => Framing::Lsp,
            ProfileName::Desktop => Framing::Length,
            ProfileName::Agent => Framing::Ndjson,
        };
        Combination { profile, choice: spoken.into(), spoken }
    }

    /// Its framing, for the table.
    pub(super) fn framing(self) -> &'static str {
        match (self.choice, self.spoken) {
            (FramingChoice::Fixed(framing), _) => framing.name(),
            (FramingChoice::Auto, Framing::Lsp) => "auto (lsp)",
            (FramingChoice::Auto, Framing::Ndjson) => "auto (ndjson)",
            (FramingChoice::Auto, Framing::Length) => "auto (length)",
        }
    }
}

/// A message that is waited for.
pub(super) enum Wanted {
    /// The answer to the request with this id.
    Answer(u64),
    /// An answer to what has no id that could be told: a batch, or what is no request.
    Other,
    /// A request of the daemon's own, or the answer to this one if that comes before it.
    Request { or_answer: u64 },
}

impl Wanted {
    fn is(&self, message: &Value) -> bool {
        let has_method = message.get("method").is_some();
        match self {
            Wanted::Answer(id) => !has_method && message.get("id") == Some(&json!(id)),
            Wanted::Other => {
                message.is_array() || (!has_method && message.get("id") == Some(&Value::Null))
            }
            Wanted::Request { or_answer } => {
                let is_request = has_method && message.get("id").is_some();
                is_request || Wanted::Answer(*or_answer).is(message)
            }
        }
    }
}

/// A daemon that runs.
pub(super) struct Daemon {
    process: Process,
    framing: Framing,
    decoder: Decoder,
    /// All that came out of stdout.
    raw: Vec<u8>,
    /// What should have: the frames in it, written as the contract has it (F17).
    clean: Vec<u8>,
    fault: Option<String>,
    /// Messages that nobody has asked for yet.
    messages: VecDeque<Value>,
    last_id: u64,
}

/// How long its end is waited for, which should come within 2 s (L5).
const END_PATIENCE: Duration = Duration::from_secs(3);

/// How a daemon ended.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) took: Duration,
    /// What is wrong with what came out of stdout in its whole life (L1).
    pub(super) flaw: Option<Finding>,
    pub(super) stderr: String,
}

impl Daemon {
    /// Starts it with more options than the combination has, and with its log in a file.
    pub(super) fn start(
        subject: &Subject,
        combination: Combination,
        options: &[&str],
        log: Option<&Path>,
    ) -> Result<Daemon, Finding> {
        let framing = match combination.choice {
            FramingChoice::Fixed(framing) => framing.name(),
            FramingChoice::Auto => "auto",
        };
        let words = ["rpc", "--profile", combination.profile.name(), "--framing", framing];
        let mut command = subject.command(words);
        command.args(options);
        if let Some(log) = log {
            command.env(LOG_VARIABLE, log);
        }
        let process = Process::start(command, Stdio::piped()).map_err(|error| Finding {
            is_last: true,
            ..Finding::new(format!("the program cannot be started: {error}"))
        })?;
        Ok(Daemon {
            process,
            framing: combination.spoken,
            decoder: Decoder::new(combination.spoken, &Profile::editor().limits),
            raw: Vec::new(),
            clean: Vec::new(),
            fault: None,
            messages: VecDeque::new(),
            last_id: 0,
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn age(&self) -> Duration {
        self.process.started().elapsed()
    }

    /// Sends a request, and returns its id.
    pub(super) fn request(&mut self, method: &str, params: &str) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
        ));
        id
    }

    /// Sends a text in a frame.
    pub(super) fn send(&self, text: &str) {
        let mut frame = Vec::new();
        append(self.framing, &mut frame, text);
        self.write(frame);
    }

    /// Sends bytes as they are.
    pub(super) fn write(&self, bytes: Vec<u8>) {
        self.process.write(bytes);
    }

    /// Calls a method, and waits for the answer.
    pub(super) fn call(&mut self, method: &str, params: &str) -> Result<Value, Finding> {
        let id = self.request(method, params);
        let nothing = |finding: Finding| finding.sent(method).expected("an answer");
        self.receive(&Wanted::Answer(id)).map_err(nothing)
    }

    /// Waits for a message; others that come before it are kept.
    pub(super) fn receive(&mut self, wanted: &Wanted) -> Result<Value, Finding> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let place = self.messages.iter().position(|message| wanted.is(message));
            if let Some(message) = place.and_then(|place| self.messages.remove(place)) {
                return Ok(message);
            }
            if self.raw.len() >= MOST_KEPT {
                return Err(self.silence("it prints without end"));
            }
            match self.process.read(deadline) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.silence(&format!("no answer in {}", in_words(PATIENCE))));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let why = match self.process.wait(PATIENCE) {
                        Ok((status, _)) => format!("it ended with no answer, {status}"),
                        Err(_) => "it closed its stdout with no answer".to_owned(),
                    };
                    return Err(self.silence(&why));
                }
            }
        }
    }

    /// Closes stdin.
    pub(super) fn close(&mut self) {
        self.process.close_stdin();
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits until it has ended, which began at this time.
    pub(super) fn wait(mut self, begun: Instant) -> Result<Ended, Finding> {
        let (status, ended) = self.process.wait(END_PATIENCE).map_err(|_| {
            Finding::new(format!("it still runs after {}", in_words(begun.elapsed())))
        })?;
        let deadline = Instant::now() + PATIENCE;
        while let Ok(bytes) = self.process.read(deadline) {
            self.take(&bytes);
        }
        self.decoder.finish();
        self.take(&[]);
        let stderr = String::from_utf8_lossy(&self.process.stderr()).into_owned();
        let took = ended.saturating_duration_since(begun);
        Ok(Ended { status, took, flaw: self.flaw(true), stderr })
    }

    /// What is wrong with what has come out of stdout; at its end it must also be complete.
    pub(super) fn flaw(&self, has_ended: bool) -> Option<Finding> {
        let is_clean = match has_ended {
            true => self.raw == self.clean,
            false => self.raw.starts_with(&self.clean) && self.fault.is_none(),
        };
        if !is_clean {
            let equal = self.raw.iter().zip(&self.clean).take_while(|(one, other)| one == other);
            let place = equal.count();
            let excerpt = String::from_utf8_lossy(&self.raw[place..]).into_owned();
            let why = self.fault.as_deref().unwrap_or("there are bytes that belong to no frame");
            let finding = Finding::new(format!("{why} (byte {place} of stdout)"));
            return Some(finding.expected("frames and nothing else").saw(&excerpt));
        }
        let stray = self.messages.front().filter(|_| has_ended)?;
        let finding = Finding::new("there is a message that nobody asked for");
        Some(finding.expected("one answer to each request").saw(&stray.to_string()))
    }

    fn take(&mut self, mut bytes: &[u8]) {
        self.raw.extend_from_slice(bytes);
        loop {
            let taken = self.decoder.feed(bytes);
            bytes = &bytes[taken..];
            while let Some(event) = self.decoder.next_event() {
                match event {
                    Event::Fault(fault) => {
                        self.fault.get_or_insert_with(|| fault.to_string());
                    }
                    Event::Frame(text) => {
                        append(self.framing, &mut self.clean, text.as_str());
                        let message = serde_json::from_str(text.as_str()).unwrap_or_default();
                        self.messages.push_back(message);
                    }
                }
            }
            if bytes.is_empty() {
                return;
            }
        }
    }

    /// Why there is no message, with what there is in its place.
    fn silence(&self, why: &str) -> Finding {
        let finding = Finding { is_last: true, ..Finding::new(why) };
        match (self.flaw(false), self.messages.front()) {
            (Some(flaw), _) => Finding { saw: flaw.saw, ..finding },
            (None, Some(message)) => finding.saw(&message.to_string()),
            (None, None) if self.raw.len() > self.clean.len() => {
                finding.saw(&String::from_utf8_lossy(&self.raw[self.clean.len()..]))
            }
            (None, None) => finding.saw("nothing on stdout"),
        }
    }
}

fn append(framing: Framing, out: &mut Vec<u8>, text: &str) {
    let Ok(()) = write_frame(framing, out, |out| {
        out.extend_from_slice(text.as_bytes());
        Ok::<_, Infallible>(())
    });
}
