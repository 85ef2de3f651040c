//! The remote of a connection: its address, and the identity that it has proved (T1, T3).

#![cfg(all(feature = "http", feature = "websocket", unix))]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use duet_rpc::transport::{
    AccessPolicy, Address, Connector, Inbox, Listener, TransportKind, memory,
};
use duet_rpc::{Context, Failure, Hub, Identity, Peer, Profile, Remote, Router};

/// The caller of a handler: its IP address, and its identity as text.
type Caller = (Option<String>, Option<String>);

fn router() -> Router {
    Router::new()
        .method("whoami", async |cx: Context| {
            assert_eq!(cx.peer().identity(), cx.identity());
            assert_eq!(cx.peer().remote_addr(), cx.remote_addr());
            let ip = cx.remote_addr().map(|addr| addr.ip().to_string());
            Ok::<Caller, Failure>((ip, cx.identity().map(show)))
        })
        .method("later", async |cx: Context| {
            tokio::task::yield_now().await;
            Ok::<_, Failure>(cx.identity().map(show))
        })
}

fn show(identity: &Identity) -> String {
    match identity {
        Identity::Token { name } => name.clone(),
        Identity::UnixUser { uid, pid, .. } => {
            format!("user {uid} process {}", pid.map_or(0, |pid| pid))
        }
        other => format!("{other:?}"),
    }
}

fn access() -> AccessPolicy {
    AccessPolicy::default().token("n0name").named_token("ada", "s3cret").named_token("bob", "0ther")
}

/// Serves the router at this URL; returns its address.
fn serve(url: &str) -> (Hub, Address) {
    let listener = Listener::bind(url).expect("it listens").access(access());
    let address = listener.address().clone();
    let hub = Hub::builder().profile(Profile::agent()).router(router()).build();
    tokio::spawn(hub.clone().serve(listener));
    (hub, address)
}

async fn connect(address: &Address, token: Option<&str>) -> Peer {
    let connector = Connector::new(address).expect("an address");
    let connector = token.into_iter().fold(connector, Connector::token);
    let transport = connector.connect(&Profile::agent()).await.expect("it listens");
    Peer::builder(transport).spawn()
}

#[tokio::test]
async fn t3_a_handler_knows_the_address_and_the_identity_of_its_caller() {
    let path = std::env::temp_dir().join(format!("duet-rpc-remote-{}", std::process::id()));
    let unix = format!("unix://{}", path.display());
    let here =
        format!("user {} process {}", rustix::process::geteuid().as_raw(), std::process::id());
    let loopback = Some("127.0.0.1");
    let rows = [
        ("tcp://127.0.0.1:0", None, loopback, None),
        (&*unix, None, None, Some(&*here)),
        ("ws://127.0.0.1:0/", Some("s3cret"), loopback, Some("ada")),
        ("ws://127.0.0.1:0/", Some("n0name"), loopback, None),
        ("http://127.0.0.1:0/", Some("0ther"), loopback, Some("bob")),
        ("http://127.0.0.1:0/", Some("n0name"), loopback, None),
    ];
    for (url, token, ip, identity) in rows {
        let (hub, address) = serve(url);
        let client = connect(&address, token).await;
        let told: Caller = client.call("whoami", ()).await.expect("an answer");
        assert_eq!((told.0.as_deref(), told.1.as_deref()), (ip, identity), "{url} {token:?}");
        let told: Option<String> = client.call("later", ()).await.expect("an answer");
        assert_eq!(told.as_deref(), identity, "{url} {token:?}");
        assert_eq!((client.remote_addr(), client.identity()), (None, None), "we connected");
        client.close().await;
        hub.stop().await;
    }
}

/// A guard knows the same as a handler: the identity is that of the request, even over HTTP.
#[tokio::test(flavor = "multi_thread")]
async fn t3_a_guard_knows_the_address_and_the_identity_of_the_sender() {
    use duet_rpc::Arrival;

    fn only_ada_from_here(message: &Arrival<'_>) -> Result<(), Failure> {
        let is_ada = message.identity().and_then(Identity::token_name) == Some("ada");
        let is_here = message.remote_addr().is_some_and(|it| it.ip().is_loopback());
        let peer = message.peer();
        assert_eq!(
            (message.identity(), message.remote_addr()),
            (peer.identity(), peer.remote_addr())
        );
        if is_ada && is_here { Ok(()) } else { Err(Failure::new(-32050, "Refused")) }
    }
    let here = "127.0.0.1:1".parse().expect("an address");
    let rows = [
        (Remote::new().with_addr(here).with_identity(Identity::token("ada")), true),
        (Remote::new().with_addr(here).with_identity(Identity::token("bob")), false),
        (Remote::new().with_identity(Identity::token("ada")), false),
        (Remote::new(), false),
    ];
    for (remote, passes) in rows {
        let (near, far) = duet_rpc::transport::memory::pair();
        let router = Router::new().method("ping", || "pong").guard(only_ada_from_here);
        let _server = Peer::builder(far).router(router).remote(remote.clone()).spawn();
        let client = Peer::builder(near).spawn();
        assert_eq!(client.call::<String>("ping", ()).await.is_ok(), passes, "{remote:?}");
    }
    let own = rustix::process::geteuid().as_raw();
    let user = |uid| Identity::UnixUser { uid, gid: 0, pid: None };
    for (identity, is_own) in
        [(user(own), true), (user(own + 1), false), (Identity::token("ada"), false)]
    {
        assert_eq!(identity.is_own_user(), is_own, "{identity:?}");
    }
}

#[tokio::test]
async fn t2_a_token_for_a_transport_that_takes_none_is_an_error() {
    for address in ["tcp://127.0.0.1:1", "unix:///nonexistent/socket", "stdio:"] {
        let connector = Connector::new(address).expect("an address").token("s3cret");
        let Err(error) = connector.connect(&Profile::agent()).await else { panic!("{address}") };
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        let text = error.to_string();
        assert_eq!(text, format!("{address} takes no token: only WebSocket and HTTP addresses do"));
    }
}

/// Sends a request on a kept connection, and returns the answer.
fn post(stream: &mut TcpStream, token: &str, body: &str) -> String {
    let length = body.len();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).expect("it is sent");
    let (mut bytes, mut piece) = (Vec::new(), [0; 1024]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            if body.len() == length.map_or(0, |length| length.parse().expect("a number")) {
                return body.to_owned();
            }
        }
        let count = stream.read(&mut piece).expect("it is read");
        assert!(count > 0, "{text}");
        bytes.extend_from_slice(&piece[..count]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t3_each_request_over_http_has_the_identity_that_it_has_shown_itself() {
    let (hub, address) = serve("http://127.0.0.1:0/");
    let Address::Http(place, _) = address else { panic!("{address}") };
    let seen = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect((&*place.host, place.port)).expect("it listens");
        let one = r#"{"jsonrpc":"2.0","id":1,"method":"later"}"#;
        let both = format!(r#"[{one},{}]"#, one.replace(":1,", ":2,"));
        let tell = r#"{"jsonrpc":"2.0","method":"later"}"#;
        let rows = [
            ("s3cret", one, vec![Some("ada")]),
            ("0ther", one, vec![Some("bob")]),
            ("n0name", one, vec![None]),
            ("s3cret", tell, vec![]),
            ("n0name", one, vec![None]),
            ("wrong", one, vec![]),
            ("0ther", &both, vec![Some("bob"), Some("bob")]),
            ("n0name", &both, vec![None, None]),
        ];
        for (token, body, expected) in rows {
            let answer = post(&mut stream, token, body);
            for name in ["ada", "bob"] {
                let count = expected.iter().filter(|it| **it == Some(name)).count();
                assert_eq!(answer.matches(name).count(), count, "{token} {body}: {answer}");
            }
            let nobody = expected.iter().filter(|it| it.is_none()).count();
            assert_eq!(answer.matches(r#""result":null"#).count(), nobody, "{token}: {answer}");
        }
    });
    seen.await.expect("no panic");
    hub.stop().await;
}

/// A handle that outlives its request keeps the identity of that request.
#[tokio::test(flavor = "multi_thread")]
async fn t3_a_context_that_is_kept_has_the_identity_of_its_own_request() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let router = Router::new().method("keep", move |cx: Context| {
        keep.lock().expect("no panic").push(cx);
        async { Ok::<_, Failure>(()) }
    });
    let listener = Listener::bind("http://127.0.0.1:0/").expect("it listens").access(access());
    let Address::Http(place, _) = listener.address().clone() else { panic!("{listener:?}") };
    let hub = Hub::builder().profile(Profile::agent()).router(router).build();
    tokio::spawn(hub.clone().serve(listener));
    let sent = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect((&*place.host, place.port)).expect("it listens");
        for token in ["s3cret", "0ther", "n0name"] {
            post(&mut stream, token, r#"{"jsonrpc":"2.0","id":1,"method":"keep"}"#);
        }
    });
    sent.await.expect("no panic");
    let names: Vec<_> =
        kept.lock().expect("no panic").iter().map(|cx| cx.identity().map(show)).collect();
    assert_eq!(names, [Some("ada".to_owned()), Some("bob".to_owned()), None]);
    hub.stop().await;
}

#[test]
fn t3_a_message_that_waits_never_gets_the_identity_of_another_sender() {
    let mut inbox = Inbox::new(TransportKind::Exchange, &Profile::agent());
    let (ada, bob) = (Arc::new(Identity::token("ada")), Arc::new(Identity::token("bob")));
    inbox.note_sender(Some(bob)).expect("nothing waits");
    inbox.note_sender(Some(ada)).expect("nothing waits");
    inbox.push(b"{}").expect("it takes messages");
    assert!(inbox.note_sender(None).is_err());
    let mut bytes = Inbox::new(TransportKind::Bytes, &Profile::agent());
    assert!(bytes.note_sender(None).is_err(), "it belongs to the connection");
}

#[tokio::test]
async fn t1_a_connection_that_was_accepted_elsewhere_is_told_its_remote() {
    let addr: SocketAddr = "192.0.2.7:99".parse().expect("an address");
    let remote = Remote::new().with_addr(addr).with_identity(Identity::token("proxy"));
    let (here, there) = memory::pair();
    let server = Peer::builder(there).router(router()).remote(remote).spawn();
    let client = Peer::builder(here).spawn();
    let told: Caller = client.call("whoami", ()).await.expect("an answer");
    assert_eq!(told, (Some("192.0.2.7".to_owned()), Some("proxy".to_owned())));
    assert_eq!(server.remote_addr(), Some(addr));
    assert_eq!(server.identity().and_then(Identity::token_name), Some("proxy"));
    assert_eq!(server.identity().and_then(Identity::uid), None);
}
