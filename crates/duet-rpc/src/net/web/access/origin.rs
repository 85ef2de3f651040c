//! Origins of web pages, and patterns for them.

use std::error::Error;
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use super::host::is_host_byte;

/// The origins of web pages that may use a server: one origin, or all origins that fit a pattern.
///
/// | text | origins |
/// |---|---|
/// | `https://editor.example`, `http://localhost:3000` | this one; scheme, host and port have to be the same |
/// | `https://*.example.com` | all hosts below `example.com`, at any depth, without `example.com` itself; only the default port |
/// | `https://pr-*.example.com` | hosts below `example.com`, at any depth, that begin with `pr-` |
/// | `http://localhost:*` | this host at every port |
/// | `vscode-webview://*` | every host of this scheme, without a port; not for `http` and `https`, which are all websites |
/// | `file://` | pages from files, in programs that send this origin |
/// | `null` | pages that do not reveal their origin: files in most browsers, but also sandboxed frames of every website |
///
/// There is at most one `*`. In a host it stands for one or more letters, digits, `-`, `_` or `.`; it is in the first
/// label, and a dot follows it unless it is the whole host. So it never reaches the scheme, the end of the host or the
/// port. Upper and lower case are the same.
///
/// ```
/// use duet_rpc::transport::OriginPattern;
///
/// let pattern: OriginPattern = "https://*.example.com".parse().expect("a pattern");
/// assert!(pattern.allows("https://docs.example.com"));
/// assert!(!pattern.allows("https://example.com.evil.example"));
/// assert!("https://*example.com".parse::<OriginPattern>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginPattern(Pattern);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Null,
    Server { scheme: String, host: HostPattern, port: PortPattern },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    Exact(String),
    Any,
    /// The suffix begins with a dot.
    Below {
        prefix: String,
        suffix: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortPattern {
    /// `None` is the default port of the scheme.
    Exact(Option<u16>),
    Any,
}

impl OriginPattern {
    /// Returns `true` if the pattern allows this origin.
    pub fn allows(&self, origin: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        let Pattern::Server { scheme, host, port } = &self.0 else { return origin == "null" };
        let Some(origin) = Origin::split(&origin) else { return false };
        let Ok(found) = origin.read_port() else { return false };
        origin.scheme == scheme
            && origin.has_valid_host()
            && host.allows(origin.host)
            && (*port == PortPattern::Any || *port == PortPattern::Exact(found))
    }
}

const EVERY_WEBSITE: OriginPatternError =
    OriginPatternError("it would allow every website: name the scheme and the host");

impl HostPattern {
    fn read(text: &str) -> Result<Self, OriginPatternError> {
        match text.split_once('*') {
            None => Ok(HostPattern::Exact(text.to_owned())),
            Some(("", "")) => Ok(HostPattern::Any),
            Some((prefix, suffix)) => {
                let is_name = |name: &str| !name.is_empty() && name.bytes().all(is_host_byte);
                let is_below = suffix.strip_prefix('.').is_some_and(|name| {
                    is_name(name) && name.split('.').all(|label| !label.is_empty())
                });
                if !is_below || prefix.contains('.') || !prefix.bytes().all(is_host_byte) {
                    return Err(OriginPatternError(
                        "in a host, `*` has to be in the first label, and a dot and a name follow it, as in \
                         https://*.example.com",
                    ));
                }
                let (prefix, suffix) = (prefix.to_owned(), suffix.to_owned());
                Ok(HostPattern::Below { prefix, suffix })
            }
        }
    }

    fn allows(&self, host: &str) -> bool {
        let is_name =
            |host: &str| host.split('.').all(|it| !it.is_empty() && it.bytes().all(is_host_byte));
        match self {
            HostPattern::Exact(exact) => host == exact,
            HostPattern::Any => is_name(host),
            HostPattern::Below { prefix, suffix } => {
                let inside = host.strip_prefix(&**prefix).and_then(|it| it.strip_suffix(&**suffix));
                inside.is_some_and(|inside| !inside.is_empty()) && is_name(host)
            }
        }
    }
}

impl FromStr for OriginPattern {
    type Err = OriginPatternError;

    fn from_str(text: &str) -> Result<Self, OriginPatternError> {
        let text = text.to_ascii_lowercase();
        if text == "null" {
            return Ok(OriginPattern(Pattern::Null));
        }
        if text == "*" {
            return Err(EVERY_WEBSITE);
        }
        let origin = Origin::split(&text).ok_or(OriginPatternError(
            "an origin has a scheme and a host, as in https://editor.example",
        ))?;
        // People copy a slash at the end from the address bar.
        let origin =
            Origin { rest: origin.rest.strip_suffix('/').unwrap_or(origin.rest), ..origin }
                .with_host();
        if text.matches('*').count() > 1 {
            return Err(OriginPatternError("a pattern has one `*`"));
        }
        if origin.rest.contains('/') {
            return Err(OriginPatternError(
                "an origin has no path: write the scheme, host and port",
            ));
        }
        let port = match origin.port {
            Some("*") => PortPattern::Any,
            _ => PortPattern::Exact(origin.read_port()?),
        };
        let host = HostPattern::read(origin.host)?;
        if host == HostPattern::Any && matches!(origin.scheme, "http" | "https") {
            return Err(EVERY_WEBSITE);
        }
        if matches!(host, HostPattern::Exact(_)) && !origin.has_valid_host() {
            return Err(OriginPatternError(
                "the host has other characters than letters, digits, `-`, `_` and `.`; write it as the browser \
                 sends it",
            ));
        }
        Ok(OriginPattern(Pattern::Server { scheme: origin.scheme.to_owned(), host, port }))
    }
}

/// An origin in lower case, split into its parts.
#[derive(Clone, Copy)]
struct Origin<'a> {
    scheme: &'a str,
    /// Everything after the scheme.
    rest: &'a str,
    host: &'a str,
    /// The text after the colon.
    port: Option<&'a str>,
}

impl<'a> Origin<'a> {
    fn split(text: &'a str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let is_scheme = scheme.starts_with(|it: char| it.is_ascii_alphabetic())
            && scheme.bytes().all(|it| it.is_ascii_alphanumeric() || b"+-.".contains(&it));
        is_scheme.then(|| Origin { scheme, rest, host: rest, port: None }.with_host())
    }

    /// Splits host and port again. The colons of an IPv6 address are inside brackets.
    fn with_host(self) -> Self {
        let behind = self.rest.rfind(']').map_or(0, |end| end + 1);
        let colon = self.rest.get(behind..).and_then(|it| it.find(':')).map(|at| at + behind);
        let (host, port) = match colon.and_then(|at| self.rest.split_at_checked(at)) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => (self.rest, None),
        };
        Origin { host, port, ..self }
    }

    /// The port; `None` if it is the default port of the scheme.
    fn read_port(&self) -> Result<Option<u16>, OriginPatternError> {
        let Some(digits) = self.port else { return Ok(None) };
        let error = OriginPatternError("the port is not a number from 1 to 65535, nor `*`");
        if digits.is_empty() || !digits.bytes().all(|it| it.is_ascii_digit()) {
            return Err(error);
        }
        match (self.scheme, digits.parse().map_err(|_| error)?) {
            (_, 0) => Err(error),
            ("http", 80) | ("https", 443) => Ok(None),
            (_, port) => Ok(Some(port)),
        }
    }

    fn has_valid_host(&self) -> bool {
        let inside = self.host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        match inside {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            // A file has no host.
            None if self.host.is_empty() => self.scheme == "file" && self.port.is_none(),
            None => self.host.bytes().all(is_host_byte),
        }
    }
}

impl fmt::Display for OriginPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pattern::Server { scheme, host, port } = &self.0 else { return f.write_str("null") };
        write!(f, "{scheme}://")?;
        match host {
            HostPattern::Exact(host) => f.write_str(host)?,
            HostPattern::Any => f.write_str("*")?,
            HostPattern::Below { prefix, suffix } => write!(f, "{prefix}*{suffix}")?,
        }
        match port {
            PortPattern::Exact(None) => Ok(()),
            PortPattern::Exact(Some(port)) => write!(f, ":{port}"),
            PortPattern::Any => f.write_str(":*"),
        }
    }
}

/// The text is neither an origin nor a pattern of origins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginPatternError(&'static str);

impl fmt::Display for OriginPatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an origin: {}", self.0)
    }
}

impl Error for OriginPatternError {}

#[cfg(test)]
#[path = "origin_tests.rs"]
mod tests;
