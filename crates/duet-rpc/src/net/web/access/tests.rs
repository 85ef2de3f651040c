//! The access policy, as rows of data.

use std::net::IpAddr;

use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Version};

use super::{AccessPolicy, Admitted};
use crate::net::web::status::HttpRefusal;
use crate::remote::Identity;

/// The parts of a head without a body.
fn parts(head: &str) -> Parts {
    let mut lines = head.trim_end_matches("\r\n").split("\r\n");
    let mut words = lines.next().expect("a first line").split(' ');
    let mut next = || words.next().expect("three words");
    let mut request = Request::builder().method(next()).uri(next()).version(match next() {
        "HTTP/1.0" => Version::HTTP_10,
        "HTTP/1.1" => Version::HTTP_11,
        "HTTP/2" => Version::HTTP_2,
        version => panic!("{version}"),
    });
    for line in lines {
        let (name, value) = line.split_once(':').expect("a header");
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        request = request
            .header(name, HeaderValue::from_bytes(value.trim().as_bytes()).expect("a value"));
    }
    request.body(()).expect("a request").into_parts().0
}

fn check(access: &AccessPolicy, head: &str) -> Result<Admitted, HttpRefusal> {
    access.check(&parts(head), false)
}

/// The status of the refusal of a request with these headers, or 0.
fn knock(access: &AccessPolicy, headers: &str) -> u16 {
    let checked = check(access, &format!("POST / HTTP/1.1\r\n{headers}\r\n"));
    checked.err().map_or(0, |refusal| refusal.status.as_u16())
}

/// A policy for a loopback address.
fn local() -> AccessPolicy {
    AccessPolicy::default()
}

fn access(bound: &str) -> AccessPolicy {
    AccessPolicy::new(bound.parse::<IpAddr>().expect("an address"))
}

#[test]
fn t3_only_requests_to_this_server_pass() {
    let rows = [
        ("localhost", 0),
        ("LocalHost:8080", 0),
        ("localhost:", 0),
        ("127.0.0.1:8080", 0),
        ("127.8.9.1", 0),
        ("[::1]:8080", 0),
        ("[::1]", 0),
        ("[::ffff:127.0.0.1]", 0),
        ("", 403),
        (":80", 403),
        ("localhost.", 403),
        ("a.localhost", 403),
        ("localhost.evil.example", 403),
        ("evil.example:8080", 403),
        ("127.0.0.1.evil.example", 403),
        ("127.1", 403),
        ("2130706433", 403),
        ("0x7f.0.0.1", 403),
        ("0177.0.0.1", 403),
        ("0.0.0.0", 403),
        ("192.168.0.1", 403),
        ("[::]", 403),
        ("user@localhost", 400),
        ("localhost@evil.example", 400),
        ("localhost/evil", 400),
        ("localhost, evil", 400),
        ("local host", 400),
        ("localhost:80:80", 400),
        ("localhost:http", 400),
        ("localhost:123456", 400),
        ("[::1", 400),
        ("[::1]x", 400),
        ("[localhost]", 400),
        ("::1", 400),
        ("localh\u{f6}st", 400),
    ];
    for bound in ["127.0.0.1", "::1"] {
        for (host, status) in rows {
            assert_eq!(knock(&access(bound), &format!("Host: {host}\r\n")), status, "{host}");
        }
    }
}

#[test]
fn t3_a_target_that_is_a_url_has_to_name_the_host() {
    let rows = [
        ("POST http://localhost/ HTTP/1.1", "localhost", 0),
        ("POST http://LOCALHOST:80/ HTTP/1.1", "localhost", 0),
        ("POST http://localhost:81/ HTTP/1.1", "localhost:81", 0),
        ("POST http://localhost:81/ HTTP/1.1", "localhost", 400),
        ("POST http://127.0.0.1/ HTTP/1.1", "localhost", 400),
        ("POST http://evil.example/ HTTP/1.1", "localhost", 400),
        ("POST http://localhost/ HTTP/1.1", "evil.example", 400),
        ("POST http://evil.example/ HTTP/1.1", "evil.example", 403),
        ("POST http://user@localhost/ HTTP/1.1", "localhost", 400),
        ("POST http://user@localhost/ HTTP/1.1", "user@localhost", 400),
    ];
    for (line, host, status) in rows {
        let checked = check(&local(), &format!("{line}\r\nHost: {host}\r\n\r\n"));
        let found = checked.err().map_or(0, |refusal| refusal.status.as_u16());
        assert_eq!(found, status, "{line} {host}");
    }
    // An HTTP/1.0 client need not name the server; no browser speaks HTTP/1.0.
    assert!(check(&local(), "POST / HTTP/1.0\r\n\r\n").is_ok());
    assert!(check(&local(), "POST / HTTP/1.0\r\nOrigin: http://\r\n\r\n").is_err());
}

#[test]
fn t3_doubtful_heads_are_refused_with_a_reason() {
    let rows = [
        ("POST / HTTP/1.1\r\n\r\n", "one Host header"),
        ("POST /a HTTP/2\r\n\r\n", "one Host header"),
        ("POST http://localhost/ HTTP/1.1\r\n\r\n", "one Host header"),
        ("POST / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", "stands twice"),
        ("POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: a\r\norigin: a\r\n\r\n", "stands twice"),
        (
            "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: a\r\nAuthorization: a\r\n\r\n",
            "stands twice",
        ),
        ("POST / HTTP/1.1\r\nHost: a@localhost\r\n\r\n", "Host header is malformed"),
        ("POST ftp://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", "target"),
        ("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n", "target"),
        ("POST http://localhost/ HTTP/2\r\nHost: localhost:1\r\n\r\n", "different servers"),
    ];
    for (head, reason) in rows {
        let refusal = local().check(&parts(head), false).expect_err("refused");
        assert!(refusal.status == 400 && refusal.why.contains(reason), "{head:?} {refusal:?}");
    }
    let mut opaque = parts("POST / HTTP/1.1\r\n\r\n");
    opaque.headers.insert("host", HeaderValue::from_bytes(b"\xff").expect("opaque"));
    assert!(local().check(&opaque, false).expect_err("refused").why.contains("not text"));
    // HTTP/2 names the server in the target.
    for (head, is_ok) in [
        ("POST http://localhost:8080/ HTTP/2\r\n\r\n", true),
        ("POST https://localhost/ HTTP/2\r\nHost: localhost\r\n\r\n", true),
        ("POST http://evil.example/ HTTP/2\r\n\r\n", false),
        ("POST http://localhost:8080/ HTTP/2\r\nOrigin: http://localhost:8080\r\n\r\n", true),
        ("POST http://localhost:8080/ HTTP/2\r\nOrigin: http://localhost:8081\r\n\r\n", false),
    ] {
        assert_eq!(local().check(&parts(head), false).is_ok(), is_ok, "{head:?}");
    }
}

#[test]
fn t3_beyond_loopback_any_address_and_the_names_that_were_allowed_pass() {
    for bound in ["0.0.0.0", "::", "192.168.0.1", "fd00::1"] {
        let access = access(bound).allow_host("DevBox").allow_host("devbox.example:80");
        for host in
            ["localhost", "127.0.0.1", "10.0.0.1:80", "[fd00::2]", "devbox:8080", "Devbox.Example"]
        {
            assert_eq!(knock(&access, &format!("Host: {host}\r\n")), 0, "{bound} {host}");
        }
        for host in ["evil.example", "devbox.evil.example", "", "devbox."] {
            assert_eq!(knock(&access, &format!("Host: {host}\r\n")), 403, "{bound} {host}");
        }
    }
    let allowed = access("127.0.0.1").allow_host("10.0.0.1").allow_host("fd00::1").allow_host("");
    for (host, status) in [("10.0.0.1", 0), ("[fd00::1]", 0), ("10.0.0.2", 403), ("", 403)] {
        assert_eq!(knock(&allowed, &format!("Host: {host}\r\n")), status, "{host}");
    }
}

#[test]
fn t3_only_pages_of_this_server_and_of_allowed_origins_pass() {
    let access = access("127.0.0.1")
        .allow_origin("https://Editor.example/")
        .allow_origin("vscode-webview://abc")
        .allow_origin("no origin");
    let rows = [
        ("http://localhost:8080", 0),
        ("HTTP://LOCALHOST:8080", 0),
        ("https://editor.example", 0),
        ("vscode-webview://abc", 0),
        ("https://localhost:8080", 403),
        ("http://localhost", 403),
        ("http://localhost:80801", 403),
        ("http://localhost:3000", 403),
        ("http://127.0.0.1:8080", 403),
        ("http://evil.example", 403),
        ("http://editor.example", 403),
        ("https://editor.example.evil", 403),
        ("https://editor.example:444", 403),
        ("null", 403),
        ("NULL", 403),
        ("", 403),
        ("*", 403),
        ("http://", 403),
    ];
    for (origin, status) in rows {
        let headers = format!("Host: localhost:8080\r\nOrigin: {origin}\r\n");
        assert_eq!(knock(&access, &headers), status, "{origin}");
    }
    assert_eq!(knock(&access, "Host: localhost:8080\r\n"), 0, "no page");
}

#[test]
fn t3_only_requests_with_a_token_pass() {
    let guarded = access("127.0.0.1").token("s3cret");
    let rows = [
        ("Authorization: Bearer s3cret\r\n", 0),
        ("authorization: bearer   s3cret  \r\n", 0),
        ("Authorization: BEARER s3cret\r\n", 0),
        ("", 401),
        ("Authorization:\r\n", 401),
        ("Authorization: Bearer\r\n", 401),
        ("Authorization: Bearer \r\n", 401),
        ("Authorization: Bearer s3cre\r\n", 401),
        ("Authorization: Bearer s3creT\r\n", 401),
        ("Authorization: Bearer s3crets\r\n", 401),
        ("Authorization: Bearer s3cret s3cret\r\n", 401),
        ("Authorization: Basic s3cret\r\n", 401),
        ("Authorization: s3cret\r\n", 401),
        ("X-Authorization: Bearer s3cret\r\n", 401),
    ];
    for (header, status) in rows {
        assert_eq!(knock(&guarded, &format!("Host: localhost\r\n{header}")), status, "{header:?}");
    }
    // The server is checked before the token, so that a page learns nothing about the token.
    assert_eq!(knock(&guarded, "Host: evil.example\r\nAuthorization: Bearer x\r\n"), 403);
    let empty = access("127.0.0.1").token("");
    assert_eq!(knock(&empty, "Host: localhost\r\nAuthorization: Bearer \r\n"), 401);
    assert!(!format!("{guarded:?}").contains("s3cret"));
}

#[test]
fn t3_each_token_has_the_name_that_it_was_given() {
    let both = || access("127.0.0.1").named_token("ada", "s3cret").named_token("bob", "0ther");
    let twice = both().named_token("eve", "s3cret").named_token("nobody", "");
    let [ada, bob] = ["ada", "bob"].map(|name| Ok(Some(name.to_owned())));
    let rows = [
        (both(), "s3cret", ada.clone()),
        (both(), "0ther", bob.clone()),
        (both(), "", Err(401)),
        (both(), "ada", Err(401)),
        (twice.clone(), "s3cret", ada),
        (twice, "", Err(401)),
        (both().token("unnamed"), "unnamed", Ok(None)),
        (both().token("unnamed"), "0ther", bob),
        (both().token("first").token("second"), "first", Err(401)),
        (access("127.0.0.1"), "anything", Ok(None)),
    ];
    for (access, token, expected) in rows {
        let head =
            format!("POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
        assert_eq!(name(check(&access, &head)), expected, "{access:?} {token}");
    }
}

/// The name of the token that a request shows, or the status of its refusal.
fn name(checked: Result<Admitted, HttpRefusal>) -> Result<Option<String>, u16> {
    let identity = checked.map_err(|refusal| refusal.status.as_u16())?.identity;
    Ok(identity.as_deref().and_then(Identity::token_name).map(str::to_owned))
}

#[test]
fn t3_a_token_may_be_a_subprotocol_a_cookie_or_a_parameter() {
    let access = || {
        local().named_token("ada", "s3cret").named_token("eve", "a/b=").named_token("bob", "0ther")
    };
    let own = "Origin: http://localhost\r\n";
    let (ada, eve, none) = (Ok(Some("ada")), Ok(Some("eve")), Err(401));
    let rows = [
        ("/", "Sec-WebSocket-Protocol: bearer.s3cret, mcp\r\n".to_owned(), ada),
        ("/", "Sec-WebSocket-Protocol: mcp,bearer.s3cret\r\n".to_owned(), ada),
        ("/", "Sec-WebSocket-Protocol: bearer.YS9iPQ\r\n".to_owned(), eve),
        ("/", "Sec-WebSocket-Protocol: bearer.YS9iPQ==\r\n".to_owned(), none),
        ("/", "Sec-WebSocket-Protocol: bearer.czNjcmV0\r\n".to_owned(), ada),
        ("/", "Sec-WebSocket-Protocol: bearer.\r\n".to_owned(), none),
        ("/", "Sec-WebSocket-Protocol: bearer, s3cret\r\n".to_owned(), none),
        ("/", "Sec-WebSocket-Protocol: Bearer.s3cret\r\n".to_owned(), none),
        ("/", format!("{own}Cookie: a=b; duet_rpc_token=s3cret; c\r\n"), ada),
        ("/", format!("{own}Cookie: duet_rpc_token=a/b=\r\n"), eve),
        ("/", format!("{own}Cookie: duet_rpc_token2=s3cret\r\n"), none),
        ("/", format!("{own}Cookie: DUET_RPC_TOKEN=s3cret\r\n"), none),
        // A browser adds cookies to the requests of any page.
        ("/", "Cookie: duet_rpc_token=s3cret\r\n".to_owned(), none),
        ("/", "Origin: https://app.example\r\nCookie: duet_rpc_token=s3cret\r\n".to_owned(), none),
        ("/?token=s3cret", String::new(), none),
        // The same token in two places is one token.
        (
            "/",
            "Authorization: Bearer a/b=\r\nSec-WebSocket-Protocol: bearer.YS9iPQ, mcp\r\n"
                .to_owned(),
            eve,
        ),
        ("/", format!("{own}Cookie: duet_rpc_token=s3cret; duet_rpc_token=s3cret\r\n"), ada),
        // Two tokens are refused, even if one of them is right.
        ("/", "Sec-WebSocket-Protocol: bearer.s3cret, bearer.0ther\r\n".to_owned(), Err(400)),
        (
            "/",
            "Authorization: Bearer s3cret\r\nSec-WebSocket-Protocol: bearer.wrong\r\n".to_owned(),
            Err(400),
        ),
        (
            "/",
            format!("{own}Authorization: Bearer x\r\nCookie: duet_rpc_token=s3cret\r\n"),
            Err(400),
        ),
        // Another scheme is not a token.
        (
            "/",
            "Authorization: Basic x\r\nSec-WebSocket-Protocol: bearer.s3cret\r\n".to_owned(),
            ada,
        ),
    ];
    let from = |access: &AccessPolicy, target: &str, headers: &str| {
        name(check(access, &format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")))
    };
    let allowing = access().allow_origin("https://app.example");
    for (target, headers, expected) in rows {
        let expected = expected.map(|name| name.map(str::to_owned));
        assert_eq!(from(&allowing, target, &headers), expected, "{target} {headers:?}");
    }
    let with_query = access().allow_query_token();
    let rows = [
        ("/?token=s3cret", ada),
        ("/?a=b&token=a%2Fb%3D&c", eve),
        ("/?token=a/b%3d", eve),
        ("/?token=", none),
        ("/?token", none),
        ("/?token=%", none),
        ("/?token=%f", none),
        ("/?token=s3cret%", none),
        ("/?Token=s3cret", none),
        ("/?token=s3cret&token=s3cret", ada),
        ("/?token=s3cret&token=0ther", Err(400)),
    ];
    for (target, expected) in rows {
        let expected = expected.map(|name| name.map(str::to_owned));
        assert_eq!(from(&with_query, target, ""), expected, "{target}");
    }
}

#[test]
fn t3_the_first_known_subprotocol_is_chosen_and_never_a_token() {
    let listing = || local().subprotocol("v2.acme").subprotocol("v1.acme");
    let rows = [
        (local(), "mcp", Some("mcp")),
        (local(), "bearer.s3cret, mcp", Some("mcp")),
        (local(), "chat, mcp", Some("mcp")),
        (local(), "bearer.s3cret", None),
        (local(), "bearer", None),
        (local(), "chat", None),
        (local(), "MCP", None),
        (local(), "", None),
        (listing(), "v1.acme, v2.acme", Some("v1.acme")),
        (listing(), "mcp", None),
        (listing().subprotocol("mcp"), "mcp", Some("mcp")),
        (local().subprotocol("bearer.s3cret"), "bearer.s3cret", None),
    ];
    for (access, offered, chosen) in rows {
        let head = format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nSec-WebSocket-Protocol: {offered}\r\n\r\n"
        );
        let admitted = check(&access, &head).expect("accepted");
        assert_eq!(
            admitted.subprotocol.as_ref().map(|it| it.to_str().unwrap()),
            chosen,
            "{offered}"
        );
    }
    let lines = "GET / HTTP/1.1\r\nHost: localhost\r\nSec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: mcp\r\n\r\n";
    assert_eq!(check(&local(), lines).expect("accepted").subprotocol.unwrap(), "mcp");
}

#[test]
fn t3_over_tls_the_own_origin_is_https() {
    for (origin, is_secure, passes) in [
        ("https://localhost:8443", true, true),
        ("http://localhost:8443", true, false),
        ("https://localhost:8443", false, false),
        ("https://localhost", true, false),
        ("https://", true, false),
        ("https:/", true, false),
    ] {
        let head = format!("POST / HTTP/1.1\r\nHost: localhost:8443\r\nOrigin: {origin}\r\n\r\n");
        let checked = local().check(&parts(&head), is_secure);
        assert_eq!(checked.is_ok(), passes, "{origin} {is_secure}");
    }
}

#[test]
fn t3_a_preflight_shows_no_token_and_an_allowed_page_may_read_the_answer() {
    let access = local()
        .named_token("ada", "s3cret")
        .allow_origin("https://app.example")
        .allow_origin("null");
    let method = "Access-Control-Request-Method: POST\r\n";
    let token = "Authorization: Bearer s3cret\r\n";
    // The line, headers, and the outcome: is it a preflight, which origin may read, or which status refuses.
    let rows = [
        (
            "OPTIONS",
            format!("Origin: https://app.example\r\n{method}"),
            Ok((true, Some("https://app.example"))),
        ),
        ("OPTIONS", format!("Origin: null\r\n{method}"), Ok((true, Some("null")))),
        ("OPTIONS", "Origin: https://app.example\r\n".to_owned(), Err(401)),
        ("OPTIONS", format!("Origin: http://localhost\r\n{method}"), Err(401)),
        ("OPTIONS", format!("Origin: https://evil.example\r\n{method}"), Err(403)),
        ("OPTIONS", method.to_owned(), Err(401)),
        ("POST", format!("Origin: https://app.example\r\n{method}"), Err(401)),
        (
            "POST",
            format!("Origin: https://APP.example\r\n{token}"),
            Ok((false, Some("https://APP.example"))),
        ),
        ("POST", format!("Origin: http://localhost\r\n{token}"), Ok((false, None))),
        ("POST", token.to_owned(), Ok((false, None))),
    ];
    for (line, headers, expected) in rows {
        let head = format!("{line} / HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        let checked = check(&access, &head);
        let found = checked.as_ref().map_err(|refusal| refusal.status.as_u16()).map(|it| {
            assert_eq!(it.identity.is_none(), it.is_preflight);
            (it.is_preflight, it.origin.as_ref().map(|it| it.to_str().expect("text")))
        });
        assert_eq!(found, expected, "{head:?}");
    }
    // The page learns the reason for the refusal.
    let refused =
        parts("POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n\r\n");
    assert_eq!(access.cors_origin(&refused).expect("allowed"), "https://app.example");
}

/// The token of one user may be the encoded token of another.
#[test]
fn t3_a_token_wins_over_the_decoded_form_of_another() {
    let access = local().named_token("ada", "s3cret").named_token("bob", "czNjcmV0");
    for (offered, name) in [("bearer.s3cret", "ada"), ("bearer.czNjcmV0", "bob")] {
        let head = format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nSec-WebSocket-Protocol: {offered}\r\n\r\n"
        );
        let admitted = check(&access, &head).expect("it has a token");
        let identity = admitted.identity.expect("it has a name");
        assert_eq!(identity.token_name(), Some(name), "{offered}");
    }
}

#[test]
fn t3_tokens_without_a_name_are_told_apart() {
    let mark = |access: AccessPolicy, token: &str| {
        let head =
            format!("POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
        check(&access, &head).expect("it has a token").mark
    };
    let unnamed = |token: &str| mark(local().token(token), token);
    assert_eq!(unnamed("one"), unnamed("one"));
    assert_ne!(unnamed("one"), unnamed("two"));
    assert_eq!(mark(local().named_token("ada", "s3cret"), "s3cret"), None);
}
