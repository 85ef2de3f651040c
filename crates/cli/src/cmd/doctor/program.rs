//! The program under test: requests, stdout byte by byte, exit.
//!
//! The library's [`Child`] starts it and stops its whole process tree. A `Peer` could make the calls, but it
//! drops bytes outside of frames, which the check of stdout looks for. So this file drives the transport
//! itself.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use duet_rpc::Profile;
use duet_rpc::proto::frame::{Decoder, Event, Framing, write_frame};
use duet_rpc::proto::session::Sink;
use duet_rpc::transport::{Child, ExitReport, Inbox, Outbox, Received, Transport, TransportKind};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

/// Environment variable with the log file (G1).
pub(super) const LOG_VARIABLE: &str = "DUET_RPC_LOG";

/// Maximum number of stdout bytes to keep. A daemon writes far less to doctor.
const MAX_STDOUT_BYTES: usize = 1024 * 1024;

/// Time for each step of stopping the program: close stdin, SIGTERM, SIGKILL. Also the time for the rest of
/// stdout after the exit, because a leftover process may hold it open.
const GRACE: Duration = Duration::from_millis(500);

/// A running program. Dropping it kills it and everything that it started.
pub(super) struct Program {
    child: Child,
    outbox: Outbox,
    last_id: u64,
    pub(super) started: Instant,
    pub(super) is_closed: bool,
    pub(super) stdout: Stdout,
}

/// Reason for a missing answer.
pub(super) enum Silence {
    Timeout,
    Eof,
    /// The program printed [`MAX_STDOUT_BYTES`].
    Flood,
}

impl Program {
    /// Starts the program. Its log goes to stderr, regardless of the user's environment.
    pub(super) fn start(file: &Path, words: &[&str], framing: Framing) -> io::Result<Program> {
        let mut command = Command::new(file);
        command.args(words).env_remove(LOG_VARIABLE);
        let started = Instant::now();
        Ok(Program {
            child: Child::spawn(command)?.grace(GRACE),
            outbox: Outbox::new(Some(framing)),
            last_id: 0,
            started,
            is_closed: false,
            stdout: Stdout::new(framing),
        })
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn call(
        &mut self,
        method: &str,
        params: &str,
        time: Duration,
    ) -> Result<Value, Silence> {
        self.last_id += 1;
        let id = self.last_id;
        let request =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        self.outbox.send_text(request.into_bytes());
        self.read_until(time, |stdout| stdout.take_answer(id)).await
    }

    /// Reads stdout to its end. Returns [`Silence::Eof`], or the reason why the end did not come.
    pub(super) async fn read_to_end(&mut self, time: Duration) -> Silence {
        let Err(silence) = self.read_until(time, |_| None::<Infallible>).await;
        silence
    }

    async fn read_until<T>(
        &mut self,
        time: Duration,
        find: impl Fn(&mut Stdout) -> Option<T>,
    ) -> Result<T, Silence> {
        let read = async {
            loop {
                if let Some(found) = find(&mut self.stdout) {
                    return Ok(found);
                }
                if self.stdout.bytes.len() >= MAX_STDOUT_BYTES {
                    return Err(Silence::Flood);
                }
                if !poll_fn(|cx| self.poll_receive(cx)).await {
                    return Err(Silence::Eof);
                }
            }
        };
        timeout(time, read).await.unwrap_or(Err(Silence::Timeout))
    }

    /// Closes stdin and waits for the exit. Returns the time that it took, or `None` if it took longer than
    /// `time`.
    pub(super) async fn exit(&mut self, time: Duration) -> Option<Duration> {
        self.child.close_stdin();
        let closed = Instant::now();
        let exited = poll_fn(|cx| {
            // Poll the exit first, because a program that prints endlessly would use up the task's turn.
            if self.child.poll_remote_closed(cx).is_ready() {
                return Poll::Ready(closed.elapsed());
            }
            while self.poll_receive(cx) == Poll::Ready(true) {}
            Poll::Pending
        });
        let took = timeout(time, exited).await.ok()?;
        self.read_to_end(GRACE).await;
        self.stdout.finish();
        Some(took)
    }

    /// Stops the program and everything that it started.
    pub(super) async fn close(&mut self) -> ExitReport {
        self.is_closed = true;
        poll_fn(|cx| self.child.poll_close(cx)).await
    }

    /// Receives bytes. Returns false at the end of stdout.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        // An error here is ignored: a program that does not read its stdin does not answer either.
        let _ = self.child.poll_send(cx, &mut self.outbox);
        // Use a new inbox each time. It keeps the bytes unchanged as long as nobody takes messages from it.
        let mut inbox = Inbox::new(TransportKind::Bytes, &Profile::agent());
        let received = ready!(self.child.poll_receive(cx, &mut inbox));
        Poll::Ready(match (received, inbox.space()) {
            (Ok(Received::Data | Received::Drained), Ok(bytes)) => {
                self.stdout.feed(bytes);
                true
            }
            _ => false,
        })
    }
}

/// Everything from stdout, and the frames in it.
pub(super) struct Stdout {
    framing: Framing,
    decoder: Decoder,
    bytes: Vec<u8>,
    /// Number of leading bytes that are frames in the form of the contract (F17).
    clean: usize,
    /// Reason why the bytes after `clean` are not frames.
    fault: Option<String>,
    /// Messages that no call has taken as its answer.
    messages: Vec<Value>,
}

impl Stdout {
    fn new(framing: Framing) -> Stdout {
        Stdout {
            framing,
            decoder: Decoder::new(framing, &Profile::editor().limits),
            bytes: Vec::new(),
            clean: 0,
            fault: None,
            messages: Vec::new(),
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        let room = MAX_STDOUT_BYTES - self.bytes.len();
        let mut bytes = &bytes[..bytes.len().min(room)];
        self.bytes.extend_from_slice(bytes);
        loop {
            let taken = self.decoder.feed(bytes);
            bytes = &bytes[taken..];
            while let Some(event) = self.decoder.next_event() {
                let fault = match event {
                    Event::Fault(fault) => Some(fault.to_string()),
                    Event::Frame(text) => {
                        let (text, mut frame) = (text.as_str(), Vec::new());
                        let Ok(()) = write_frame(self.framing, &mut frame, |out| {
                            out.extend_from_slice(text.as_bytes());
                            Ok::<_, Infallible>(())
                        });
                        self.messages.push(serde_json::from_str(text).unwrap_or_default());
                        let is_next = self.bytes[self.clean..].starts_with(&frame);
                        self.clean += if is_next && self.fault.is_none() { frame.len() } else { 0 };
                        (!is_next).then(|| NO_FRAME.to_owned())
                    }
                };
                self.fault = self.fault.take().or(fault);
            }
            if bytes.is_empty() {
                return;
            }
        }
    }

    /// Handles the end of stdout.
    fn finish(&mut self) {
        self.decoder.finish();
        self.feed(&[]);
        if self.clean < self.bytes.len() {
            self.fault.get_or_insert_with(|| NO_FRAME.to_owned());
        }
    }

    /// All bytes as text, or a note that there are none.
    pub(super) fn text(&self) -> String {
        match self.bytes.is_empty() {
            true => "nothing on stdout".to_owned(),
            false => String::from_utf8_lossy(&self.bytes).into_owned(),
        }
    }

    /// Finds bytes outside of frames, or an unexpected message. Returns the problem and the text from there
    /// on.
    pub(super) fn stray(&self) -> Option<(String, String)> {
        if let Some(fault) = &self.fault {
            let rest = String::from_utf8_lossy(&self.bytes[self.clean..]).into_owned();
            return Some((format!("{fault} (byte {} of stdout)", self.clean), rest));
        }
        let message = self.messages.first()?;
        Some(("an unexpected message".to_owned(), message.to_string()))
    }

    fn take_answer(&mut self, id: u64) -> Option<Value> {
        let is_answer = |it: &Value| it.get("id") == Some(&id.into()) && it.get("method").is_none();
        let place = self.messages.iter().position(is_answer)?;
        Some(self.messages.remove(place))
    }
}

const NO_FRAME: &str = "bytes outside of frames";
