//! `Router::handle`: handles one message without a connection, with a buffer as the transport.

use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use duet_rpc_proto::Profile;

use super::Router;
use crate::peer::Peer;
use crate::sync::lock;
use crate::transport::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};

impl Router {
    /// Handles one message or one batch without a connection, for tests and for servers with their own transport.
    /// Returns the answer; `None` if there is none, as for a notification.
    ///
    /// Limits and answers are the same as on a connection with [`Profile::agent`].
    /// [`handle_with`](Router::handle_with) takes another profile. Handlers cannot call back. Dropping the future
    /// cancels the message.
    ///
    /// ```
    /// use duet_rpc::Router;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let router = Router::new().method("add", async |(a, b): (i64, i64)| a + b);
    /// let answer = router.handle(br#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#).await;
    /// assert_eq!(answer.as_deref(), Some(&br#"{"jsonrpc":"2.0","id":1,"result":3}"#[..]));
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time enabled.
    pub async fn handle(&self, message: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        self.handle_with(&Profile::agent(), message).await
    }

    /// Handles one message or one batch with the settings of a profile. See [`handle`](Router::handle).
    pub async fn handle_with(
        &self,
        profile: &Profile,
        message: impl AsRef<[u8]>,
    ) -> Option<Vec<u8>> {
        let answer = Arc::<Mutex<Option<Vec<u8>>>>::default();
        let transport = OneShot {
            message: Some(message.as_ref().to_vec()),
            answer: Arc::clone(&answer),
            is_over: false,
            receiver: None,
        };
        let (peer, driver) =
            Peer::builder(transport).profile(*profile).router(self.clone()).build();
        driver.await;
        drop(peer);
        lock(&answer).take()
    }
}

/// A transport that delivers one message and keeps its answer.
struct OneShot {
    message: Option<Vec<u8>>,
    answer: Arc<Mutex<Option<Vec<u8>>>>,
    /// `true` once the message is answered, or needs no answer.
    is_over: bool,
    receiver: Option<Waker>,
}

impl Transport for OneShot {
    fn kind(&self) -> TransportKind {
        TransportKind::Exchange
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        if let Some(message) = self.message.take() {
            inbox.push(&message)?;
            return Poll::Ready(Ok(Received::Data));
        }
        // EOF comes only after the answer, because a connection gives its handlers little time after EOF.
        if self.is_over {
            return Poll::Ready(Ok(Received::Eof));
        }
        self.receiver = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_send(&mut self, _: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        while let Some(message) = outbox.message() {
            lock(&self.answer).get_or_insert_with(|| message.to_vec());
            outbox.pop();
            self.is_over = true;
        }
        self.is_over |= outbox.take_settled();
        if self.is_over
            && let Some(receiver) = self.receiver.take()
        {
            receiver.wake();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<ExitReport> {
        Poll::Ready(ExitReport::default())
    }
}
