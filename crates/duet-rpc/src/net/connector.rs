//! Connector: connects to a server at an address.

use std::fmt;
use std::io;
use std::time::Duration;

use duet_rpc_proto::Profile;
#[cfg(feature = "websocket")]
use duet_rpc_proto::ws::Role;
use tokio::net::TcpStream;

#[cfg(feature = "http")]
use super::HttpClient;
#[cfg(feature = "websocket")]
use super::WebSocket;
use super::address::resolve;
#[cfg(feature = "tls")]
use super::tls::{self, Inside, TlsClient};
#[cfg(feature = "websocket")]
use super::web::{Ask, ask_for_upgrade};
use super::{Address, AddressError, Place, Socket, unsupported};
use crate::transport::Transport;

/// Connects to a server at an address.
///
/// ```no_run
/// use duet_rpc::{Peer, Profile, transport::Connector};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let profile = Profile::agent();
/// let transport = Connector::new("tcp://127.0.0.1:4000")?.connect(&profile).await?;
/// let server = Peer::builder(transport).profile(profile).spawn();
/// let sum: i64 = server.call("add", (1, 2)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Connector {
    address: Address,
    token: Option<String>,
    #[cfg(feature = "tls")]
    tls: TlsClient,
}

impl Connector {
    /// A connector for this address: an [`Address`] or its text. Fails if the text is not an address.
    pub fn new(address: impl TryInto<Address, Error: Into<AddressError>>) -> io::Result<Self> {
        Ok(Connector {
            address: resolve(address)?,
            token: None,
            #[cfg(feature = "tls")]
            tls: TlsClient::new(),
        })
    }

    /// Sets the token that the connector sends to a WebSocket or HTTP server. With any other address
    /// [`connect`](Connector::connect) fails with `InvalidInput`.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sets the trust and identity for `tls://`, `wss://` and `https://`. Default: [`TlsClient::new`].
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: TlsClient) -> Self {
        self.tls = tls;
        self
    }

    /// Connects to the server, and returns the transport. A failure of TLS is an error with a
    /// [`TlsError`](crate::transport::TlsError) in it. The handshakes of TLS and WebSocket take no longer than the
    /// profile's [`call_timeout`](Profile::call_timeout) each.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    pub async fn connect(&self, profile: &Profile) -> io::Result<Box<dyn Transport>> {
        let takes_token = matches!(self.address, Address::WebSocket(..) | Address::Http(..));
        if self.token.is_some() && !takes_token {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} takes no token: only WebSocket and HTTP addresses do", self.address),
            ));
        }
        match &self.address {
            Address::Stdio => Err(unsupported(
                "cannot connect to stdin and stdout: start the server as a child process",
            )),
            Address::Tcp(place) => Ok(Box::new(self.dialer(place, profile).dial().await?)),
            #[cfg(unix)]
            Address::Unix(path) => {
                Ok(Box::new(Socket::unix(tokio::net::UnixStream::connect(path).await?)))
            }
            #[cfg(not(unix))]
            Address::Unix(_) => Err(unsupported("this system has no Unix sockets")),
            #[cfg(feature = "http")]
            Address::Http(place, target) => {
                let token = self.token.as_deref();
                let dialer = self.dialer(place, profile);
                Ok(Box::new(HttpClient::dialed(dialer, target, token, profile).await?))
            }
            #[cfg(not(feature = "http"))]
            Address::Http(..) => Err(unsupported("the feature `http` is not built in")),
            #[cfg(feature = "websocket")]
            Address::WebSocket(place, target) => {
                let nonce = crate::random::seed().to_ne_bytes();
                let (host, token) = (&*place.to_string(), self.token.as_deref());
                let ask = Ask { host, target: target.as_str(), token, nonce };
                let (limit, patience) = (profile.limits.header_bytes, profile.call_timeout);
                let socket = self.dialer(place, profile).dial().await?;
                let (socket, behind) = ask_for_upgrade(socket, &ask, limit, patience).await?;
                Ok(Box::new(WebSocket::new(socket, Role::Client, profile, behind)))
            }
            #[cfg(not(feature = "websocket"))]
            Address::WebSocket(..) => Err(unsupported("the feature `websocket` is not built in")),
        }
    }

    fn dialer(&self, place: &Place, profile: &Profile) -> Dialer {
        Dialer {
            place: place.clone(),
            #[cfg(feature = "tls")]
            tls: self.tls.clone(),
            #[cfg(feature = "tls")]
            inside: Inside::at(&self.address),
            patience: profile.call_timeout,
        }
    }
}

/// Makes connections to one place: over TCP, with TLS if the place is secure.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    place: Place,
    #[cfg(feature = "tls")]
    tls: TlsClient,
    #[cfg(feature = "tls")]
    inside: Inside,
    /// The time for the TLS handshake.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "TCP has no handshake of ours"))]
    patience: Option<Duration>,
}

impl Dialer {
    /// A dialer with the default settings for TLS.
    #[cfg(feature = "http")]
    pub(crate) fn new(place: &Place, profile: &Profile) -> Self {
        Dialer {
            place: place.clone(),
            #[cfg(feature = "tls")]
            tls: TlsClient::new(),
            #[cfg(feature = "tls")]
            inside: Inside::Http,
            patience: profile.call_timeout,
        }
    }

    /// The place that it connects to.
    #[cfg(feature = "http")]
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Connects once.
    pub(crate) async fn dial(&self) -> io::Result<Socket> {
        #[cfg(not(feature = "tls"))]
        if self.place.is_secure() {
            return Err(unsupported("the feature `tls` is not built in"));
        }
        let place = &self.place;
        let stream = TcpStream::connect((place.host.as_str(), place.port)).await?;
        let socket = Socket::tcp(stream);
        match place.is_secure() {
            #[cfg(feature = "tls")]
            true => tls::connect(socket, place, &self.tls, self.inside, self.patience).await,
            _ => Ok(socket),
        }
    }
}

impl fmt::Debug for Connector {
    /// Shows the address, but not the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("address", &self.address).finish_non_exhaustive()
    }
}
