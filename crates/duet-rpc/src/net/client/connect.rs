//! Connect: makes the connections of a client.

use std::io;
use std::pin::Pin;

use duet_rpc_proto::Profile;

use crate::net::Connector;
use crate::transport::Transport;

/// An attempt to connect.
type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send>>;

/// Makes the connections of a [`Client`](crate::Client), one after the other.
///
/// A [`Connector`] connects to an address. For anything else, such as starting a program, use a closure that
/// returns a future of a transport.
pub trait Connect: Send + 'static {
    /// Connects once. The profile is the client's.
    fn connect(&mut self, profile: Profile) -> Connecting;
}

impl<C, F, T> Connect for C
where
    C: FnMut() -> F + Send + 'static,
    F: Future<Output = io::Result<T>> + Send + 'static,
    T: Transport,
{
    fn connect(&mut self, _profile: Profile) -> Connecting {
        let connecting = self();
        Box::pin(async { Ok(Box::new(connecting.await?) as Box<dyn Transport>) })
    }
}

impl Connect for Connector {
    fn connect(&mut self, profile: Profile) -> Connecting {
        let connector = self.clone();
        Box::pin(async move { Connector::connect(&connector, &profile).await })
    }
}
