//! The access policy of HTTP and WebSocket. It is pure and private to the library, so this crate compiles its files
//! under the same name.

#[path = "../../crates/duet-rpc/src/net/web"]
#[allow(dead_code, unused_imports, reason = "only the library uses the rest")]
mod web {
    pub(super) mod access;
    mod headers;
    mod status;
}

use std::net::{Ipv4Addr, Ipv6Addr};

use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Version};
use web::access::AccessPolicy;

const LINES: usize = 20;
const TOKEN: &str = "sesame";

/// Reads the bytes as the head of a request, as a plain reader does, and lets the access policy decide.
pub fn check(bytes: &[u8]) {
    let mut lines = [httparse::EMPTY_HEADER; LINES];
    let mut request = httparse::Request::new(&mut lines);
    if !request.parse(bytes).is_ok_and(|status| status.is_complete()) {
        return;
    }
    let Some(parts) = parts_of(&request) else { return };
    for is_secure in [false, true] {
        let _ = AccessPolicy::default().check(&parts, is_secure);
        if AccessPolicy::default().token(TOKEN).check(&parts, is_secure).is_ok() {
            check_accepted(&parts, is_secure);
        }
    }
}

fn parts_of(request: &httparse::Request<'_, '_>) -> Option<Parts> {
    let version = if request.version? == 1 { Version::HTTP_11 } else { Version::HTTP_10 };
    let mut parts = Request::builder().method(request.method?).uri(request.path?).version(version);
    for line in request.headers.iter() {
        let name = HeaderName::from_bytes(line.name.as_bytes()).ok()?;
        parts = parts.header(name, HeaderValue::from_bytes(line.value).ok()?);
    }
    Some(parts.body(()).ok()?.into_parts().0)
}

/// Checks that an accepted request names this machine once, does not come from a foreign page, and carries the
/// token.
fn check_accepted(parts: &Parts, is_secure: bool) {
    let all = |name: &str| -> Vec<String> {
        let values = parts.headers.get_all(name).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned()).collect()
    };
    let host = all("host");
    assert!(host.len() <= 1 && (parts.version != Version::HTTP_11 || host.len() == 1));
    let authority = parts.uri.authority().map(|it| it.as_str());
    for name in host.iter().map(String::as_str).chain(authority) {
        assert!(is_this_machine(&name.to_ascii_lowercase()), "{name:?} was let in");
    }
    if let [origin] = &all("origin")[..] {
        let scheme = if is_secure { "https" } else { "http" };
        let server = host.first().map(String::as_str).or(authority).expect("a server");
        let own = origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://"));
        let name = |it: &str| it.split(':').next().map(str::to_ascii_lowercase);
        assert!(own.is_some_and(|own| name(own) == name(server)), "{origin:?} was let in");
    }
    let shown = ["authorization", "sec-websocket-protocol", "cookie"].map(all).concat();
    assert!(shown.iter().any(|value| value.contains(TOKEN)), "there is no token");
}

fn is_this_machine(name: &str) -> bool {
    if let Some((inside, _)) = name.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return inside.parse::<Ipv6Addr>().is_ok_and(|it| it.to_canonical().is_loopback());
    }
    let (name, _port) = name.split_once(':').unwrap_or((name, ""));
    let is_address = name.parse::<Ipv4Addr>().is_ok_and(|it| it.is_loopback());
    is_address || name.eq_ignore_ascii_case("localhost")
}
