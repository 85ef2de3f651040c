//! Access policy: Host, Origin, token and subprotocol of a request.
//!
//! | file | contents |
//! |---|---|
//! | `mod` | the policy, and the order of its checks |
//! | `request` | the parts of a request head that it reads |
//! | `host` | the server that a request names |
//! | `origin` | origins of web pages, and patterns for them |
//! | `credentials` | the tokens of a request, and their comparison |
//! | `token_file` | accepted tokens in a file, which is read again |

mod credentials;
mod host;
mod origin;
mod request;
#[cfg(all(test, feature = "http", feature = "websocket"))]
mod tests;
mod token_file;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

use http::header::{ACCESS_CONTROL_REQUEST_METHOD, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};

use self::credentials::{BEARER, Credential, Token};
use self::host::{Authority, RequestHost};
pub use self::origin::{OriginPattern, OriginPatternError};
use self::request::AccessHead;
pub use self::token_file::{TokenFile, TokenFileError};
use super::headers::only;
use super::status::HttpRefusal;
use crate::remote::{Identity, TokenMark};

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
///
/// # Where a client puts its token
///
/// | place | who uses it |
/// |---|---|
/// | `Authorization: Bearer TOKEN` | programs, and `fetch` in web pages |
/// | the WebSocket subprotocol `bearer.TOKEN` | web pages: `new WebSocket(url, ["bearer.TOKEN", "mcp"])` |
/// | the cookie `duet_rpc_token` | pages of this server, over HTTP and WebSocket |
/// | the query parameter `token` | clients that can set nothing else, if the policy [allows it](Self::allow_query_token) |
///
/// A subprotocol cannot contain characters such as `/`, `=` and `:`. A token with such characters goes there in
/// base64url without padding. The cookie counts only if the `Origin` is the server's own: a browser adds cookies to the
/// requests of other pages, too. Set it with `SameSite=Strict`. A request that shows two different tokens is refused.
///
/// # WebSocket subprotocols
///
/// The server answers with the first subprotocol that the client offers and the server [speaks](Self::subprotocol),
/// and with none if there is no such subprotocol. RFC 6455 lets a client continue without one, and Python's
/// `websockets` does. Browsers and the package `ws` of Node close the connection if they have offered subprotocols
/// and the server chose none. The server never answers with `bearer.TOKEN`, because responses end up in logs. So a
/// web page has to offer a second subprotocol beside its token.
#[derive(Clone)]
pub struct AccessPolicy {
    bound: IpAddr,
    tokens: Vec<Token>,
    token_file: Option<TokenFile>,
    allows_query_token: bool,
    hosts: Vec<String>,
    origins: Vec<OriginPattern>,
    subprotocols: Vec<String>,
}

/// A request that the policy accepts.
#[derive(Debug)]
pub(in crate::net) struct Admitted {
    /// The identity of the token that it shows; `None` for a token without a name, or if none is needed.
    pub(in crate::net) identity: Option<Arc<Identity>>,
    /// Tells apart the bearers of tokens without a name.
    pub(in crate::net) mark: Option<TokenMark>,
    /// The value of `Sec-WebSocket-Protocol` in the answer to a handshake.
    #[cfg_attr(not(feature = "websocket"), expect(dead_code, reason = "of WebSocket alone"))]
    pub(in crate::net) subprotocol: Option<HeaderValue>,
    /// The value of `Access-Control-Allow-Origin` in the response: a page of this origin may read it.
    pub(in crate::net) origin: Option<HeaderValue>,
    /// `true` for a preflight: a browser asks whether a page may send a request. A preflight has no token and no
    /// identity: answer it, and serve nothing.
    pub(in crate::net) is_preflight: bool,
}

/// The page that sent a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Page {
    /// No page: a program sent it.
    Absent,
    Own,
    Allowed,
}

/// The subprotocol of a policy that lists none: the one that MCP clients require.
const DEFAULT_SUBPROTOCOL: &str = "mcp";

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
    "A valid token is needed. Send it in the header Authorization: Bearer TOKEN.",
)
.with_headers(&[("www-authenticate", "Bearer")]);
const TOKENS: HttpRefusal =
    HttpRefusal::malformed("The request shows more than one token. Send it once, in one place.");

impl AccessPolicy {
    /// The policy of a server that is bound to this address.
    pub fn new(bound: IpAddr) -> Self {
        AccessPolicy {
            bound,
            tokens: Vec::new(),
            token_file: None,
            allows_query_token: false,
            hosts: Vec::new(),
            origins: Vec::new(),
            subprotocols: Vec::new(),
        }
    }

    /// The same policy for a server that is bound to this address.
    pub(in crate::net) fn bound_to(self, bound: IpAddr) -> Self {
        AccessPolicy { bound, ..self }
    }

    /// Accepts only requests with this token, or with a [named](AccessPolicy::named_token) token. An empty token
    /// accepts no request. There is one token without a name: a second call replaces it.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.tokens.retain(|token| token.identity.is_some());
        self.tokens.push(Token::new(token));
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
        self.tokens.push(Token::named(name, token));
        self
    }

    /// Accepts requests with a token of this file too. A second call replaces the file.
    #[must_use]
    pub fn token_file(mut self, file: TokenFile) -> Self {
        self.token_file = Some(file);
        self
    }

    /// Accepts a token in the query parameter `token` too, for clients that can set neither a header nor a
    /// subprotocol. This library never logs it, but proxies and browsers keep whole URLs in logs and histories.
    #[must_use]
    pub fn allow_query_token(mut self) -> Self {
        self.allows_query_token = true;
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

    /// Accepts requests from web pages of this origin, such as `https://editor.example`, or of the origins that fit
    /// a pattern, such as `https://*.example.com`: [`OriginPattern`] has the rules. A text that is neither allows no
    /// page, and is logged; parse it as an `OriginPattern` first to get the error.
    #[must_use]
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        match origin.into().parse() {
            Ok(pattern) => self.origins.push(pattern),
            Err(error) => tracing::warn!(%error, "allowed origin ignored"),
        }
        self
    }

    /// Adds a WebSocket subprotocol that this server speaks. If you add none, the server speaks `mcp`, which the
    /// clients of MCP require.
    #[must_use]
    pub fn subprotocol(mut self, name: impl Into<String>) -> Self {
        self.subprotocols.push(name.into());
        self
    }

    /// Returns `true` if web pages of another origin may use this server.
    pub(in crate::net) fn has_origins(&self) -> bool {
        !self.origins.is_empty()
    }

    /// Checks a request. `is_secure` means that it came over TLS.
    ///
    /// Host and origin are checked before the token, so that a foreign page learns nothing about the token.
    pub(in crate::net) fn check(
        &self,
        parts: &Parts,
        is_secure: bool,
    ) -> Result<Admitted, HttpRefusal> {
        let head = AccessHead::from_parts(parts, is_secure)?;
        let page = self.check_page(&head)?;
        let origin = head.origin.and_then(|origin| self.to_cors_origin(origin));
        // A page cannot show a token before the browser knows that it may.
        let is_preflight = parts.method == Method::OPTIONS
            && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
            && page == Page::Allowed;
        let (identity, mark) = match is_preflight {
            true => (None, None),
            false => self.find_identity(&head, page)?,
        };
        let subprotocol = self.choose_subprotocol(&head);
        Ok(Admitted { identity, mark, subprotocol, origin, is_preflight })
    }

    /// The value of `Access-Control-Allow-Origin` for the response to a request, even if the request is refused:
    /// `None` unless the origin is allowed by name or pattern.
    pub(in crate::net) fn cors_origin(&self, parts: &Parts) -> Option<HeaderValue> {
        self.to_cors_origin(only(&parts.headers, &http::header::ORIGIN)?.trim())
    }

    fn to_cors_origin(&self, origin: &str) -> Option<HeaderValue> {
        self.allows_origin(origin).then(|| HeaderValue::from_str(origin).ok())?
    }

    fn allows_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|pattern| pattern.allows(origin))
    }

    /// Checks the server that the request names, and the page that sent it.
    fn check_page(&self, head: &AccessHead<'_>) -> Result<Page, HttpRefusal> {
        for name in head.servers() {
            self.check_host(name)?;
        }
        match head.origin {
            None => Ok(Page::Absent),
            Some(origin) if is_own(origin, head) => Ok(Page::Own),
            Some(origin) if self.allows_origin(origin) => Ok(Page::Allowed),
            Some(_) => Err(ORIGIN),
        }
    }

    fn check_host(&self, authority: &str) -> Result<(), HttpRefusal> {
        let host = Authority::read(authority)?.host;
        let is_named = match host {
            RequestHost::Address(address) => {
                let (address, bound) = (address.to_canonical(), self.bound.to_canonical());
                address.is_loopback() || address == bound || !bound.is_loopback()
            }
            RequestHost::Name(name) => name.eq_ignore_ascii_case("localhost"),
        };
        let is_allowed =
            |allowed: &String| Authority::read(allowed).is_ok_and(|it| it.host.is(host));
        if is_named || self.hosts.iter().any(is_allowed) { Ok(()) } else { Err(HOST) }
    }

    /// The identity of the token in the request. If the request shows several tokens, they must be the same.
    fn find_identity(
        &self,
        head: &AccessHead<'_>,
        page: Page,
    ) -> Result<(Option<Arc<Identity>>, Option<TokenMark>), HttpRefusal> {
        let from_file = self.token_file.as_ref().map(|file| file.tokens(Instant::now()));
        if self.tokens.is_empty() && from_file.is_none() {
            return Ok((None, None));
        }
        let accepted =
            || self.tokens.iter().chain(from_file.iter().flat_map(|tokens| tokens.iter()));
        let shown = Credential::all(head, page == Page::Own, self.allows_query_token);
        let mut found = shown.iter().map(|credential| credential.position(accepted()));
        let first = found.next().flatten();
        if found.any(|other| other != first) {
            return Err(TOKENS);
        }
        let token = first.and_then(|position| accepted().nth(position)).ok_or(TOKEN)?;
        Ok((token.identity.clone(), token.mark))
    }

    fn choose_subprotocol(&self, head: &AccessHead<'_>) -> Option<HeaderValue> {
        let is_spoken = |name: &&str| match self.subprotocols.is_empty() {
            true => *name == DEFAULT_SUBPROTOCOL,
            // A name with this prefix may contain a token.
            false => !name.starts_with(BEARER) && self.subprotocols.iter().any(|it| it == name),
        };
        let chosen = head.offered_subprotocols().find(is_spoken)?;
        HeaderValue::from_str(chosen).ok()
    }
}

/// Returns `true` if the origin is that of this server's own pages: it has the scheme of the connection, and the
/// server that the request names.
fn is_own(origin: &str, head: &AccessHead<'_>) -> bool {
    let scheme = if head.is_secure { "https://" } else { "http://" };
    let Some((found, server)) = origin.split_at_checked(scheme.len()) else { return false };
    found.eq_ignore_ascii_case(scheme)
        && head.server().is_some_and(|it| !it.is_empty() && it.eq_ignore_ascii_case(server))
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
            .field("token_file", &self.token_file)
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .field("subprotocols", &self.subprotocols)
            .finish_non_exhaustive()
    }
}
