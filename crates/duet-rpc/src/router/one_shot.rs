//! `Router::handle`: handles one message without a connection.

use std::future::poll_fn;

use duet_rpc_proto::Profile;

use super::Router;
use crate::peer::Peer;
use crate::transport::{Exchange, ExchangeTransport};

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
        let transport = ExchangeTransport::new(message.as_ref().to_vec());
        let sent = transport.sent();
        let (peer, driver) =
            Peer::builder(transport).profile(*profile).router(self.clone()).build();
        let mut exchange = Exchange::new(driver, sent);
        let answer = poll_fn(|cx| exchange.poll_next(cx)).await;
        while poll_fn(|cx| exchange.poll_next(cx)).await.is_some() {}
        drop(peer);
        answer
    }
}
