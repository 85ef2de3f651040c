//! Host and port of a request, as `Host` or the target of a request name them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::net::web::status::HttpRefusal;

const MALFORMED: HttpRefusal = HttpRefusal::malformed("The Host header is malformed.");

/// `name`, `1.2.3.4` or `[::1]`, with or without a port.
#[derive(Clone, Copy)]
pub(super) struct Authority<'a> {
    pub(super) host: RequestHost<'a>,
    /// Up to five digits. The number may be too large for a port.
    port: Option<u32>,
}

/// The host without its port.
#[derive(Clone, Copy)]
pub(super) enum RequestHost<'a> {
    Address(IpAddr),
    Name(&'a str),
}

impl<'a> Authority<'a> {
    /// Parses strictly: refuses a user before the host, and every character that no host has.
    pub(super) fn read(text: &'a str) -> Result<Self, HttpRefusal> {
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (inside, port) = rest.split_once(']').ok_or(MALFORMED)?;
            let address: Ipv6Addr = inside.parse().map_err(|_| MALFORMED)?;
            (RequestHost::Address(address.into()), port)
        } else {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            if !name.bytes().all(is_host_byte) {
                return Err(MALFORMED);
            }
            let address =
                name.parse().map(|address: Ipv4Addr| RequestHost::Address(address.into()));
            (address.unwrap_or(RequestHost::Name(name)), port)
        };
        Ok(Authority { host, port: read_port(port).ok_or(MALFORMED)? })
    }

    pub(super) fn is_same(&self, other: &Authority<'_>, default_port: u32) -> bool {
        let [one, two] = [self.port, other.port].map(|port| port.unwrap_or(default_port));
        self.host.is(other.host) && one == two
    }
}

impl RequestHost<'_> {
    pub(super) fn is(self, other: RequestHost<'_>) -> bool {
        match (self, other) {
            (RequestHost::Address(one), RequestHost::Address(two)) => {
                one.to_canonical() == two.to_canonical()
            }
            (RequestHost::Name(one), RequestHost::Name(two)) => {
                !one.is_empty() && one.eq_ignore_ascii_case(two)
            }
            _ => false,
        }
    }
}

/// Returns `true` for the characters of host names and of IPv4 addresses.
pub(super) fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._".contains(&byte)
}

/// The port after a host, with its colon. Without digits there is none; `None` if it is not a port.
fn read_port(text: &str) -> Option<Option<u32>> {
    let Some(digits) = text.strip_prefix(':') else { return text.is_empty().then_some(None) };
    let is_port = digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_port.then(|| digits.parse().ok())
}
