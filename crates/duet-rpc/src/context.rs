//! Context of a message: a handler argument with the connection, the id and the cancellation.

use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use duet_rpc_proto::message::Id;
use duet_rpc_proto::session::Key;
use tokio::sync::SetOnce;

use crate::peer::{Peer, Peers};
use crate::remote::Identity;

/// The context of a message: its connection, its sender, its id, and its cancellation.
///
/// A handler takes it as an argument besides its params.
///
/// ```
/// use duet_rpc::{Context, Error, Router};
///
/// async fn greet((name,): (String,), cx: Context) -> Result<String, Error> {
///     // Calls the caller back on the same connection.
///     let mood: String = cx.peer().call("mood", ()).await?;
///     Ok(format!("Hello {name}, are you {mood}?"))
/// }
///
/// let router = Router::new().method("greet", greet);
/// ```
#[derive(Clone)]
pub struct Context {
    peer: Peer,
    id: Option<Id>,
    key: Option<Key>,
    flag: Arc<Flag>,
}

/// The cancellation flag of a request. It is set once, when the request is cancelled or its connection is gone.
pub(crate) type Flag = SetOnce<()>;

impl Context {
    pub(crate) fn new(peer: Peer, id: Option<Id>, key: Option<Key>, flag: Arc<Flag>) -> Self {
        Context { peer, id, key, flag }
    }

    /// The connection on which the message arrived, for calls and notifications to the sender.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The open connections of this server, to list them or to notify all of them; see [`Peers`].
    ///
    /// ```
    /// use duet_rpc::{Context, Error, Router};
    ///
    /// let router = Router::new().method("say", |(text,): (String,), cx: Context| -> Result<usize, Error> {
    ///     Ok(cx.peers().broadcast("said", [text])?.sent)
    /// });
    /// ```
    pub fn peers(&self) -> Peers {
        self.peer.peers()
    }

    /// The address of the remote; see [`Peer::remote_addr`].
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.peer.remote_addr()
    }

    /// The authenticated identity of the sender; see [`Peer::identity`].
    pub fn identity(&self) -> Option<&Identity> {
        self.peer.identity()
    }

    /// The headers of the HTTP request; see [`Remote::headers`](crate::Remote::headers).
    #[cfg(feature = "http")]
    pub fn headers(&self) -> Option<&http::HeaderMap> {
        self.peer.remote().headers()
    }

    /// The id of the request; `None` for a notification.
    pub fn id(&self) -> Option<&Id> {
        self.id.as_ref()
    }

    /// Returns `true` if the request was cancelled or the connection is gone.
    ///
    /// A cancelled handler is dropped at its next `await`. Use this method in work that the handler started
    /// elsewhere, such as on a thread.
    pub fn is_cancelled(&self) -> bool {
        self.flag.initialized() || self.peer.shared().gone.initialized()
    }

    /// Waits until the request is cancelled or the connection is gone, even after the handler has returned.
    pub async fn cancelled(&self) {
        let mut cancelled = pin!(self.flag.wait());
        let mut gone = pin!(self.peer.shared().gone.wait());
        poll_fn(|cx| match cancelled.as_mut().poll(cx) {
            Poll::Pending => gone.as_mut().poll(cx).map(|()| ()),
            Poll::Ready(()) => Poll::Ready(()),
        })
        .await;
    }

    /// Closes the connection gracefully. The library finishes and answers this message and all earlier
    /// messages. Later messages do not begin. A server on stdio exits.
    pub fn shut_down(&self) {
        self.peer.begin_close(self.key);
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("id", &self.id).finish_non_exhaustive()
    }
}
