//! Access policy: Host, Origin and token of a request.

use std::fmt;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use http::StatusCode;

use super::head::HttpRequest;
use super::status::HttpRefusal;
use crate::remote::Identity;

/// Decides which requests a WebSocket or HTTP server accepts.
///
/// A web page can make a browser send requests to servers on the same machine. So the `Host` of a request
/// has to name this server: `localhost`, an address of the machine, or an allowed name. A request with an
/// `Origin` comes from a web page: the page has to come from this server or from an allowed origin. If
/// there are tokens, the request has to show one.
///
/// ```
/// use duet_rpc::transport::AccessPolicy;
///
/// let access = AccessPolicy::new("127.0.0.1".parse().unwrap())
///     .named_token("ci", "k3qhx7")
///     .allow_host("devbox")
///     .allow_origin("https://editor.example");
/// assert!(!format!("{access:?}").contains("k3qhx7"));
/// ```
#[derive(Clone)]
pub struct AccessPolicy {
    bound: IpAddr,
    tokens: Vec<Token>,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// An accepted token, and the identity of its bearer.
#[derive(Clone)]
struct Token {
    secret: String,
    identity: Option<Arc<Identity>>,
}

const HOST: HttpRefusal = HttpRefusal::new(
    StatusCode::FORBIDDEN,
    "The Host header names another server. Use localhost or an address of this one, or have the \
     name allowed where the server is started.",
);
const ORIGIN: HttpRefusal = HttpRefusal::new(
    StatusCode::FORBIDDEN,
    "Web pages of this origin may not talk to this server, unless the origin is allowed where the \
     server is started.",
);
const TOKEN: HttpRefusal = HttpRefusal::new(
    StatusCode::UNAUTHORIZED,
    "A token is needed. Send it in the header Authorization: Bearer TOKEN.",
)
.with_header("WWW-Authenticate: Bearer\r\n");
const MALFORMED: HttpRefusal = HttpRefusal::malformed("The Host header is malformed.");

impl AccessPolicy {
    /// The policy of a server that is bound to this address.
    pub fn new(bound: IpAddr) -> Self {
        AccessPolicy { bound, tokens: Vec::new(), hosts: Vec::new(), origins: Vec::new() }
    }

    /// The same policy for a server that is bound to this address.
    pub(in crate::net) fn bound_to(self, bound: IpAddr) -> Self {
        AccessPolicy { bound, ..self }
    }

    /// Accepts only requests with this token, or with a [named](AccessPolicy::named_token) one. An empty
    /// token accepts no request. There is one token without a name: a second call replaces it.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.tokens.retain(|token| token.identity.is_some());
        self.tokens.push(Token { secret: token.into(), identity: None });
        self
    }

    /// Accepts requests with this token too. The name is their identity: handlers get it from
    /// [`Context::identity`](crate::Context::identity). Call it again for further tokens: one for each
    /// user, or two of the same name while a token is replaced. An empty token accepts no request.
    ///
    /// ```
    /// use duet_rpc::{Context, Identity, Router, transport::AccessPolicy};
    ///
    /// let access = AccessPolicy::default().named_token("ada", "k3qhx7").named_token("bob", "p9vw2m");
    /// let router = Router::new().method("whoami", async |cx: Context| {
    ///     let name = cx.identity().and_then(Identity::token_name);
    ///     name.map(str::to_owned)
    /// });
    /// # drop((access, router));
    /// ```
    #[must_use]
    pub fn named_token(mut self, name: impl Into<String>, token: impl Into<String>) -> Self {
        let identity = Some(Arc::new(Identity::token(name)));
        self.tokens.push(Token { secret: token.into(), identity });
        self
    }

    /// Accepts requests to this host too: a name or an address. The port does not matter.
    #[must_use]
    pub fn allow_host(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        let is_bare = name.parse::<Ipv6Addr>().is_ok();
        self.hosts.push(if is_bare { format!("[{name}]") } else { name });
        self
    }

    /// Accepts requests from web pages of this origin, such as `https://editor.example`.
    #[must_use]
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        let mut origin = origin.into();
        origin.truncate(origin.trim_end_matches('/').len());
        self.origins.push(origin);
        self
    }

    /// Returns `true` if web pages of another origin may use this server.
    pub(in crate::net) fn has_origins(&self) -> bool {
        !self.origins.is_empty()
    }

    /// Checks that the request is for this server, and that its origin is allowed.
    pub(in crate::net) fn check_origin(
        &self,
        request: &HttpRequest<'_>,
    ) -> Result<(), HttpRefusal> {
        for name in [request.authority, request.headers.host].into_iter().flatten() {
            self.check_host(name)?;
        }
        let is_own = |origin: &str| {
            // The scheme is seven bytes of ASCII.
            origin.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"))
                && request.headers.host.zip(origin.get(7..)).is_some_and(|(host, origin)| {
                    !host.is_empty() && origin.eq_ignore_ascii_case(host)
                })
        };
        match request.headers.origin {
            None => Ok(()),
            Some(_) if self.allowed_origin(request).is_some() => Ok(()),
            Some(origin) if is_own(origin) => Ok(()),
            Some(_) => Err(ORIGIN),
        }
    }

    /// Checks that the request shows a token, if one is needed, and returns the identity of that token.
    pub(in crate::net) fn check_token(
        &self,
        request: &HttpRequest<'_>,
    ) -> Result<Option<Arc<Identity>>, HttpRefusal> {
        if self.tokens.is_empty() {
            return Ok(None);
        }
        let given = request.headers.authorization.and_then(|value| value.split_once(' '));
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer"));
        let given = given.map_or("", |(_, given)| given.trim()).as_bytes();
        // All tokens are compared, even after a match: the time must not reveal which one matched.
        let fits =
            |token: &&Token| is_same(given, token.secret.as_bytes()) & !token.secret.is_empty();
        let found = self.tokens.iter().filter(fits).fold(None, |found, it| found.or(Some(it)));
        found.map(|token| token.identity.clone()).ok_or(TOKEN)
    }

    /// The origin of the request, if it is allowed explicitly.
    pub(in crate::net) fn allowed_origin<'a>(&self, request: &HttpRequest<'a>) -> Option<&'a str> {
        let origin =
            request.headers.origin.filter(|origin| !origin.eq_ignore_ascii_case("null"))?;
        let is_allowed = |allowed: &String| allowed.eq_ignore_ascii_case(origin);
        self.origins.iter().any(is_allowed).then_some(origin)
    }

    fn check_host(&self, authority: &str) -> Result<(), HttpRefusal> {
        let host = RequestHost::read(authority)?;
        let is_named = match host {
            RequestHost::Address(address) => {
                let (address, bound) = (address.to_canonical(), self.bound.to_canonical());
                address.is_loopback() || address == bound || !bound.is_loopback()
            }
            RequestHost::Name(name) => name.eq_ignore_ascii_case("localhost"),
        };
        let is_allowed = |allowed: &String| RequestHost::read(allowed).is_ok_and(|it| it.is(host));
        if is_named || self.hosts.iter().any(is_allowed) { Ok(()) } else { Err(HOST) }
    }
}

impl Default for AccessPolicy {
    /// The policy of a server that only programs on this machine can reach.
    fn default() -> Self {
        AccessPolicy::new(Ipv4Addr::LOCALHOST.into())
    }
}

impl fmt::Debug for AccessPolicy {
    /// Shows the number of tokens, and not the tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessPolicy")
            .field("bound", &self.bound)
            .field("tokens", &self.tokens.len())
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .finish()
    }
}

/// The host in a `Host` header.
#[derive(Clone, Copy)]
enum RequestHost<'a> {
    Address(IpAddr),
    Name(&'a str),
}

impl<'a> RequestHost<'a> {
    /// Parses `name`, `1.2.3.4` or `[::1]`, with or without a port, which does not matter.
    fn read(authority: &'a str) -> Result<Self, HttpRefusal> {
        let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
            let (inside, port) = rest.split_once(']').ok_or(MALFORMED)?;
            let address: Ipv6Addr = inside.parse().map_err(|_| MALFORMED)?;
            (RequestHost::Address(address.into()), port)
        } else {
            let end = authority.find(':').unwrap_or(authority.len());
            let (name, port) = authority.split_at(end);
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if !name.bytes().all(is_plain) {
                return Err(MALFORMED);
            }
            let address =
                name.parse().map(|address: Ipv4Addr| RequestHost::Address(address.into()));
            (address.unwrap_or(RequestHost::Name(name)), port)
        };
        let is_port = |port: &str| port.len() <= 5 && port.bytes().all(|it| it.is_ascii_digit());
        if port.is_empty() || port.strip_prefix(':').is_some_and(is_port) {
            Ok(host)
        } else {
            Err(MALFORMED)
        }
    }

    fn is(self, other: RequestHost<'_>) -> bool {
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

/// Compares in a time that depends only on the lengths, so that nobody can measure how much of a wrong
/// token is right.
fn is_same(one: &[u8], two: &[u8]) -> bool {
    if one.len() != two.len() {
        return false;
    }
    let difference = one.iter().zip(two).fold(0, |sum, (one, two)| black_box(sum | (one ^ two)));
    difference == 0
}
