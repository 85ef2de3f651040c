//! Protocol of the connections of a listener.

use std::io;

use crate::net::Address;
#[cfg(feature = "http")]
use crate::net::Target;
use crate::net::{NATS, unsupported};

/// The protocol of a connection.
#[derive(Clone)]
pub(super) enum Speaks {
    /// Frames, in the framing of the profile.
    Frames,
    #[cfg(feature = "websocket")]
    WebSocket(Target),
    #[cfg(feature = "http")]
    Http(Target),
}

impl Speaks {
    /// The protocol at this address.
    pub(super) fn at(address: &Address) -> io::Result<Speaks> {
        if let Address::WebSocket(_, target) | Address::Http(_, target) = address
            && target.as_str().contains('?')
        {
            let why = "an address to listen on has no query: remove `?` and what follows";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        match address {
            Address::Stdio | Address::Tcp(_) | Address::Unix(_) | Address::Pipe(_) => {
                Ok(Speaks::Frames)
            }
            Address::Nats(..) => Err(unsupported(NATS)),
            #[cfg(feature = "websocket")]
            Address::WebSocket(_, target) => Ok(Speaks::WebSocket(target.clone())),
            #[cfg(not(feature = "websocket"))]
            Address::WebSocket(..) => Err(unsupported("the feature `websocket` is not built in")),
            #[cfg(feature = "http")]
            Address::Http(_, target) => Ok(Speaks::Http(target.clone())),
            #[cfg(not(feature = "http"))]
            Address::Http(..) => Err(unsupported("the feature `http` is not built in")),
        }
    }
}
