//! The server under test: frames in both directions, every byte of stdout, signals, exit.
//!
//! A `Peer` would hide what the checks look for: stray bytes, wrong messages, second answers. So this file drives the
//! child process itself, and keeps a list of everything that a client could not use.

use std::convert::Infallible;
use std::ffi::OsString;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use duet_rpc::Profile;
use duet_rpc::proto::Limits;
use duet_rpc::proto::frame::{Decoder, Event, Framing};
use duet_rpc::proto::session::Sink;
use duet_rpc::proto::text::Text;
use duet_rpc::transport::{Child, ExitReport, Inbox, Outbox, Received, Transport, TransportKind};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::args::ProtocolName;
use crate::cmd::call::first_bytes::framing_of;
use crate::cmd::{explain, handshake};
use crate::sys::processes;

/// Maximum number of messages and stray outputs to keep. A server that sends more is stopped.
const MAX_MESSAGES: usize = 100_000;

/// A method that no server has.
pub(super) const UNKNOWN: &str = "duet-rpc/doctor";

/// Methods that only a client calls. A program that echoes its input would call them.
const OURS: [&str; 3] = [UNKNOWN, "initialize", handshake::DISCOVER];

/// Maximum size of a message.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// Bytes of stray output to show.
const MAX_EXCERPT: usize = 200;

/// Time for each step of stopping the server, and for the rest of stdout after its exit.
const GRACE: Duration = Duration::from_millis(500);

/// Time between two looks at a process group, which cannot be waited for.
const POLL_TIME: Duration = Duration::from_millis(100);

/// The server's command and how to talk to it.
pub(super) struct ServerSetup {
    pub(super) command: Vec<OsString>,
    pub(super) framing: Framing,
    pub(super) protocol: Option<ProtocolName>,
    pub(super) answer_time: Duration,
}

/// A running server. Dropping it kills it and everything that it started.
pub(super) struct TestedServer {
    child: Child,
    /// The server leads a process group with its own id.
    group: Option<u32>,
    outbox: Outbox,
    protocol: Option<ProtocolName>,
    decoder: Decoder,
    /// The first bytes of stdout, which may show another framing.
    first_bytes: Vec<u8>,
    /// The first bytes since the last frame or fault.
    since_event: Vec<u8>,
    last_id: u64,
    /// Answers that no check has taken.
    answers: Vec<Value>,
    /// Ids of all requests, and of those that were answered, to find answers to nothing and second answers.
    asked: Vec<Value>,
    answered: Vec<Value>,
    pub(super) stray: Vec<String>,
    pub(super) invalid: Vec<String>,
    received: usize,
    pub(super) started: Instant,
}

/// Reason for a missing answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    Timeout,
    /// The end of stdout: the server exited, or closed it.
    Eof,
    /// More than [`MAX_MESSAGES`].
    Flood,
}

impl TestedServer {
    pub(super) fn start(setup: &ServerSetup) -> io::Result<TestedServer> {
        let (program, words) = setup.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(words);
        let limits = Limits::default().with(|it| it.message_bytes = MAX_MESSAGE);
        let started = Instant::now();
        let child = Child::spawn(command)?.grace(GRACE);
        Ok(TestedServer {
            group: child.id(),
            child,
            outbox: Outbox::new(Some(setup.framing)),
            protocol: setup.protocol,
            decoder: Decoder::new(setup.framing, &limits),
            first_bytes: Vec::new(),
            since_event: Vec::new(),
            last_id: 0,
            answers: Vec::new(),
            asked: Vec::new(),
            answered: Vec::new(),
            stray: Vec::new(),
            invalid: Vec::new(),
            received: 0,
            started,
        })
    }

    /// Sends a frame with this body, in one write with the frames that follow immediately.
    pub(super) fn send_text(&mut self, body: &str) {
        self.outbox.send_text(body.as_bytes().to_vec());
    }

    pub(super) fn send(&mut self, body: &Value) {
        self.send_text(&body.to_string());
    }

    pub(super) fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// The body of a request with a new id, and the id.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> (Value, Value) {
        self.last_id += 1;
        let id = Value::from(self.last_id);
        (self.request_with_id(&id, method, params), id)
    }

    pub(super) fn request_with_id(&mut self, id: &Value, method: &str, params: &Value) -> Value {
        self.asked.push(id.clone());
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn call(
        &mut self,
        method: &str,
        params: &Value,
        time: Duration,
    ) -> Result<Value, NoAnswer> {
        let (request, id) = self.request(method, params);
        self.send(&request);
        self.answer(&id, time).await
    }

    /// Waits for the answer with this id.
    pub(super) async fn answer(&mut self, id: &Value, time: Duration) -> Result<Value, NoAnswer> {
        let find = |answers: &mut Vec<Value>| {
            let place = answers.iter().position(|answer| answer.get("id") == Some(id))?;
            Some(answers.remove(place))
        };
        let answer = self.read_until(time, find).await?;
        self.answered.push(id.clone());
        Ok(answer)
    }

    /// Takes the answers that have no usable id, or that nobody asked for.
    pub(super) fn take_unasked(&mut self) -> Vec<Value> {
        let asked = &self.asked;
        let is_unasked =
            |answer: &mut Value| !answer.get("id").is_some_and(|id| asked.contains(id));
        self.answers.extract_if(.., is_unasked).collect()
    }

    /// Takes the second answers to requests. A late answer is none.
    pub(super) fn take_repeated(&mut self) -> Vec<Value> {
        let answered = &mut self.answered;
        let is_repeated = |answer: &Value| {
            let Some(id) = answer.get("id") else { return false };
            let is_repeated = answered.contains(id);
            answered.push(id.clone());
            is_repeated
        };
        std::mem::take(&mut self.answers).into_iter().filter(is_repeated).collect()
    }

    /// Reads for this time, for messages that need not come.
    pub(super) async fn listen(&mut self, time: Duration) {
        let _ = self.read_until(time, |_| None::<Infallible>).await;
    }

    async fn read_until<T>(
        &mut self,
        time: Duration,
        find: impl Fn(&mut Vec<Value>) -> Option<T>,
    ) -> Result<T, NoAnswer> {
        let read = async {
            loop {
                if let Some(found) = find(&mut self.answers) {
                    return Ok(found);
                }
                if self.received > MAX_MESSAGES {
                    return Err(NoAnswer::Flood);
                }
                if !poll_fn(|cx| self.poll_receive(cx)).await {
                    return Err(NoAnswer::Eof);
                }
            }
        };
        timeout(time, read).await.unwrap_or(Err(NoAnswer::Timeout))
    }

    /// Returns `true` if stdout begins with the length prefix of `--framing length`.
    pub(super) fn begins_with_length(&self) -> bool {
        framing_of(&self.first_bytes) == Some(Framing::Length)
    }

    pub(super) fn close_stdin(&mut self) {
        self.child.close_stdin();
    }

    pub(super) fn signal(&self, signal: i32) {
        processes::send_signal(&self.child, signal);
    }

    /// Waits for the exit. Returns the time that it took, or `None` if it took longer than `time`.
    pub(super) async fn exit(&mut self, time: Duration) -> Option<Duration> {
        let begun = Instant::now();
        let exited = poll_fn(|cx| {
            if self.child.poll_remote_closed(cx).is_ready() {
                return Poll::Ready(begun.elapsed());
            }
            while self.poll_receive(cx) == Poll::Ready(true) {}
            Poll::Pending
        });
        let took = timeout(time, exited).await.ok()?;
        self.listen(GRACE).await;
        self.decoder.finish();
        self.take_events();
        Some(took)
    }

    /// Waits until the processes that the server started have ended, at most for this time. Call it after the exit.
    pub(super) async fn wait_for_helpers(&self, time: Duration) {
        let ended = async {
            while self.group.is_some_and(processes::is_group_running) {
                sleep(POLL_TIME).await;
            }
        };
        let _ = timeout(time, ended).await;
    }

    /// Stops the server and everything that it started. Without an exit status, the server did not exit by itself.
    pub(super) async fn close(&mut self) -> ExitReport {
        let mut end = poll_fn(|cx| self.child.poll_close(cx)).await;
        // That status comes from our own signal.
        if end.stopped.iter().any(|it| Some(it.pid) == self.group) {
            end.exit = None;
        }
        end
    }

    /// Receives bytes. Returns false at the end of stdout.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        // An error here is ignored: a server that does not read its stdin does not answer either.
        let _ = self.child.poll_send(cx, &mut self.outbox);
        // A new inbox keeps the bytes unchanged.
        let mut inbox = Inbox::new(TransportKind::Bytes, &Profile::agent());
        let received = ready!(self.child.poll_receive(cx, &mut inbox));
        match (received, inbox.space()) {
            (Ok(Received::Data | Received::Drained), Ok(bytes)) => {
                let bytes = std::mem::take(bytes);
                self.feed(&bytes);
                Poll::Ready(true)
            }
            _ => Poll::Ready(false),
        }
    }

    /// Decodes byte by byte, so that each fault comes with the bytes that caused it.
    fn feed(&mut self, bytes: &[u8]) {
        let room = MAX_EXCERPT - self.first_bytes.len();
        self.first_bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        for byte in bytes {
            if self.since_event.len() < MAX_EXCERPT {
                self.since_event.push(*byte);
            }
            while self.decoder.feed(std::slice::from_ref(byte)) == 0 {
                self.take_events();
            }
            self.take_events();
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.decoder.next_event() {
            self.received += 1;
            let bytes = std::mem::take(&mut self.since_event);
            let text = match event {
                Event::Fault(fault) => {
                    let excerpt = String::from_utf8_lossy(&bytes).into_owned();
                    self.stray.push(format!("{fault}; saw {excerpt:?}"));
                    continue;
                }
                Event::Frame(text) => text,
            };
            let (reasons, message) = read_message(&text);
            match reasons.is_empty() {
                true => {}
                false => self.invalid.push(reasons.join("; ")),
            }
            let entries = match message {
                Value::Array(entries) => entries,
                message => vec![message],
            };
            for message in entries {
                if message.get("method").is_some_and(|it| OURS.iter().any(|ours| it == ours)) {
                    self.invalid.push("it sends our own request back: is it a server?".to_owned());
                    continue;
                }
                handle(message, self.protocol, &mut self.outbox, &mut self.answers);
            }
        }
    }
}

/// The defects of a message, and its value.
fn read_message(text: &Text<'_>) -> (Vec<String>, Value) {
    let value = serde_json::from_str(text.as_str()).unwrap_or_default();
    (explain::defects(text, &Limits::default()), value)
}

/// Answers a request of the server, and keeps an answer of the server.
fn handle(
    message: Value,
    protocol: Option<ProtocolName>,
    outbox: &mut Outbox,
    answers: &mut Vec<Value>,
) {
    let Some(method) = message.get("method") else { return answers.push(message) };
    let Some(id) = message.get("id") else { return };
    let params = message.get("params").unwrap_or(&Value::Null);
    let method = method.as_str().unwrap_or_default();
    let answer = protocol.and_then(|protocol| handshake::answer(protocol, method, params));
    let answer = match answer {
        Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        None => {
            let error = json!({"code": -32601, "message": "Method not found"});
            json!({"jsonrpc": "2.0", "id": id, "error": error})
        }
    };
    outbox.send_text(answer.to_string().into_bytes());
}
