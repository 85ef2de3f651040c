//! Addresses of servers, as URLs (T2).

use std::convert::Infallible;
use std::fmt::{self, Write};
use std::io;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a server.
///
/// | URL | |
/// |---|---|
/// | `stdio:` | stdin and stdout of this process |
/// | `tcp://127.0.0.1:4000` | TCP; port 0 takes a free port |
/// | `tls://127.0.0.1:4000` | TCP with TLS |
/// | `unix:///run/app.sock` | a Unix socket |
/// | `ws://127.0.0.1:4000/path`, `wss://…` | WebSocket, WebSocket with TLS |
/// | `http://127.0.0.1:4000/path`, `https://…` | HTTP, HTTP with TLS |
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
    /// A WebSocket: `ws://`, or `wss://` if the place is secure.
    WebSocket(Place, Target),
    /// HTTP, where each message is the body of a POST: `http://`, or `https://` if the place is secure.
    Http(Place, Target),
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
            Address::Stdio | Address::Unix(_) => false,
            Address::Tcp(place) | Address::WebSocket(place, _) | Address::Http(place, _) => {
                place.is_secure()
            }
        }
    }

    /// Returns `true` if only programs on this machine can reach it. For a host name, this asks the system for the
    /// addresses of the name, which may take a moment and may fail.
    pub fn is_local(&self) -> io::Result<bool> {
        match self {
            Address::Stdio | Address::Unix(_) => Ok(true),
            Address::Tcp(place) | Address::WebSocket(place, _) | Address::Http(place, _) => {
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
            Address::Tcp(place) | Address::WebSocket(place, _) | Address::Http(place, _) => {
                place.port = port;
            }
            Address::Stdio | Address::Unix(_) => {}
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

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(url: &str) -> Result<Self, AddressError> {
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(error("it has no scheme", "such as tcp://127.0.0.1:4000"));
        };
        let scheme = scheme.to_ascii_lowercase();
        let security = match &*scheme {
            "tls" | "wss" | "https" => Security::Tls,
            _ => Security::Plain,
        };
        match &*scheme {
            "stdio" if rest.is_empty() || rest == "//" => Ok(Address::Stdio),
            "stdio" => Err(error("nothing can follow it", "it is just stdio:")),
            "tcp" | "tls" => match split(rest)? {
                (place, "" | "/") => Ok(Address::Tcp(parse_place(place, None)?.with(security))),
                _ => Err(error("TCP has no path", "such as tcp://127.0.0.1:4000")),
            },
            "unix" => parse_path(rest).map(Address::Unix),
            "ws" | "wss" => {
                let (place, target) = parse_web(rest, security)?;
                Ok(Address::WebSocket(place, target))
            }
            "http" | "https" => {
                let (place, target) = parse_web(rest, security)?;
                Ok(Address::Http(place, target))
            }
            _ => Err(error(
                "its scheme is not known",
                "it begins with stdio:, tcp://, tls://, unix://, ws://, wss://, http:// or https://",
            )),
        }
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

/// Splits a URL after its scheme into the authority and the rest.
fn split(rest: &str) -> Result<(&str, &str), AddressError> {
    let Some(rest) = rest.strip_prefix("//") else {
        return Err(error("two slashes are missing", "such as tcp://127.0.0.1:4000"));
    };
    Ok(rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len())))
}

fn parse_web(rest: &str, security: Security) -> Result<(Place, Target), AddressError> {
    let (place, target) = split(rest)?;
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    if !target.bytes().all(is_plain) {
        return Err(error(
            "its path has characters that a URL cannot have",
            "write such characters as %20",
        ));
    }
    let slash = if target.starts_with('/') { "" } else { "/" };
    let place = parse_place(place, Some(security.web_port()))?.with(security);
    Ok((place, Target(format!("{slash}{target}"))))
}

fn parse_place(text: &str, default_port: Option<u16>) -> Result<Place, AddressError> {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (host, port) = match bracketed {
        Some((host, port)) => {
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(error("its host is not an IPv6 address", "such as [::1]"));
            }
            let port = match port {
                "" => None,
                port => Some(port.strip_prefix(':').unwrap_or("?")),
            };
            (host, port)
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if host.is_empty() || (bracketed.is_none() && !host.bytes().all(is_name)) {
        return Err(error("its host is neither a name nor an IP address", "such as 127.0.0.1"));
    }
    let port = match port {
        None => default_port.ok_or_else(|| error("it has no port", "such as :4000, or :0"))?,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            port.parse().map_err(|_| {
                error("its port is not a number up to 65535", "0 takes one that is free")
            })?
        }
        Some(_) => return Err(error("its port is not a number", "such as :4000, or :0")),
    };
    Ok(Place::new(host, port))
}

/// The path of a Unix socket.
fn parse_path(rest: &str) -> Result<PathBuf, AddressError> {
    let path = match rest.strip_prefix("//") {
        Some(path) if path.starts_with('/') => path,
        Some(_) => return Err(error("its path is not absolute", "such as unix:///run/app.sock")),
        None if rest.starts_with('/') => rest,
        None => return Err(error("its path is not absolute", "such as unix:///run/app.sock")),
    };
    let bytes = decode(path)
        .ok_or_else(|| error("its path has a % without a hexadecimal number", "write it as %25"))?;
    if bytes.contains(&0) || bytes.ends_with(b"/") {
        return Err(error("its path is not valid for a socket", "unix:///run/app.sock"));
    }
    path_of(bytes)
        .ok_or_else(|| error("its path is not valid on this system", "use plain characters"))
}

#[cfg(unix)]
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;

    Some(std::ffi::OsString::from_vec(bytes).into())
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

/// Decodes percent escapes, such as `%20`.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(bytes)
}

fn error(what: &str, hint: &str) -> AddressError {
    AddressError(format!("{what}: {hint}"))
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
            Address::Unix(path) => {
                f.write_str("unix://")?;
                for &byte in path.as_os_str().as_encoded_bytes() {
                    match byte {
                        b'%' | b'?' | b'#' => write!(f, "%{byte:02X}")?,
                        byte if byte.is_ascii_graphic() => f.write_char(byte.into())?,
                        byte => write!(f, "%{byte:02X}")?,
                    }
                }
                Ok(())
            }
        }
    }
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
        ] {
            let address: Address = url.parse().expect(url);
            assert_eq!(address.to_string(), printed, "{url}");
            assert_eq!(printed.parse(), Ok(address), "{printed}");
        }
    }

    #[test]
    fn t2_error_for_an_invalid_address_gives_the_reason() {
        for (text, why) in [
            ("", "it has no scheme"),
            ("127.0.0.1:4000", "its scheme is not known"),
            ("ftp://127.0.0.1:4000", "its scheme is not known"),
            ("tls://127.0.0.1", "it has no port"),
            ("tls://127.0.0.1:7/x", "TCP has no path"),
            ("wss:127.0.0.1:7", "two slashes are missing"),
            ("https://a b/", "its host is neither a name"),
            ("stdio:x", "nothing can follow it"),
            ("tcp:127.0.0.1:4000", "two slashes are missing"),
            ("tcp://127.0.0.1", "it has no port"),
            ("tcp://127.0.0.1:", "its port is not a number"),
            ("tcp://127.0.0.1:65536", "its port is not a number up to 65535"),
            ("tcp://127.0.0.1:+1", "its port is not a number"),
            ("tcp://127.0.0.1:1:2", "its port is not a number"),
            ("tcp://:4000", "its host is neither a name"),
            ("tcp://user@host:1", "its host is neither a name"),
            ("tcp://[::1:7", "its host is neither a name"),
            ("tcp://[::g]:7", "its host is not an IPv6 address"),
            ("tcp://[::1]7", "its port is not a number"),
            ("tcp://a b:7", "its host is neither a name"),
            ("tcp://127.0.0.1:7/x", "TCP has no path"),
            ("unix://tmp/x", "its path is not absolute"),
            ("unix:x", "its path is not absolute"),
            ("unix:///", "its path is not valid"),
            ("unix:///tmp/%00", "its path is not valid"),
            ("unix:///tmp/%+1", "its path has a %"),
            ("unix:///tmp/%2", "its path has a %"),
            ("ws://127.0.0.1:1/a b", "its path has characters"),
            ("http://127.0.0.1:1/\r\nX: y", "its path has characters"),
            ("http://127.0.0.1:1/#here", "its path has characters"),
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }
}
