//! TLS for listeners and connectors, with rustls (feature `tls`).
//!
//! | file | contents |
//! |---|---|
//! | `client` | settings of a client: trusted authorities, its own certificate |
//! | `server` | settings of a server: certificate and key, which are read again when their files change |
//! | `files` | reading PEM files, and noticing that they changed |
//! | `handshake` | the handshake of both sides; answers to clients that do not speak TLS |
//! | `stream` | an encrypted TCP connection |
//! | `certificate` | the identity in a client certificate |
//! | `error` | an explanation of each failure |

mod certificate;
mod client;
mod error;
mod files;
mod handshake;
mod server;
mod stream;

use std::sync::{Arc, OnceLock};

use rustls::crypto::CryptoProvider;

use super::Address;

pub use self::client::TlsClient;
pub use self::error::{TlsError, TlsErrorKind};
pub(super) use self::handshake::{accept, connect};
pub use self::server::{ClientCertificates, TlsServer};
pub(super) use self::stream::TlsSocket;

/// The protocol inside of TLS. HTTP and WebSocket name it in the handshake (ALPN), frames have no registered name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    Frames,
    #[cfg(feature = "http")]
    Http,
}

impl Inside {
    /// The protocol at this address.
    pub(super) fn at(address: &Address) -> Self {
        match address {
            #[cfg(feature = "http")]
            Address::Http(..) | Address::WebSocket(..) => Inside::Http,
            _ => Inside::Frames,
        }
    }

    fn protocols(self) -> Vec<Vec<u8>> {
        match self {
            Inside::Frames => Vec::new(),
            #[cfg(feature = "http")]
            Inside::Http => vec![b"http/1.1".to_vec()],
        }
    }
}

/// The cryptography provider. Every configuration names it, because the application may set the default of the
/// process to another provider, or to none.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())))
}
