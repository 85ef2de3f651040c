//! Connector: connects to a server at an address.

use std::fmt;
use std::io;

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
#[cfg(feature = "http")]
use super::web::RequestHead;
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
    headers: Vec<(String, String)>,
    subprotocol: Option<String>,
}

impl Connector {
    /// A connector for this address: an [`Address`] or its text. Fails if the text is not an address.
    pub fn new(address: impl TryInto<Address, Error: Into<AddressError>>) -> io::Result<Self> {
        Ok(Connector {
            address: resolve(address)?,
            token: None,
            headers: Vec::new(),
            subprotocol: None,
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
    /// let connector = Connector::new("http://127.0.0.1:4000/rpc")?.header("X-Tenant", "blue");
    /// // A header may be secret.
    /// assert!(!format!("{connector:?}").contains("blue"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Offers this subprotocol to a WebSocket server, such as `mcp`. The server chooses it or none; with any
    /// other choice, and with any other address, [`connect`](Connector::connect) fails.
    #[must_use]
    pub fn subprotocol(mut self, name: impl Into<String>) -> Self {
        self.subprotocol = Some(name.into());
        self
    }

    /// Connects to the server, and returns the transport.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    #[cfg_attr(
        not(any(feature = "http", feature = "websocket")),
        expect(unused_variables, reason = "TCP and Unix sockets need no settings")
    )]
    pub async fn connect(&self, profile: &Profile) -> io::Result<Box<dyn Transport>> {
        self.check_settings()?;
        match &self.address {
            Address::Stdio => Err(unsupported(
                "cannot connect to stdin and stdout: start the server as a child process",
            )),
            Address::Tcp(place) => Ok(Box::new(dial(place).await?)),
            #[cfg(unix)]
            Address::Unix(path) => {
                Ok(Box::new(Socket::unix(tokio::net::UnixStream::connect(path).await?)))
            }
            #[cfg(not(unix))]
            Address::Unix(_) => Err(unsupported("this system has no Unix sockets")),
            #[cfg(feature = "http")]
            Address::Http(place, target) => {
                let head = self.request_head(place, target)?;
                Ok(Box::new(HttpClient::open(dial_again(place), head, profile).await?))
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
                let socket = dial(place).await?;
                let (socket, behind) = ask_for_upgrade(socket, &ask, limit, patience).await?;
                Ok(Box::new(WebSocket::new(socket, Role::Client, profile, behind)))
            }
            #[cfg(not(feature = "websocket"))]
            Address::WebSocket(..) => Err(unsupported("the feature `websocket` is not built in")),
        }
    }

    /// Checks that the server of this address takes the settings.
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
}

async fn dial(place: &Place) -> io::Result<Socket> {
    TcpStream::connect((place.host.as_str(), place.port)).await.map(Socket::tcp)
}

/// A function that makes a connection each time.
#[cfg(feature = "http")]
pub(super) fn dial_again(place: &Place) -> Dial {
    let place = place.clone();
    Box::new(move || {
        let place = place.clone();
        Box::pin(async move { dial(&place).await })
    })
}

impl fmt::Debug for Connector {
    /// Shows the address, but neither the token nor the headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("address", &self.address).finish_non_exhaustive()
    }
}
