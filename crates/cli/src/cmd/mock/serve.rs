//! One client of a mock.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use duet_rpc::transport::{MessagePipe, PipeEvent, Transport};
use duet_rpc_trace::{Change, Mock, MockAction, MockNote};
use tokio::time::Instant;

use super::MockServer;
use crate::cmd::faulty_pipe::FaultyPipe;
use crate::cmd::trace::diff::shown;
use crate::cmd::trace::timeline::clean;
use crate::cmd::upstream::how_it_ended;

type Pipe = MessagePipe<Box<dyn Transport>>;

/// Differences of a message that are shown.
const SHOWN: usize = 10;

/// Time for the client to read the last messages, after it has closed its end.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// Time for the other server to answer what was passed to it, after the client has closed its end.
const LAST_ANSWERS: Duration = Duration::from_secs(30);

/// An arrival from one of the two sides.
enum Arrived {
    Client(String),
    Upstream(String),
    Fault(String),
}

/// Serves a client until it closes the connection.
pub(super) async fn serve(server: &MockServer, mut client: FaultyPipe) {
    let mut mock = server.mock.again();
    let mut upstream = None;
    // Set when the client has closed its end.
    let mut deadline = None;
    loop {
        act(server, &mut mock, &mut client, &mut upstream).await;
        let is_waiting = mock.is_waiting() && upstream.is_some();
        let is_open = deadline.is_none();
        let received = receive(server, &mut mock, &mut client, &mut upstream, is_open);
        match deadline {
            None => {
                if !received.await {
                    deadline = Some(Instant::now() + LAST_ANSWERS);
                }
            }
            Some(deadline) if is_waiting => {
                if tokio::time::timeout_at(deadline, received).await.is_err() {
                    break;
                }
            }
            Some(_) => break,
        }
    }
    client.settle();
    let flushed = poll_fn(|cx| client.poll_flush(cx));
    let _: Result<io::Result<()>, _> = tokio::time::timeout(LAST_WRITE, flushed).await;
    server.misses.fetch_add(mock.misses(), Ordering::Relaxed);
    poll_fn(|cx| client.poll_close(cx)).await;
    if let Some(mut upstream) = upstream {
        poll_fn(|cx| upstream.poll_close(cx)).await;
    }
}

/// Does everything that the mock has to do.
async fn act(
    server: &MockServer,
    mock: &mut Mock,
    client: &mut FaultyPipe,
    upstream: &mut Option<Pipe>,
) {
    while let Some(action) = mock.poll() {
        match action {
            MockAction::Send(json) => client.send(json.as_bytes()),
            MockAction::Note(note) => server.stderr.say(&described(&note)),
            MockAction::Pass(json) => {
                if upstream.is_none() {
                    *upstream = open(server).await;
                }
                match upstream {
                    Some(upstream) => upstream.send(json.as_bytes()),
                    None => mock.handle_lost_server(),
                }
            }
        }
    }
}

/// Starts or reaches the server that gets the other requests.
async fn open(server: &MockServer) -> Option<Pipe> {
    let choice = server.upstream.as_ref()?;
    let stderr = server.stderr.clone();
    let opened =
        choice.open(&server.upstream_profile, None, move |line| stderr.pass_on(line)).await;
    match opened {
        Ok(transport) => Some(MessagePipe::new(transport, &server.upstream_profile)),
        Err(problem) => {
            server.stderr.say(&problem.message);
            None
        }
    }
}

/// Waits for messages of either side. Returns `false` when the client has closed its end.
async fn receive(
    server: &MockServer,
    mock: &mut Mock,
    client: &mut FaultyPipe,
    upstream: &mut Option<Pipe>,
    is_open: bool,
) -> bool {
    let mut arrivals = Vec::new();
    let (mut still_open, mut has_upstream) = (is_open, true);
    poll_fn(|cx| {
        // A client that does not read any more has closed its end, too: reading says so.
        let _ = client.poll_flush(cx);
        if still_open {
            let received = client.poll_receive(cx, |event| {
                arrivals.push(match event {
                    PipeEvent::Message(text) => Arrived::Client(text.as_str().to_owned()),
                    PipeEvent::Fault(fault) => Arrived::Fault(format!("the client: {fault}")),
                    PipeEvent::Failed(_, error) => Arrived::Fault(error.to_string()),
                });
            });
            if let Poll::Ready(received) = received {
                still_open = received.unwrap_or(false);
                return Poll::Ready(());
            }
        }
        let Some(upstream) = upstream else { return Poll::Pending };
        let _ = upstream.poll_flush(cx);
        let received = upstream.poll_receive(cx, |event| {
            arrivals.push(match event {
                PipeEvent::Message(text) => Arrived::Upstream(text.as_str().to_owned()),
                PipeEvent::Fault(fault) => Arrived::Fault(format!("the server: {fault}")),
                PipeEvent::Failed(_, error) => Arrived::Fault(format!("the server: {error}")),
            });
        });
        received.map(|received| has_upstream = received.unwrap_or(false))
    })
    .await;
    for arrival in arrivals {
        match arrival {
            Arrived::Client(json) => mock.handle_message(&json),
            Arrived::Upstream(json) => mock.handle_passed(&json),
            Arrived::Fault(what) => server.stderr.say(&what),
        }
    }
    if !has_upstream && let Some(mut upstream) = upstream.take() {
        // Its last lines on stderr say why.
        let end = poll_fn(|cx| upstream.poll_close(cx)).await;
        let how = end.exit.map(how_it_ended).unwrap_or_default();
        server.stderr.say(&format!("the server that requests are passed to has ended{how}"));
        mock.handle_lost_server();
    }
    still_open
}

/// A note with the differences below it.
fn described(note: &MockNote) -> String {
    let mut text = clean(&note.to_string());
    for Change { path, old, new, .. } in note.changes.iter().take(SHOWN) {
        let (old, new) = (shown(old.as_ref()), shown(new.as_ref()));
        text += &format!("\n        {}: {old} → {new}", clean(path));
    }
    if note.changes.len() > SHOWN {
        text += &format!("\n        and {} more", note.changes.len() - SHOWN);
    }
    text
}
