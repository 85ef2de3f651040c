//! Windows has no socket activation.

use std::convert::Infallible;
use std::io;

use duet_rpc::transport::{Address, Listener, TlsServer};

/// An inherited socket: there are none.
// Same name: the interface of `unix/activation.rs`.
pub(crate) struct InheritedSocket(Infallible);

/// Refuses the sockets that the environment promises.
pub(crate) fn take_inherited() -> Vec<(usize, Result<InheritedSocket, String>)> {
    match std::env::var_os("LISTEN_FDS").filter(|count| count != "0" && !count.is_empty()) {
        Some(_) => {
            vec![(
                0,
                Err("Windows has no socket activation: use --listen, and unset LISTEN_FDS".into()),
            )]
        }
        None => Vec::new(),
    }
}

impl InheritedSocket {
    pub(crate) fn is_tcp(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn listens(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn is_at(&self, _: &Address) -> bool {
        match self.0 {}
    }

    pub(crate) fn into_listener(self, _: &Address, _: Option<&TlsServer>) -> io::Result<Listener> {
        match self.0 {}
    }
}
