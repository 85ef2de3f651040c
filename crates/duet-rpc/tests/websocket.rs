//! Peers over WebSockets, on real sockets, and remotes that are not our peers.

#![cfg(all(feature = "websocket", unix))]

mod links;
#[path = "support/log.rs"]
mod log;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duet_rpc::proto::ws::{Control, ControlKind, Role, WsDecoder, WsEvent, WsFrameWriter};
use duet_rpc::transport::{Address, Listener, Socket, WebSocket};
use duet_rpc::{CloseReason, Context, Error, ErrorKind, Failure, Peer, Profile, Router};
use links::{HANGS, on_both_runtimes};
use log::Log;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tracing::Level;

/// The message limit of these tests, in bytes.
const LIMIT: usize = 1 << 20;

fn profile() -> Profile {
    let mut profile = Profile::agent();
    profile.limits.message_bytes = LIMIT;
    profile.read_timeout = Some(Duration::from_secs(10));
    profile
}

fn router() -> Router {
    Router::new()
        .method("echo", async |value: Value| Ok::<_, Failure>(value))
        .method("back", async |value: Value, cx: Context| {
            cx.peer().call::<Value>("echo", value).await
        })
        .method("later", async || {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok::<_, Failure>("done")
        })
        .method("large", async |(size,): (usize,)| Ok::<_, Failure>("x".repeat(size)))
}

/// A client and a server over a WebSocket.
async fn peers(is_tcp: bool) -> (Peer, Peer) {
    let (client, server) = if is_tcp {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let client = TcpStream::connect(address).await.expect("it listens");
        let (server, _) = listener.accept().await.expect("it came");
        (Socket::tcp(client), Socket::tcp(server))
    } else {
        let (client, server) = UnixStream::pair().expect("a pair");
        (Socket::unix(client), Socket::unix(server))
    };
    let client = WebSocket::new(client, Role::Client, &profile(), Vec::new());
    let server = WebSocket::new(server, Role::Server, &profile(), Vec::new());
    (
        Peer::builder(client).profile(profile()).router(router()).spawn(),
        Peer::builder(server).profile(profile()).router(router()).spawn(),
    )
}

/// A remote whose every byte the test decides.
struct Remote {
    stream: UnixStream,
    writer: WsFrameWriter,
    decoder: WsDecoder,
    message: Vec<u8>,
    /// Bytes that were read and not parsed.
    rest: Vec<u8>,
}

/// A peer in this role, and the remote at its other end.
fn serve(role: Role) -> (Peer, Remote) {
    serve_as(role, |transport| transport)
}

fn serve_as(role: Role, set: impl FnOnce(WebSocket) -> WebSocket) -> (Peer, Remote) {
    let (here, there) = UnixStream::pair().expect("a pair");
    let transport = set(WebSocket::new(Socket::unix(here), role, &profile(), Vec::new()));
    let its_role = match role {
        Role::Client => Role::Server,
        Role::Server => Role::Client,
    };
    let remote = Remote {
        stream: there,
        writer: WsFrameWriter::new(its_role, 7),
        decoder: WsDecoder::new(its_role, usize::MAX),
        message: Vec::new(),
        rest: Vec::new(),
    };
    (Peer::builder(transport).profile(profile()).router(router()).spawn(), remote)
}

impl Remote {
    fn frame(&mut self, text: impl AsRef<[u8]>) -> Vec<u8> {
        let (mut bytes, mut text) = (Vec::new(), text.as_ref().to_vec());
        self.writer.wrap(&mut bytes, &mut text);
        [bytes, text].concat()
    }

    fn control(&mut self, kind: ControlKind, control: &Control) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.writer.write_control(&mut bytes, kind, control);
        bytes
    }

    /// A request for an echo.
    fn request(&mut self, id: usize) -> Vec<u8> {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "echo", "params": [id]});
        self.frame(request.to_string())
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("it is open");
    }

    /// The next message as it came, or another event in short; `end` if there is none.
    async fn next(&mut self) -> String {
        loop {
            let (count, event) = self.decoder.decode(&self.rest, &mut self.message);
            self.rest.drain(..count);
            match event {
                Some(WsEvent::Message) => {
                    let message = std::mem::take(&mut self.message);
                    return String::from_utf8(message).expect("answers are text");
                }
                Some(WsEvent::Ping) => return "ping".to_owned(),
                Some(event) => return format!("{event:?}"),
                None => {}
            }
            let read = tokio::time::timeout(HANGS, self.stream.read_buf(&mut self.rest));
            // Closing with unread bytes resets the connection.
            if read.await.expect("it hangs").unwrap_or(0) == 0 {
                return "end".to_owned();
            }
        }
    }

    async fn all(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            match &*self.next().await {
                "end" => return all,
                other => all.push(other.to_owned()),
            }
        }
    }

    /// Checks that the request with this id is answered.
    async fn assert_served(&mut self, id: usize) {
        let request = self.request(id);
        self.send(&request).await;
        assert_eq!(self.next().await, answer(id));
    }

    /// Checks the next message or event.
    async fn expect(&mut self, expected: &[&str]) {
        for expected in expected {
            assert_eq!(self.next().await, *expected);
        }
    }
}

fn answer(id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":[{id}]}}"#)
}

#[test]
fn t1_two_peers_call_each_other_over_a_web_socket() {
    let scenario = async |is_tcp: bool| {
        let (client, server) = peers(is_tcp).await;
        for peer in [&client, &server] {
            let calls: Vec<_> =
                (0..200).map(|id| peer.call::<Value>("echo", json!([id]))).collect();
            for (id, call) in calls.into_iter().enumerate() {
                assert_eq!(call.await.expect("it is answered"), json!([id]));
            }
            let value: Value = peer.call("back", json!({"a": 1})).await.expect("it is answered");
            assert_eq!(value, json!({"a": 1}));
            // Each size of a header, both ways.
            for size in [0, 1, 100, 124, 125, 126, 1000, 65_000, 65_535, 65_536, 500_000] {
                let text = "y".repeat(size);
                let value: Value = peer.call("echo", json!([text])).await.expect("it is answered");
                assert_eq!(value, json!([text]));
            }
        }
        client.close().await;
        assert_eq!(server.closed().await.reason(), CloseReason::RemoteClosed);
        assert_eq!(client.closed().await.reason(), CloseReason::Closed);
    };
    on_both_runtimes("unix", || scenario(false));
    on_both_runtimes("tcp", || scenario(true));
}

#[tokio::test]
async fn t1_p5_either_side_can_close() {
    for is_tcp in [false, true] {
        let (client, server) = peers(is_tcp).await;
        let call = tokio::spawn(client.call::<Value>("later", ()));
        client.call::<Value>("echo", json!([1])).await.expect("it is answered");
        // Running requests are finished and answered before the end.
        server.close().await;
        let answer = call.await.expect("no panic").expect("it is answered");
        assert_eq!(answer, "done");
        assert_eq!(client.closed().await.reason(), CloseReason::RemoteClosed);
        let late: Result<Value, Error> = client.call("echo", json!([1])).await;
        late.expect_err("it is closed");
    }
}

#[tokio::test]
async fn t2_f1_fragments_are_joined_and_pings_between_them_answered() {
    let (_peer, mut remote) = serve(Role::Client);
    let text = br#"{"jsonrpc":"2.0","id":1,"method":"echo","params":[1]}"#;
    let (first, second) = text.split_at(20);
    // A binary message counts as text.
    let mut stream = [&[0x02, first.len() as u8], first].concat();
    stream.extend(remote.control(ControlKind::Ping, &Control::new(b"hello")));
    stream.extend([0x00, 0x00]);
    stream.extend([&[0x80, second.len() as u8], second].concat());
    for cut in 0..stream.len() {
        remote.send(&stream[..cut]).await;
        tokio::task::yield_now().await;
        remote.send(&stream[cut..]).await;
        let mut heard = [remote.next().await, remote.next().await];
        heard.sort();
        assert_eq!(heard, ["Pong".to_owned(), answer(1)], "cut at {cut}");
    }
}

#[tokio::test]
async fn t2_f4_invalid_json_gets_an_error_and_the_connection_stays_open() {
    for role in [Role::Client, Role::Server] {
        let (_peer, mut remote) = serve(role);
        for text in ["", "{", "[1,", "\u{feff}{}"] {
            let frame = remote.frame(text);
            remote.send(&frame).await;
            assert!(remote.next().await.contains("-32700"), "{text}");
        }
        remote.assert_served(1).await;
    }
}

#[tokio::test]
async fn f4_t2_invalid_utf8_closes_with_1007_after_earlier_requests_are_answered() {
    for role in [Role::Client, Role::Server] {
        for (case, text) in [
            ("a wrong byte", &b"\"\xff\xfe\""[..]),
            ("a wrong byte in a request", b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"\xc3(\"}"),
            ("a character that is cut", b"\"\xe2\x82"),
        ] {
            let (peer, mut remote) = serve(role);
            let request = remote.request(1);
            let text = remote.frame(text);
            let stream = [&request[..], &text, &request].concat();
            remote.send(&stream).await;
            assert_eq!(remote.next().await, answer(1), "{case}");
            assert_eq!(remote.next().await, "Close(Some(1007))", "{case}");
            drop(remote);
            assert_eq!(peer.closed().await.reason(), CloseReason::ReadFailed, "{case}");
        }
    }
}

#[tokio::test]
async fn t2_f3_oversize_message_closes_with_1009_after_earlier_requests_are_answered() {
    for role in [Role::Client, Role::Server] {
        let (peer, mut remote) = serve(role);
        let mut stream = remote.request(1);
        let large = remote.frame("x".repeat(LIMIT + 1));
        stream.extend(&large[..1000]);
        remote.send(&stream).await;
        remote.expect(&[&answer(1), "Close(Some(1009))"]).await;
        // A remote that goes on sending all of it gets the close frame too.
        let _ = remote.stream.write_all(&large[1000..]).await;
        drop(remote);
        assert_eq!(peer.closed().await.reason(), CloseReason::ReadFailed);
    }
    // In fragments it is the same.
    let (_peer, mut remote) = serve(Role::Client);
    let fragment = [&[0x7e, 0xff, 0xff][..], &[b'x'; 65535]].concat();
    remote.send(&[&[0x01], &fragment[..]].concat()).await;
    for _ in 0..15 {
        remote.send(&[&[0x00], &fragment[..]].concat()).await;
    }
    // Sixteen bytes of the limit are left.
    remote.send(&[0x00, 17]).await;
    assert_eq!(remote.next().await, "Close(Some(1009))");
}

#[tokio::test]
async fn t2_invalid_frame_closes_with_1002_after_earlier_requests_are_answered() {
    let rows: [(Role, &[u8]); 5] = [
        (Role::Server, b"\x81\x01x"),
        (Role::Client, b"\x81\x81\0\0\0\0x"),
        (Role::Server, b"\xc1\x80\0\0\0\0"),
        (Role::Client, b"\x80\x00"),
        (Role::Client, b"GET / HTTP/1.1\r\n"),
    ];
    for (role, bytes) in rows {
        let (peer, mut remote) = serve(role);
        let request = remote.request(1);
        remote.send(&[&request, bytes].concat()).await;
        remote.expect(&[&answer(1), "Close(Some(1002))", "end"]).await;
        drop(remote);
        peer.closed().await;
    }
}

#[tokio::test]
async fn t2_close_frame_is_echoed_after_earlier_requests_are_answered() {
    for role in [Role::Client, Role::Server] {
        for (control, expect) in [
            (Control::close(1000, ""), "Close(Some(1000))"),
            (Control::close(1001, "the tab was closed"), "Close(Some(1001))"),
            (Control::close(4321, ""), "Close(Some(4321))"),
            (Control::new(b""), "Close(None)"),
        ] {
            let (peer, mut remote) = serve(role);
            let mut stream = remote.frame(r#"{"jsonrpc":"2.0","id":9,"method":"later"}"#);
            stream.extend(remote.control(ControlKind::Close, &control));
            stream.extend(remote.request(1));
            remote.send(&stream).await;
            let done = r#"{"jsonrpc":"2.0","id":9,"result":"done"}"#;
            remote.expect(&[done, expect, "end"]).await;
            drop(remote);
            assert_eq!(peer.closed().await.reason(), CloseReason::RemoteClosed);
        }
    }
}

#[tokio::test]
async fn p5_e3_a_call_fails_with_the_reason_why_its_web_socket_ended() {
    let close = |code| {
        let mut bytes = Vec::new();
        let control = Control::close(code, "CANARY");
        WsFrameWriter::new(Role::Server, 7).write_control(&mut bytes, ControlKind::Close, &control);
        bytes
    };
    let too_large = [&[0x81, 127][..], &(1_u64 << 40).to_be_bytes()].concat();
    let rows = [
        (close(1000), None),
        (close(1001), None),
        (close(1009), Some("the remote closed with code 1009 (a message is too large for it)")),
        (close(1011), Some("the remote closed with code 1011")),
        (too_large, Some("a message of 1099511627776 bytes or more is over the limit of 1048576")),
        (b"\x81\x01\xff".to_vec(), Some("what came is not WebSocket: invalid UTF-8")),
        (b"\xc1\x00".to_vec(), Some("what came is not WebSocket: a reserved bit is set")),
    ];
    for (bytes, expected) in rows {
        let (peer, mut remote) = serve(Role::Client);
        let call = tokio::spawn(peer.call::<Value>("any", ()));
        remote.next().await;
        remote.send(&bytes).await;
        let error = call.await.expect("no panic").expect_err("no answer comes");
        assert_eq!(error.kind(), ErrorKind::Disconnected, "{expected:?}");
        drop(remote);
        let end = peer.closed().await;
        let reason = match expected {
            Some(why) if !why.starts_with("the remote closed") => CloseReason::ReadFailed,
            _ => CloseReason::RemoteClosed,
        };
        assert_eq!(end.reason(), reason, "{expected:?}");
        for cause in [&error as &dyn std::error::Error, &end] {
            let causes: Vec<_> = std::iter::successors(cause.source(), |it| it.source())
                .map(|it| it.to_string())
                .collect();
            assert!(!causes.concat().contains("CANARY"), "{causes:?}");
            match expected {
                Some(expected) => assert_eq!(causes.last().map(String::as_str), Some(expected)),
                None => assert!(end.failure().is_none(), "{causes:?}"),
            }
        }
    }
}

#[tokio::test]
async fn t2_l4_close_code_says_whether_the_program_goes_away() {
    for (is_going_away, code) in [(false, 1000), (true, 1001)] {
        let flag = Arc::new(AtomicBool::new(false));
        let (peer, mut remote) =
            serve_as(Role::Server, |transport| transport.going_away(Arc::clone(&flag)));
        remote.assert_served(1).await;
        flag.store(is_going_away, Ordering::Relaxed);
        let closing = tokio::spawn(async move { peer.close().await });
        assert_eq!(remote.next().await, format!("Close(Some({code}))"));
        drop(remote);
        closing.await.expect("no panic");
    }
}

#[tokio::test]
async fn t2_f1_complete_requests_are_answered_wherever_the_stream_ends() {
    for role in [Role::Client, Role::Server] {
        let (_, mut remote) = serve(role);
        let parts = [
            remote.request(1),
            remote.control(ControlKind::Ping, &Control::new(b"p")),
            remote.request(2),
        ];
        let stream = parts.concat();
        let ends = [parts[0].len(), parts[0].len() + parts[1].len() + parts[2].len()];
        for cut in 0..=stream.len() {
            let (peer, mut remote) = serve(role);
            remote.send(&stream[..cut]).await;
            remote.stream.shutdown().await.expect("it is open");
            let heard: Vec<_> =
                remote.all().await.into_iter().filter(|text| text != "Pong").collect();
            let mut expect: Vec<_> =
                (0..2).filter(|place| ends[*place] <= cut).map(|place| answer(place + 1)).collect();
            expect.push("Close(Some(1000))".to_owned());
            assert_eq!(heard, expect, "cut at {cut}");
            assert_eq!(peer.closed().await.reason(), CloseReason::RemoteClosed);
        }
    }
}

#[tokio::test]
async fn p9_l8_a_remote_that_reads_nothing_is_not_read_and_costs_bounded_memory() {
    let (_peer, mut remote) = serve(Role::Server);
    let request = remote.frame(r#"{"jsonrpc":"2.0","id":1,"method":"large","params":[1000]}"#);
    let ping = remote.control(ControlKind::Ping, &Control::new(&[b'x'; 125]));
    let both = [request, ping].concat().repeat(100);
    let mut sent = 0;
    // It sends until nothing is taken any more.
    while let Ok(written) =
        tokio::time::timeout(Duration::from_secs(1), remote.stream.write_all(&both)).await
    {
        written.expect("it is open");
        sent += 100;
        assert!(sent < 100_000, "everything is read");
    }
    // When it reads again, it gets all answers, and the interrupted frame goes on.
    let mut answers = 0;
    while answers < sent {
        answers += usize::from(remote.next().await.starts_with('{'));
    }
}

#[tokio::test]
async fn l5_close_does_not_wait_for_a_remote_that_reads_nothing() {
    let (peer, remote) = serve(Role::Server);
    let text = "x".repeat(100_000);
    // More than the socket takes.
    for _ in 0..20 {
        let _ = tokio::time::timeout(Duration::from_millis(50), peer.notify("n", [&text])).await;
    }
    tokio::time::timeout(HANGS, peer.close()).await.expect("it hangs");
    drop(remote);
}

/// An endless handshake would hold its place among the connections for ever.
#[tokio::test(start_paused = true)]
async fn p8_a_handshake_has_30_seconds_where_there_is_no_read_timeout() {
    let mut listener = Listener::bind("ws://127.0.0.1:0/").expect("a port");
    let Address::WebSocket(place, _) = listener.address().clone() else { panic!("{listener:?}") };
    let profile = profile().with(|it| it.read_timeout = None);
    for said in ["", "GET / HTTP/1.1\r\nHo"] {
        let to = (&*place.host, place.port);
        let mut client = std::net::TcpStream::connect(to).expect("it listens");
        std::io::Write::write_all(&mut client, said.as_bytes()).expect("it is sent");
        let incoming = listener.accept().await.expect("it came");
        let begun = tokio::time::Instant::now();
        let opened = tokio::time::timeout(HANGS * 2, incoming.open(&profile)).await;
        assert!(opened.expect("it ends").is_err(), "{said}");
        assert_eq!(begun.elapsed().as_secs(), 30, "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn t2_a_half_open_connection_is_noticed() {
    let (peer, remote) = serve(Role::Server);
    let begun = tokio::time::Instant::now();
    // It stays connected, and never sends anything.
    let end = peer.closed().await;
    assert_eq!(end.reason(), CloseReason::ReadFailed);
    assert!((60..70).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    drop(remote);
}

#[tokio::test(start_paused = true)]
async fn t2_remote_that_answers_pings_stays_connected() {
    let (client, server) = peers(false).await;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(45)).await;
    }
    assert!(client.state().is_open() && server.state().is_open());
    assert_eq!(client.call::<Value>("echo", json!([1])).await.expect("it is open"), json!([1]));
}

#[tokio::test(start_paused = true)]
async fn f6_message_that_never_ends_closes_the_connection() {
    let (peer, mut remote) = serve(Role::Server);
    let (whole, half) = (remote.request(1), remote.request(2));
    remote.send(&[&whole, &half[..half.len() - 1]].concat()).await;
    assert_eq!(remote.next().await, answer(1));
    let heard = remote.all().await;
    assert_eq!(heard.last().map(String::as_str), Some("Close(Some(1008))"), "{heard:?}");
    drop(remote);
    peer.closed().await;
}

#[tokio::test(start_paused = true)]
async fn t2_g5_g6_log_gives_the_reason_of_the_end_and_no_payload() {
    let log = Log::up_to(Level::WARN);
    // With only one subscriber in the process, `tracing` would disable records that threads of other
    // tests log first.
    let _other = tracing::Dispatch::new(log.clone());
    let _guard = tracing::subscriber::set_default(log.clone());
    // The payload, and the number of bytes of its frame that come.
    let large = "secret".repeat(LIMIT);
    for (text, count) in [(&*large, 100), ("secret", 10)] {
        let (peer, mut remote) = serve(Role::Server);
        let frame = remote.frame(text);
        remote.send(&frame[..count]).await;
        peer.closed().await;
    }
    // Bytes that are not a frame, and no bytes.
    for bytes in [&b"secret"[..], b""] {
        let (peer, mut remote) = serve(Role::Client);
        remote.send(bytes).await;
        peer.closed().await;
    }
    assert_eq!(
        log.text(),
        "WARN;message=connection closed: message too large;bytes=6291456;limit=1048576;\n\
         WARN;message=connection closed: message took too long;received=4;after_ms=10000;\n\
         WARN;message=connection closed: invalid WebSocket frame;\
         problem=\"a reserved bit is set\";code=1002;\n\
         WARN;message=connection closed: no sign of life from the remote;after_ms=30000;\n"
    );
}
