//! Tests of the HTTP parsers with bytes that are cut anywhere, and of a connection that closes.

use std::sync::Arc;

use duet_rpc_proto::Profile;
use duet_rpc_proto::frame::Event;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::HttpServer;
use super::intake::{HttpAnswer, Intake, RequestStep, Rules};
use super::terms::Then;
use crate::net::{AccessPolicy, Socket, Target};
use crate::transport::{Inbox, TransportKind};
use crate::{Peer, Router};

const LIMIT: usize = 100;

/// What a server does with these bytes, until it closes the connection.
fn serve(pieces: &[&[u8]]) -> Vec<String> {
    let mut profile = Profile::agent();
    profile.limits.message_bytes = LIMIT;
    let mut inbox = Inbox::new(TransportKind::Messages, &profile);
    let access = Arc::new(AccessPolicy::default());
    let rules = Rules { access, path: "/".into(), header_bytes: 200, message_bytes: LIMIT };
    let mut intake = Intake::new(rules);
    let mut done = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let (used, step) = intake.take(rest, &mut inbox).expect("it carries messages");
            rest = &rest[used..];
            assert!(inbox.unfinished() <= LIMIT);
            match step {
                RequestStep::More => break,
                // Whether it has to be said depends on how much has come.
                RequestStep::Continue => {}
                RequestStep::Message(terms) => {
                    let text = match inbox.next_event().expect("a message") {
                        Event::Frame(text) => text.as_str().to_owned(),
                        Event::Fault(fault) => fault.to_string(),
                    };
                    done.push(format!("{text} {:?}", terms.then));
                    if terms.then != Then::GoOn {
                        return done;
                    }
                }
                RequestStep::Answer(HttpAnswer { bytes, then }) => {
                    done.push(format!("{} {then:?}", String::from_utf8_lossy(&bytes)));
                    if then != Then::GoOn {
                        return done;
                    }
                }
            }
        }
    }
    done
}

const REQUESTS: [&str; 9] = [
    "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n1234",
    "POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    "POST / HTTP/1.1\r\nHost: [::1]\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\n1\r\n0\r\nA: b\r\n\r\n",
    "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n0123456789",
    "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
    "\r\nPOST http://localhost/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n1",
    "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 101\r\n\r\n",
];

/// Texts one behind the other, with a few bytes changed, and places to cut them.
fn damaged(texts: &'static [&'static str]) -> impl Strategy<Value = (Vec<u8>, Vec<usize>)> {
    let bytes = prop::collection::vec(prop::sample::select(texts), 1..4)
        .prop_map(|texts| texts.concat().into_bytes());
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 0..3);
    let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..6);
    (bytes, damage, cuts).prop_map(|(mut bytes, damage, cuts)| {
        for (at, byte, how) in damage {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        (bytes, cuts)
    })
}

fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut from = 0;
    for &to in cuts {
        pieces.push(&bytes[from..to]);
        from = to;
    }
    pieces.push(&bytes[from..]);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

proptest! {
    #[test]
    fn t2_requests_mean_the_same_however_they_are_cut((bytes, cuts) in damaged(&REQUESTS)) {
        let whole = serve(&[&bytes]);
        prop_assert_eq!(&whole, &serve(&cut(&bytes, &cuts)));
        prop_assert_eq!(&whole, &serve(&bytes.chunks(1).collect::<Vec<_>>()));
    }
}

#[test]
fn t2_what_follows_what_is_skipped_is_served() {
    let all: Vec<u8> = REQUESTS.concat().into_bytes();
    let done = serve(&[&all]);
    assert_eq!(done.len(), REQUESTS.len(), "{done:?}");
    assert!(done.last().is_some_and(|last| last.starts_with("HTTP/1.1 413 ")));
    assert!(done[..8].iter().all(|it| it.ends_with(" GoOn")), "{done:?}");
}

#[tokio::test]
async fn t2_a_connection_that_closes_says_so_in_its_last_response() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (client, server) = tokio::join!(tokio::net::TcpStream::connect(address), listener.accept());
    let (mut client, (server, _)) = (client.expect("connected"), server.expect("accepted"));
    let (profile, access) = (Profile::agent(), Arc::new(AccessPolicy::default()));
    let transport = HttpServer::new(Socket::tcp(server), access, &Target::default(), &profile);
    let router = Router::new().shutdown_method("go", async || 1);
    let peer = Peer::builder(transport).profile(profile).router(router).spawn();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"go"}"#;
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: ";
    let request = format!("{head}{}\r\n\r\n{body}", body.len());
    client.write_all(request.as_bytes()).await.expect("it is sent");
    let mut heard = String::new();
    client.read_to_string(&mut heard).await.expect("it ends");
    assert!(heard.contains("\r\nConnection: close\r\n"), "{heard}");
    assert!(heard.ends_with(r#"{"jsonrpc":"2.0","id":1,"result":1}"#), "{heard}");
    drop(peer);
}
