//! Connector: connects to a server at an address.

use std::fmt;
use std::io;
use std::time::Duration;

use duet_rpc_proto::Profile;
#[cfg(feature = "websocket")]
use duet_rpc_proto::ws::Role;
use tokio::net::TcpStream;

#[cfg(feature = "http")]
use super::Target;
#[cfg(feature = "websocket")]
use super::WebSocket;
use super::address::resolve;
#[cfg(feature = "http")]
use super::http::{Dial, HttpClient};
#[cfg(feature = "tls")]
use super::tls::{self, Inside, TlsClient};
#[cfg(feature = "http")]
use super::web::RequestHead;
#[cfg(feature = "websocket")]
use super::web::{Ask, ask_for_upgrade};
use super::{Address, AddressError, NATS, Place, Socket, unsupported};
use crate::sys::local::{connect_pipe, connect_unix};
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
    headers: Vec<(String, String)>,
    subprotocol: Option<String>,
    #[cfg(feature = "tls")]
    tls: TlsClient,
}

impl Connector {
    /// A connector for this address: an [`Address`] or its text. Fails if the text is not an address.
    pub fn new(address: impl TryInto<Address, Error: Into<AddressError>>) -> io::Result<Self> {
        Ok(Connector {
            address: resolve(address)?,
            token: None,
            headers: Vec::new(),
            subprotocol: None,
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

    /// Adds a header to each request to a WebSocket or HTTP server. With any other address, and with a header
    /// that is malformed or that the client sets itself, [`connect`](Connector::connect) fails with
    /// `InvalidInput`.
    ///
    /// ```
    /// use duet_rpc::transport::Connector;
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let connector = Connector::new("http://127.0.0.1:4000/rpc")?.header("X-Tenant", "blue");
    /// // A header may be secret.
    /// assert!(!format!("{connector:?}").contains("blue"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Offers this subprotocol, such as `mcp`, to a WebSocket server. The server chooses it or none.
    /// [`connect`](Connector::connect) fails if the server chooses another subprotocol, or if the address is not a
    /// WebSocket address.
    #[must_use]
    pub fn subprotocol(mut self, name: impl Into<String>) -> Self {
        self.subprotocol = Some(name.into());
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
        self.check_settings()?;
        match &self.address {
            Address::Nats(..) => Err(unsupported(NATS)),
            Address::Stdio => Err(unsupported(
                "cannot connect to stdin and stdout: start the server as a child process",
            )),
            Address::Tcp(place) => Ok(Box::new(self.dialer(place, profile).dial().await?)),
            Address::Unix(path) => Ok(Box::new(Socket::local(connect_unix(path).await?))),
            Address::Pipe(name) => Ok(Box::new(Socket::local(connect_pipe(name).await?))),
            #[cfg(feature = "http")]
            Address::Http(place, target) => {
                let head = self.request_head(place, target)?;
                let dial = self.dialer(place, profile).into_dial();
                Ok(Box::new(HttpClient::open(dial, head, profile).await?))
            }
            #[cfg(not(feature = "http"))]
            Address::Http(..) => Err(unsupported("the feature `http` is not built in")),
            #[cfg(feature = "websocket")]
            Address::WebSocket(place, target) => {
                let ask = Ask {
                    head: self.request_head(place, target)?,
                    subprotocol: self.subprotocol.as_deref(),
                    nonce: crate::random::seed().to_ne_bytes(),
                };
                let (limit, patience) = (profile.limits.header_bytes, profile.call_timeout);
                let socket = self.dialer(place, profile).dial().await?;
                let (socket, behind) = ask_for_upgrade(socket, &ask, limit, patience).await?;
                Ok(Box::new(WebSocket::new(socket, Role::Client, profile, behind)))
            }
            #[cfg(not(feature = "websocket"))]
            Address::WebSocket(..) => Err(unsupported("the feature `websocket` is not built in")),
        }
    }

    /// Checks that the transport of this address supports the settings.
    fn check_settings(&self) -> io::Result<()> {
        let is_web_socket = matches!(self.address, Address::WebSocket(..));
        let is_web = is_web_socket || matches!(self.address, Address::Http(..));
        let (what, takers) = match self {
            _ if self.token.is_some() && !is_web => ("token", "WebSocket and HTTP"),
            _ if !self.headers.is_empty() && !is_web => ("headers", "WebSocket and HTTP"),
            _ if self.subprotocol.is_some() && !is_web_socket => ("subprotocol", "WebSocket"),
            _ => return Ok(()),
        };
        let why = format!("{} takes no {what}: only {takers} addresses do", self.address);
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    #[cfg(feature = "http")]
    fn request_head(&self, place: &Place, target: &Target) -> io::Result<RequestHead> {
        RequestHead::new(place, target, self.token.as_deref(), &self.headers)
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

    /// Converts it into a function that makes a new connection with each call.
    #[cfg(feature = "http")]
    pub(crate) fn into_dial(self) -> Dial {
        Box::new(move || {
            let dialer = self.clone();
            Box::pin(async move { dialer.dial().await })
        })
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
    /// Shows the address, but neither the token nor the headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("address", &self.address).finish_non_exhaustive()
    }
}
