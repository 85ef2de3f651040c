//! `NatsPeer`: calls services behind a broker.

use std::fmt;
use std::sync::atomic::Ordering;

use async_nats::ConnectOptions;
use duet_rpc::{Error, Peer};

use crate::broker::Broker;
use crate::caller::NatsTransport;

/// A connection to a broker, for calls to the services behind it. It reconnects by itself; dropping the last peer of
/// it closes it.
///
/// ```no_run
/// use duet_rpc_nats::NatsPeer;
///
/// # async fn example() -> Result<(), duet_rpc::Error> {
/// let math = NatsPeer::connect("nats://127.0.0.1:4222").await?.service("math").await?;
/// let sum: i64 = math.call("add", (1, 2)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct NatsPeer(Broker);

impl NatsPeer {
    /// Connects to the broker at this URL, such as `nats://127.0.0.1:4222`.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(url, ConnectOptions::new()).await
    }

    /// Connects with options of `async-nats`: credentials, certificates, the prefix of inboxes. This library sets the
    /// event callback, the reconnect delay and the capacity of subscriptions itself.
    pub async fn connect_with(url: &str, options: ConnectOptions) -> Result<Self, Error> {
        Broker::connect(url, options).await.map(NatsPeer)
    }

    /// A peer for a service. It works like a peer on a socket, and each message goes to one of the workers: calls that
    /// are dropped or time out are cancelled, and a worker that dies fails its calls with
    /// [`Interrupted`](duet_rpc::ErrorKind::Interrupted) after three seconds. Messages to different workers have no
    /// order.
    pub async fn service(&self, name: &str) -> Result<Peer, Error> {
        Ok(Peer::builder(self.transport(name).await?).spawn())
    }

    /// The transport of a service, for a [`Peer::builder`] with a profile, or with a router that serves calls of
    /// workers. A bridge uses one for each of its clients.
    pub async fn transport(&self, name: &str) -> Result<NatsTransport, Error> {
        NatsTransport::open(&self.0, name).await
    }

    /// The number of times that messages were dropped because this process did not read them in time. It should be 0:
    /// each one is also logged as an error.
    pub fn slow_consumers(&self) -> u64 {
        self.0.slow_consumers.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for NatsPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsPeer").field("state", &self.0.client.connection_state()).finish()
    }
}
