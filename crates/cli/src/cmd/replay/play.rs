//! One replay over a connection.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use duet_rpc::transport::{ExitReport, MessagePipe, PipeEvent, Transport};
use duet_rpc_trace::{Action, Dir, Ending, Replay};
use tokio::sync::mpsc::Receiver;

use super::record::NewTrace;

/// A session that was played.
pub(super) struct Played {
    pub(super) ending: Ending,
    /// The number of runs of bytes that are not messages, and what the first one is.
    pub(super) faults: u64,
    pub(super) first_fault: Option<String>,
    /// The session with the values of the recording, for comparison.
    pub(super) compared: NewTrace,
    /// The session as it was, if it is to be kept.
    pub(super) kept: Option<NewTrace>,
    pub(super) end: ExitReport,
    /// The length of the session, in microseconds, and the time when the server had ended.
    pub(super) duration: u64,
    pub(super) ended: u64,
}

/// An arrival from the server.
enum Arrival {
    Message(String),
    Fault(String),
    /// A request cannot be answered.
    Failed(String),
}

/// Plays the client. `lines` has the server's stderr.
pub(super) async fn play(
    mut pipe: MessagePipe<Box<dyn Transport>>,
    mut replay: Replay,
    compared: NewTrace,
    kept: Option<NewTrace>,
    mut lines: Receiver<String>,
) -> Played {
    let begun = Instant::now();
    let now = || u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    let mut played = Played {
        ending: Ending::Complete,
        faults: 0,
        first_fault: None,
        compared,
        kept,
        end: ExitReport::default(),
        duration: 0,
        ended: 0,
    };
    let mut is_open = true;
    played.ending = loop {
        let until = match replay.poll(now()) {
            Action::Finished(ending) => break ending,
            Action::Wait(until) => until,
            Action::Send(outgoing) => {
                pipe.send(outgoing.json.as_bytes());
                let at = now();
                played.compared.message(Dir::C2s, at, &outgoing.recorded);
                if let Some(kept) = &mut played.kept {
                    kept.message(Dir::C2s, at, &outgoing.json);
                }
                continue;
            }
        };
        let mut arrivals = Vec::new();
        let deadline = tokio::time::Instant::from_std(begun) + Duration::from_micros(until);
        let mut sleep = pin!(tokio::time::sleep_until(deadline));
        let still_open = poll_fn(|cx| {
            // A server that does not read may still have sent its last messages.
            let _ = pipe.poll_flush(cx);
            let received = pipe.poll_receive(cx, |event| {
                arrivals.push(match event {
                    PipeEvent::Message(text) => Arrival::Message(text.as_str().to_owned()),
                    PipeEvent::Fault(fault) => Arrival::Fault(fault.to_string()),
                    PipeEvent::Failed(_, error) => Arrival::Failed(error.to_string()),
                });
            });
            match received {
                Poll::Ready(received) => Poll::Ready(received.unwrap_or(false)),
                Poll::Pending => sleep.as_mut().poll(cx).map(|()| true),
            }
        });
        let still_open = still_open.await;
        let at = now();
        for arrival in arrivals {
            match arrival {
                Arrival::Message(json) => {
                    let recorded = replay.handle_message(at, &json);
                    played.compared.message(Dir::S2c, at, &recorded);
                    if let Some(kept) = &mut played.kept {
                        kept.message(Dir::S2c, at, &json);
                    }
                }
                Arrival::Fault(what) => {
                    played.faults += 1;
                    played.first_fault.get_or_insert(what);
                }
                Arrival::Failed(why) => {
                    // The answer will not come, so waiting for it is of no use.
                    played.first_fault.get_or_insert(why);
                    replay.handle_end(at);
                }
            }
        }
        if !still_open && std::mem::take(&mut is_open) {
            replay.handle_end(at);
            if let Some(kept) = &mut played.kept {
                kept.eof(Dir::S2c, at);
            }
        }
        note_stderr(&mut lines, played.kept.as_mut(), at);
    };
    // The last message may wait for room in the pipe.
    let flushed = poll_fn(|cx| pipe.poll_flush(cx));
    let _: Result<io::Result<()>, _> = tokio::time::timeout(LAST_WRITE, flushed).await;
    if is_open && let Some(kept) = &mut played.kept {
        kept.eof(Dir::C2s, now());
    }
    played.duration = now();
    played.end = poll_fn(|cx| pipe.poll_close(cx)).await;
    note_stderr(&mut lines, played.kept.as_mut(), now());
    if let (Some(kept), Some(status)) = (&mut played.kept, played.end.exit) {
        kept.exit(now(), status);
    }
    played.ended = now();
    played
}

/// Time for the server to read the last message.
const LAST_WRITE: Duration = Duration::from_millis(500);

fn note_stderr(lines: &mut Receiver<String>, mut kept: Option<&mut NewTrace>, at: u64) {
    while let Ok(line) = lines.try_recv() {
        if let Some(kept) = &mut kept {
            kept.stderr(at, &line);
        }
    }
}
