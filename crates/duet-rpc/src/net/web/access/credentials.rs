//! Tokens: the accepted tokens, and the tokens of a request.
//!
//! | place | form | counts |
//! |---|---|---|
//! | `Authorization` | `Bearer TOKEN` | always |
//! | `Sec-WebSocket-Protocol` | `bearer.TOKEN`, the token itself or in base64url | always; browsers cannot set other headers |
//! | `Cookie` | `duet_rpc_token=TOKEN` | only in requests of this server's own pages: browsers add cookies by themselves |
//! | query | `token=TOKEN`, percent-encoded | where the policy allows it |

use std::borrow::Cow;
use std::hint::black_box;
use std::sync::Arc;

use super::request::AccessHead;
use crate::remote::{Identity, TokenMark};

/// The prefix of a subprotocol that carries a token.
pub(super) const BEARER: &str = "bearer.";

/// The cookie that carries a token.
const COOKIE: &str = "duet_rpc_token";

/// The query parameter that carries a token.
const PARAMETER: &str = "token";

/// An accepted token, and the identity of its bearer.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) secret: String,
    pub(super) identity: Option<Arc<Identity>>,
    /// Tells apart the bearers of tokens without a name.
    pub(super) mark: Option<TokenMark>,
}

impl Token {
    pub(super) fn new(secret: impl Into<String>) -> Self {
        let secret = secret.into();
        let mark = Some(TokenMark::new(&secret));
        Token { secret, identity: None, mark }
    }

    pub(super) fn named(name: impl Into<String>, secret: impl Into<String>) -> Self {
        let identity = Some(Arc::new(Identity::token(name)));
        Token { secret: secret.into(), identity, mark: None }
    }
}

/// A token of a request, not yet compared with the accepted tokens.
pub(super) struct Credential<'a> {
    text: Cow<'a, [u8]>,
    /// The text decoded from base64url, where the place allows only some characters.
    decoded: Option<Vec<u8>>,
}

impl<'a> Credential<'a> {
    /// All tokens of a request. `is_own` means that a page of this server sent the request.
    pub(super) fn all(
        head: &AccessHead<'a>,
        is_own: bool,
        allows_query: bool,
    ) -> Vec<Credential<'a>> {
        let header = head.authorization.and_then(|value| value.split_once(' '));
        let header = header.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer"));
        let header = header.map(|(_, token)| Credential::plain(token.trim()));
        let offered = head.offered_subprotocols().filter_map(|it| it.strip_prefix(BEARER));
        let offered = offered.map(Credential::encoded);
        let cookies = head.cookies(COOKIE).filter(|_| is_own).map(Credential::plain);
        let query = head.query_values(PARAMETER).filter(|_| allows_query);
        let query = query.map(|value| Credential { text: unescape(value), decoded: None });
        header.into_iter().chain(offered).chain(cookies).chain(query).collect()
    }

    fn plain(text: &'a str) -> Self {
        Credential { text: text.as_bytes().into(), decoded: None }
    }

    fn encoded(text: &'a str) -> Self {
        Credential { text: text.as_bytes().into(), decoded: decode(text) }
    }

    /// The position of the token among the accepted ones; the token itself wins over its decoded form. All are
    /// compared, even after a match: the time must not reveal which one matched.
    pub(super) fn position<'t>(&self, accepted: impl Iterator<Item = &'t Token>) -> Option<usize> {
        let decoded = self.decoded.as_deref().unwrap_or_default();
        let (mut literal, mut of_decoded) = (None, None);
        for (position, token) in accepted.enumerate() {
            let secret = token.secret.as_bytes();
            let position = |fits: bool| (fits & !secret.is_empty()).then_some(position);
            literal = literal.or(position(is_same(&self.text, secret)));
            of_decoded = of_decoded.or(position(is_same(decoded, secret)));
        }
        literal.or(of_decoded)
    }
}

#[cfg(feature = "websocket")]
fn decode(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Without WebSocket no client offers a subprotocol.
#[cfg(not(feature = "websocket"))]
fn decode(_: &str) -> Option<Vec<u8>> {
    None
}

/// Decodes `%2F` and the like. A plus sign stays a plus sign: it could stand for a space, but no token contains a
/// space.
fn unescape(text: &str) -> Cow<'_, [u8]> {
    if !text.contains('%') {
        return text.as_bytes().into();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let digit = |at: usize| behind.get(at).and_then(|&it| char::from(it).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.extend(u8::try_from(high * 16 + low));
                rest = behind.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    bytes.into()
}

/// Compares in a time that depends only on the lengths, so that nobody can measure how many characters of a wrong
/// token are right.
fn is_same(one: &[u8], two: &[u8]) -> bool {
    if one.len() != two.len() {
        return false;
    }
    let difference = one.iter().zip(two).fold(0, |sum, (one, two)| black_box(sum | (one ^ two)));
    difference == 0
}
