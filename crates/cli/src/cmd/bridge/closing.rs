//! The end of a connection: the last messages, and the order of closing.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use duet_rpc::proto::message::{Code, ErrorObject};
use duet_rpc::transport::{ExitReport, PipeEvent};
use tokio::time::{Instant, timeout};

use super::awaited::Awaited;
use super::direct::ClientPipe;
use super::server_pipe::ServerPipe;

/// Time for a client to take some of the last messages, before its connection closes; and to take all of them.
pub(super) const LAST_FLUSH: Duration = Duration::from_millis(500);
const LONGEST_FLUSH: Duration = Duration::from_secs(30);

/// Sends the last messages to the client, and closes both sides at the same time. Returns whether the client could be
/// written to, and how the server ended.
pub(super) async fn close(
    mut client: ClientPipe,
    mut server: ServerPipe,
    last: &[Vec<u8>],
) -> (io::Result<()>, ExitReport) {
    let server = poll_fn(move |cx| server.poll_close(cx));
    tokio::join!(async move { close_client(&mut client, last).await }, server)
}

/// Sends the last messages to a client, and closes its connection. A client that takes nothing is not waited for.
pub(super) async fn close_client(client: &mut ClientPipe, last: &[Vec<u8>]) -> io::Result<()> {
    last.iter().for_each(|message| client.send(message));
    client.settle();
    let begun = Instant::now();
    let flushed = loop {
        let before = client.signs_of_reading();
        let flushed = timeout(LAST_FLUSH, poll_fn(|cx| client.poll_flush(cx))).await;
        let is_moving = client.is_delaying() || client.signs_of_reading() != before;
        match flushed {
            Ok(flushed) => break flushed,
            Err(_) if is_moving && begun.elapsed() < LONGEST_FLUSH => {}
            Err(_) => break Ok(()),
        }
    };
    poll_fn(|cx| client.poll_close(cx)).await;
    flushed
}

/// Answers the requests of a client that has no server, and closes its connection.
pub(super) async fn refuse(mut client: ClientPipe) {
    let mut asked = Awaited::default();
    receive_last(&mut client, &mut asked, LAST_FLUSH).await;
    let message = "The server cannot be started or reached";
    let error = ErrorObject::application(Code::SERVER_BUSY, message, None);
    let _ = close_client(&mut client, &asked.errors(&error)).await;
}

/// Notes the requests that a client without a server has sent, or sends within this time.
pub(super) async fn receive_last(client: &mut ClientPipe, asked: &mut Awaited, time: Duration) {
    let asking = poll_fn(|cx| {
        let mut has_message = false;
        loop {
            let received = client.poll_receive(cx, |event| {
                if let PipeEvent::Message(text) = event {
                    has_message = true;
                    asked.note_request(&text);
                }
            });
            match received {
                Poll::Ready(Ok(true)) => {}
                Poll::Pending if !has_message => return Poll::Pending,
                Poll::Ready(_) | Poll::Pending => return Poll::Ready(()),
            }
        }
    });
    // A client that asks nothing is not told anything.
    let _ = timeout(time, asking).await;
}
