//! A custom transport: messages through a pair of channels, for example between a program and a plugin.
//!
//! ```console
//! $ cargo run -q -p duet-rpc --example custom_transport
//! 6 × 7 = 42
//! ```
//!
//! A transport moves messages from its wire to the inbox, and from the outbox to its wire. This transport carries whole
//! messages. A transport that carries bytes appends them to `Inbox::space`, and the framing splits them into
//! messages.

use std::io::{self, Write};
use std::task::{Context, Poll, ready};

use duet_rpc::transport::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};
use duet_rpc::{Error, Peer, Profile, Router};
use tokio::sync::mpsc::{self, Receiver, Sender};

struct Channels {
    incoming: Receiver<Vec<u8>>,
    /// `None` once the transport is closed.
    outgoing: Option<Sender<Vec<u8>>>,
    /// The pending wait for room in the channel. It is kept between polls, because a new wait would start at the
    /// end of the queue.
    permit: Option<PendingPermit>,
}

type PendingPermit =
    std::pin::Pin<Box<dyn Future<Output = io::Result<mpsc::OwnedPermit<Vec<u8>>>> + Send>>;

impl Channels {
    fn pair() -> (Self, Self) {
        let (here, from_here) = mpsc::channel(16);
        let (there, from_there) = mpsc::channel(16);
        let end =
            |outgoing, incoming| Channels { incoming, outgoing: Some(outgoing), permit: None };
        (end(here, from_there), end(there, from_here))
    }
}

impl Transport for Channels {
    fn kind(&self) -> TransportKind {
        TransportKind::Messages
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        match ready!(self.incoming.poll_recv(cx)) {
            Some(message) => {
                inbox.push(&message)?;
                Poll::Ready(Ok(Received::Data))
            }
            None => Poll::Ready(Ok(Received::Eof)),
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        while let Some(message) = outbox.message() {
            let Some(outgoing) = &self.outgoing else {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            };
            // A full channel makes the peer wait, which slows down the remote.
            let permit = self.permit.get_or_insert_with(|| {
                let outgoing = outgoing.clone();
                Box::pin(async move {
                    outgoing.reserve_owned().await.map_err(|_| io::ErrorKind::BrokenPipe.into())
                })
            });
            let permit = ready!(permit.as_mut().poll(cx));
            self.permit = None;
            permit?.send(message.to_vec());
            outbox.pop();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<ExitReport> {
        self.outgoing = None;
        self.incoming.close();
        Poll::Ready(ExitReport::default())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let router = Router::new().method("multiply", async |(a, b): (i64, i64)| a * b);
    let (here, there) = Channels::pair();
    let plugin = Peer::builder(there).profile(Profile::agent()).router(router).spawn();
    let program = Peer::builder(here).profile(Profile::agent()).router(Router::new()).spawn();

    let product: i64 = program.call("multiply", (6, 7)).await?;
    let _ = writeln!(io::stdout(), "6 × 7 = {product}");

    program.close().await;
    plugin.closed().await;
    Ok(())
}
