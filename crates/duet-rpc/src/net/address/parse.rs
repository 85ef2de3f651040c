//! Parser of addresses. Each error says what is wrong, and shows a correct example.

use std::path::PathBuf;
use std::str::FromStr;

use crate::sys::files::path_from_bytes;

use super::{Address, AddressError, Place, Security, Target};

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
            "pipe" => parse_pipe(rest).map(Address::Pipe),
            "ws" | "wss" => {
                let (place, target) = parse_web(rest, security)?;
                Ok(Address::WebSocket(place, target))
            }
            "http" | "https" => {
                let (place, target) = parse_web(rest, security)?;
                Ok(Address::Http(place, target))
            }
            "nats" => parse_service(rest),
            _ => Err(error(
                "its scheme is not known",
                "it begins with stdio:, tcp://, tls://, unix://, pipe://, ws://, wss://, http://, https:// or nats://",
            )),
        }
    }
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

/// A service behind a broker.
fn parse_service(rest: &str) -> Result<Address, AddressError> {
    let (place, target) = split(rest)?;
    let service = target.strip_prefix('/').unwrap_or_default();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if service.is_empty() {
        return Err(error("it names no service", "such as nats://127.0.0.1:4222/math"));
    }
    if !service.bytes().all(is_name) {
        return Err(error(
            "its path is not the name of a service",
            "such as nats://127.0.0.1:4222/math, with letters, digits, - and _",
        ));
    }
    if place.contains('@') {
        return Err(error(
            "it has credentials, which other users of the machine could read",
            "set NATS_USER and NATS_PASSWORD, or NATS_CREDS",
        ));
    }
    Ok(Address::Nats(parse_place(place, Some(4222))?, service.to_owned()))
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
    path_from_bytes(bytes)
        .ok_or_else(|| error("its path is not valid on this system", "use plain characters"))
}

/// The name of a named pipe. The system allows 256 characters with its `\\.\pipe\`, and no backslash.
fn parse_pipe(rest: &str) -> Result<String, AddressError> {
    const LONGEST: usize = 247;
    let Some(name) = rest.strip_prefix("//") else {
        return Err(error("two slashes are missing", "such as pipe://app"));
    };
    let name = decode(name)
        .ok_or_else(|| error("its name has a % without a hexadecimal number", "write it as %25"))?;
    let name = String::from_utf8(name).ok().filter(|name| {
        let is_plain = |c: char| c != '\\' && c != '/' && !c.is_control();
        !name.is_empty() && name.chars().count() <= LONGEST && name.chars().all(is_plain)
    });
    name.ok_or_else(|| error("its name is not valid for a pipe", "such as pipe://app"))
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

#[cfg(test)]
mod tests {
    use super::Address;

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
            ("nats://127.0.0.1:4222/", "it names no service"),
            ("nats://127.0.0.1:4222/a.b", "its path is not the name of a service"),
            ("nats://ada:secret@127.0.0.1/math", "it has credentials"),
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
            ("pipe:app", "two slashes are missing"),
            ("pipe://", "its name is not valid"),
            (r"pipe://\\.\pipe\app", "its name is not valid"),
            ("pipe://a/b", "its name is not valid"),
            ("pipe://a%00", "its name is not valid"),
            ("pipe://a%2", "its name has a %"),
            ("ws://127.0.0.1:1/a b", "its path has characters"),
            ("http://127.0.0.1:1/\r\nX: y", "its path has characters"),
            ("http://127.0.0.1:1/#here", "its path has characters"),
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }
}
