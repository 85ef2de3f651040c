//! Connections of a hub, from its own listeners and from elsewhere.

use std::pin::Pin;
use std::sync::Arc;
#[cfg(feature = "websocket")]
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker, ready};
#[cfg(feature = "http")]
use std::time::Duration;

#[cfg(feature = "http")]
use duet_rpc_proto::Profile;

use super::admission::Permit;
use super::{Hub, ServedElsewhere};
#[cfg(feature = "http")]
use super::{HubState, until};
use crate::connection::Driver;
#[cfg(feature = "http")]
use crate::connection::memory::Budget;
use crate::error::{CloseReason, Disconnect, Error, ErrorKind, Logged};
#[cfg(feature = "http")]
use crate::net::HttpService;
use crate::panic_guard;
use crate::peer::{Peer, PeerBuilder, Registration};
use crate::remote::Remote;
use crate::transport::Transport;
#[cfg(feature = "http")]
use crate::transport::{Exchange, ExchangeTransport};

/// A connection of a hub: a future that ends with it.
#[must_use = "a connection that is not polled is not served"]
pub(in crate::net) enum Served {
    Peer(ServedPeer),
    Elsewhere(ServedElsewhere),
}

/// A connection that is served with the router.
pub(in crate::net) struct ServedPeer {
    // The connection leaves the registry before its driver is dropped.
    _registration: Registration,
    driver: Box<Driver>,
    has_ended: bool,
}

/// The connection of one request.
#[cfg(feature = "http")]
pub(in crate::net) type HubExchange = Exchange<Served>;

impl Hub {
    /// Serves a connection that was accepted elsewhere, for example by another kind of listener, as the hub serves
    /// its own connections. Returns the peer of the connection, which the application may drop: the hub keeps the
    /// connection open. If there are too many connections, or the hub is stopping, the error is of the kind
    /// [`Capacity`](ErrorKind::Capacity), and the transport is dropped.
    ///
    /// ```
    /// use duet_rpc::{Error, Hub, Peer, Remote, Router, transport::memory};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// let hub = Hub::builder().router(Router::new().method("ping", || "pong")).build();
    /// let (here, there) = memory::pair();
    /// let _ = hub.attach(there, Remote::new())?;
    ///
    /// let client = Peer::builder(here).spawn();
    /// assert_eq!(client.call::<String>("ping", ()).await?, "pong");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    pub fn attach(&self, transport: impl Transport, remote: Remote) -> Result<Peer, Error> {
        let Some(permit) = self.permit() else { return Err(Error::new(ErrorKind::Capacity)) };
        let (peer, served) = self.serve_peer(Box::new(transport), remote);
        self.spawn(Attached { served, _permit: permit });
        Ok(peer)
    }

    /// Serves a connection as [`attach`](Hub::attach) does, beginning on this thread: it handles messages that the
    /// transport has already, and sends their answers, as far as this needs no waiting. Returns `None` if the connection
    /// is over then, which costs no task. For servers with many short connections, such as one for each request.
    /// Handlers that are known to be quick run inside this function.
    ///
    /// ```
    /// use duet_rpc::{Error, Hub, Peer, Remote, Router, transport::memory};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// let hub = Hub::builder().router(Router::new().method("ping", || "pong")).build();
    /// let (here, there) = memory::pair();
    /// let peer = hub.attach_here(there, Remote::new())?;
    /// assert!(peer.is_some(), "this connection stays open");
    ///
    /// let client = Peer::builder(here).spawn();
    /// assert_eq!(client.call::<String>("ping", ()).await?, "pong");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    pub fn attach_here(
        &self,
        transport: impl Transport,
        remote: Remote,
    ) -> Result<Option<Peer>, Error> {
        let Some(permit) = self.permit() else { return Err(Error::new(ErrorKind::Capacity)) };
        let (peer, served) = self.serve_peer(Box::new(transport), remote);
        let mut attached = Attached { served, _permit: permit };
        // A task polls it again, and registers a waker of its own.
        if Pin::new(&mut attached).poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            drop(peer);
            return Ok(None);
        }
        self.spawn(attached);
        Ok(Some(peer))
    }

    /// Takes the permit of a connection; `None` if there are too many, or the hub is stopping.
    pub(in crate::net) fn permit(&self) -> Option<Permit> {
        if self.is_stopping() { None } else { Permit::take(&self.0.admission, self.0.most) }
    }

    pub(in crate::net) fn is_stopping(&self) -> bool {
        *self.0.admission.is_stopping.borrow()
    }

    /// A connection over this transport.
    pub(in crate::net) fn connect(&self, transport: Box<dyn Transport>, remote: Remote) -> Served {
        match &self.0.serve_with {
            Some(serve) => Served::Elsewhere(serve(transport, remote)),
            None => Served::Peer(self.serve_peer(transport, remote).1),
        }
    }

    fn serve_peer(&self, transport: Box<dyn Transport>, remote: Remote) -> (Peer, ServedPeer) {
        let hub = &self.0;
        let router = match transport.kind().is_two_way() {
            true => hub.router.clone(),
            false => hub.one_way.clone(),
        };
        let registry = &hub.admission.registry;
        let peer = PeerBuilder {
            transport,
            profile: hub.profile,
            router,
            remote,
            budget: Some(Arc::clone(&hub.budget)),
            registry: Some(Arc::clone(registry)),
        };
        let (peer, mut driver) = peer.build_driver();
        driver.share_thread();
        driver.use_pool(hub.workers.clone());
        let shared = peer.shared();
        shared.span.in_scope(|| {
            tracing::debug!(identity = peer.identity().map(display), "connection opened");
        });
        if let Some(on_connect) = &hub.on_connect
            && let Err(error) = panic_guard::catch(|| shared.span.in_scope(|| on_connect(&peer)))
        {
            // A graceful close: the remote learns of it, and none of its messages is handled.
            shared.span.in_scope(|| tracing::error!(error = %Logged(&error), "on_connect failed"));
            peer.begin_close(None);
        }
        let _registration = registry.enter(peer.clone(), || self.is_stopping());
        (peer, ServedPeer { _registration, driver, has_ended: false })
    }
}

#[cfg(feature = "http")]
impl Hub {
    /// Serves this hub inside another web server; see [`HttpService`].
    pub fn http_service(&self) -> HttpService {
        HttpService::new(self.clone())
    }

    /// The connection of one request, whose client may take a stream of events.
    pub(in crate::net) fn exchange(
        &self,
        message: Vec<u8>,
        remote: Remote,
        takes_events: bool,
    ) -> HubExchange {
        let transport = ExchangeTransport::new(message);
        let transport = if takes_events { transport.streaming() } else { transport };
        let sent = transport.sent();
        Exchange::new(self.connect(Box::new(transport), remote), sent)
    }

    pub(in crate::net) fn profile(&self) -> &Profile {
        &self.0.profile
    }

    pub(in crate::net) fn read_timeout(&self) -> Option<Duration> {
        self.0.profile.read_timeout
    }

    /// This hub, with another profile for further connections.
    pub(in crate::net) fn with_profile(&self, profile: Profile) -> Hub {
        Hub(Arc::new(HubState { profile, ..HubState::clone(&self.0) }))
    }

    pub(in crate::net) fn budget(&self) -> &Arc<Budget> {
        &self.0.budget
    }

    /// Set before the connections close.
    #[cfg(feature = "websocket")]
    pub(in crate::net) fn going_away(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0.admission.going_away)
    }

    /// Waits for a future; `None` if the hub stops first.
    pub(in crate::net) async fn until_stop<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        until(&mut self.0.admission.is_stopping.subscribe(), work).await
    }
}

/// A connection that was accepted elsewhere. An exchange is over with its answer.
struct Attached {
    served: ServedPeer,
    _permit: Permit,
}

impl Future for Attached {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match Pin::new(&mut self.served).poll(cx) {
            Poll::Pending if !self.served.driver.is_answered() => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }
}

impl Future for Served {
    type Output = Disconnect;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Disconnect> {
        match self.get_mut() {
            Served::Peer(served) => Pin::new(served).poll(cx),
            Served::Elsewhere(served) => {
                served.as_mut().poll(cx).map(|()| Disconnect::new(CloseReason::RemoteClosed, None))
            }
        }
    }
}

impl Future for ServedPeer {
    type Output = Disconnect;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Disconnect> {
        let end = ready!(Pin::new(&mut self.driver).poll(cx));
        self.driver.span().in_scope(|| tracing::debug!("connection ended: {end}"));
        self.has_ended = true;
        Poll::Ready(end)
    }
}

impl Drop for ServedPeer {
    /// Logs the end of an exchange, and of a connection that is dropped before its end.
    fn drop(&mut self) {
        if !self.has_ended {
            self.driver.span().in_scope(|| tracing::debug!("connection ended"));
        }
    }
}
