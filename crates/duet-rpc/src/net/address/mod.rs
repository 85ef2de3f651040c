//! Addresses of servers, as URLs (T2). `parse` reads them.

mod parse;

use std::convert::Infallible;
use std::fmt::{self, Write};
use std::io;
use std::net::ToSocketAddrs;
use std::path::PathBuf;

/// The address of a server.
///
/// | URL | |
/// |---|---|
/// | `stdio:` | stdin and stdout of this process |
/// | `tcp://127.0.0.1:4000` | TCP; port 0 takes a free port |
/// | `tls://127.0.0.1:4000` | TCP with TLS |
/// | `unix:///run/app.sock` | a Unix socket |
/// | `pipe://app` | the named pipe `\\.\pipe\app` (Windows) |
/// | `ws://127.0.0.1:4000/path`, `wss://…` | WebSocket, WebSocket with TLS |
/// | `http://127.0.0.1:4000/path`, `https://…` | HTTP, HTTP with TLS |
/// | `nats://127.0.0.1:4222/service` | a service behind a NATS broker; the package `duet-rpc-nats` connects to it |
///
/// ```
/// use duet_rpc::transport::Address;
///
/// # fn main() -> Result<(), duet_rpc::transport::AddressError> {
/// let address = Address::try_from("ws://localhost:4000")?;
/// assert_eq!(address.to_string(), "ws://localhost:4000/");
/// assert!("tcp://localhost".parse::<Address>().is_err(), "it has no port");
/// # Ok(())
/// # }
/// ```
///
/// Functions that need an address take a text as well: `Listener::bind("tcp://127.0.0.1:0")`. A text that is
/// not an address is then an [`io::Error`] of the kind `InvalidInput`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// Stdin and stdout of this process.
    Stdio,
    /// A TCP port, with any framing: `tcp://`, or `tls://` if the place is secure.
    Tcp(Place),
    /// A Unix socket, with any framing.
    Unix(PathBuf),
    /// A named pipe of Windows, with any framing: the name after `\\.\pipe\`.
    Pipe(String),
    /// A WebSocket: `ws://`, or `wss://` if the place is secure.
    WebSocket(Place, Target),
    /// HTTP, where each message is the body of a POST: `http://`, or `https://` if the place is secure.
    Http(Place, Target),
    /// A service, by its name, behind the NATS broker at this place: `nats://`. A [`Connector`](super::Connector) and
    /// a [`Listener`](super::Listener) refuse it; the package `duet-rpc-nats` connects to it.
    Nats(Place, String),
}

/// A host and a port, and whether its connections use TLS.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// A name, or an IP address without brackets.
    pub host: String,
    /// The port. Port 0 takes a free port.
    pub port: u16,
    /// The encryption of the connections.
    pub security: Security,
}

/// The encryption of connections to a place. It belongs to the place, so every transport over TCP supports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Security {
    /// No encryption.
    #[default]
    Plain,
    /// TLS.
    Tls,
}

/// The part of a URL after host and port: a path, which begins with a slash, and an optional query. It contains no
/// line end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target(String);

/// The reason why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError(String);

impl Address {
    /// Returns `true` if its connections use TLS: `tls://`, `wss://` and `https://`.
    pub fn is_secure(&self) -> bool {
        match self {
            Address::Stdio | Address::Unix(_) | Address::Pipe(_) => false,
            Address::Tcp(place)
            | Address::WebSocket(place, _)
            | Address::Http(place, _)
            | Address::Nats(place, _) => place.is_secure(),
        }
    }

    /// Returns `true` if only programs on this machine can reach it. For a host name, this asks the system for the
    /// addresses of the name, which may take a moment and may fail.
    pub fn is_local(&self) -> io::Result<bool> {
        match self {
            Address::Stdio | Address::Unix(_) | Address::Pipe(_) => Ok(true),
            Address::Tcp(place)
            | Address::WebSocket(place, _)
            | Address::Http(place, _)
            | Address::Nats(place, _) => {
                let mut addresses = (place.host.as_str(), place.port).to_socket_addrs()?;
                Ok(addresses.all(|address| address.ip().is_loopback()))
            }
        }
    }

    /// The same address with another port.
    #[must_use]
    pub(crate) fn at_port(&self, port: u16) -> Address {
        let mut address = self.clone();
        match &mut address {
            Address::Tcp(place)
            | Address::WebSocket(place, _)
            | Address::Http(place, _)
            | Address::Nats(place, _) => place.port = port,
            Address::Stdio | Address::Unix(_) | Address::Pipe(_) => {}
        }
        address
    }
}

impl Place {
    /// A place without TLS.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Place { host: host.into(), port, security: Security::Plain }
    }

    /// The same place with this protection.
    #[must_use]
    pub fn with(self, security: Security) -> Self {
        Place { security, ..self }
    }

    /// Returns `true` if its connections use TLS.
    pub fn is_secure(&self) -> bool {
        self.security == Security::Tls
    }
}

impl Security {
    /// The port of WebSocket and HTTP if the URL has none.
    fn web_port(self) -> u16 {
        match self {
            Security::Plain => 80,
            Security::Tls => 443,
        }
    }

    /// One of two schemes.
    fn choose(self, plain: &'static str, secure: &'static str) -> &'static str {
        match self {
            Security::Plain => plain,
            Security::Tls => secure,
        }
    }
}

impl Target {
    /// The path, and the query if there is one.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path alone.
    pub fn path(&self) -> &str {
        self.0.split('?').next().unwrap_or_default()
    }
}

impl Default for Target {
    fn default() -> Self {
        Target("/".to_owned())
    }
}

impl TryFrom<&str> for Address {
    type Error = AddressError;

    fn try_from(url: &str) -> Result<Self, AddressError> {
        url.parse()
    }
}

impl TryFrom<&String> for Address {
    type Error = AddressError;

    fn try_from(url: &String) -> Result<Self, AddressError> {
        url.parse()
    }
}

impl TryFrom<String> for Address {
    type Error = AddressError;

    fn try_from(url: String) -> Result<Self, AddressError> {
        url.parse()
    }
}

impl From<&Address> for Address {
    fn from(address: &Address) -> Self {
        address.clone()
    }
}

/// Converts an argument into an address: an [`Address`], or its text.
pub(super) fn resolve(
    address: impl TryInto<Address, Error: Into<AddressError>>,
) -> io::Result<Address> {
    address.try_into().map_err(|error| error.into().into())
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Stdio => f.write_str("stdio:"),
            Address::Tcp(place) => {
                write!(f, "{}://{place}", place.security.choose("tcp", "tls"))
            }
            Address::WebSocket(place, target) => {
                write!(f, "{}://{place}{}", place.security.choose("ws", "wss"), target.0)
            }
            Address::Http(place, target) => {
                write!(f, "{}://{place}{}", place.security.choose("http", "https"), target.0)
            }
            Address::Nats(place, service) => write!(f, "nats://{place}/{service}"),
            Address::Unix(path) => {
                f.write_str("unix://")?;
                write_escaped(f, path.as_os_str().as_encoded_bytes())
            }
            Address::Pipe(name) => {
                f.write_str("pipe://")?;
                write_escaped(f, name.as_bytes())
            }
        }
    }
}

/// Writes a path or a name, with other than plain characters as in `%20`.
fn write_escaped(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|&byte| match byte {
        b'%' | b'?' | b'#' => write!(f, "%{byte:02X}"),
        byte if byte.is_ascii_graphic() => f.write_char(byte.into()),
        byte => write!(f, "%{byte:02X}"),
    })
}

impl fmt::Display for Place {
    /// Host and port.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AddressError {}

impl From<AddressError> for io::Error {
    /// An error of the kind `InvalidInput`, with the same text.
    fn from(error: AddressError) -> Self {
        io::Error::new(io::ErrorKind::InvalidInput, error)
    }
}

impl From<Infallible> for AddressError {
    /// For the conversion of an address into itself, which cannot fail.
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{Address, AddressError, resolve};

    #[test]
    fn t2_address_is_accepted_as_a_value_or_as_text() {
        fn check(given: impl TryInto<Address, Error: Into<AddressError>>) {
            let address = resolve(given).expect("an address");
            assert_eq!(address.to_string(), "tcp://127.0.0.1:0");
        }
        let text = "tcp://127.0.0.1:0";
        let address: Address = text.parse().expect("an address");
        check(text);
        let owned = text.to_owned();
        check(&owned);
        check(owned);
        check(&address);
        check(address);
        let error = resolve("127.0.0.1").expect_err("no scheme");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), "it has no scheme: such as tcp://127.0.0.1:4000");
    }

    #[test]
    fn t2_an_address_is_printed_as_a_url_that_reads_the_same() {
        for (url, printed) in [
            ("stdio:", "stdio:"),
            ("tcp://127.0.0.1:0", "tcp://127.0.0.1:0"),
            ("TCP://localhost:65535/", "tcp://localhost:65535"),
            ("tcp://[::1]:7", "tcp://[::1]:7"),
            ("unix:///tmp/a.sock", "unix:///tmp/a.sock"),
            ("unix:/tmp/a.sock", "unix:///tmp/a.sock"),
            ("unix:///tmp/a%20b%25", "unix:///tmp/a%20b%25"),
            ("unix:///tmp/ü b", "unix:///tmp/%C3%BC%20b"),
            ("ws://127.0.0.1:0", "ws://127.0.0.1:0/"),
            ("ws://127.0.0.1", "ws://127.0.0.1:80/"),
            ("ws://[::1]:9/rpc", "ws://[::1]:9/rpc"),
            ("ws://h:1?q=1", "ws://h:1/?q=1"),
            ("http://localhost:8080/a/b?c=d", "http://localhost:8080/a/b?c=d"),
            ("tls://127.0.0.1:0", "tls://127.0.0.1:0"),
            ("TLS://[::1]:7/", "tls://[::1]:7"),
            ("wss://example.com", "wss://example.com:443/"),
            ("wss://h:80/rpc?q", "wss://h:80/rpc?q"),
            ("https://example.com/a", "https://example.com:443/a"),
            ("HTTPS://localhost:8443", "https://localhost:8443/"),
            ("nats://127.0.0.1:4222/math", "nats://127.0.0.1:4222/math"),
            ("NATS://[::1]/a_b-c", "nats://[::1]:4222/a_b-c"),
        ] {
            let address: Address = url.parse().expect(url);
            assert_eq!(address.to_string(), printed, "{url}");
            assert_eq!(printed.parse(), Ok(address), "{printed}");
        }
    }
}
