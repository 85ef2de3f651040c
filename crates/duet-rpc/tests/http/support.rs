//! Both ends of a connection, by hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duet_rpc::transport::{AccessPolicy, Address, HttpServer, Place, Socket, Target};
use duet_rpc::{Context, Failure, Peer, Profile, Router};
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The time after which a test counts as hanging. No test depends on it otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The target that is served.
pub(crate) fn target() -> Target {
    match "http://localhost:1/rpc".parse() {
        Ok(Address::Http(_, target)) => target,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn place(address: SocketAddr) -> Place {
    Place { host: address.ip().to_string(), port: address.port() }
}

pub(crate) fn access() -> AccessPolicy {
    AccessPolicy::new("127.0.0.1".parse().expect("an address"))
}

pub(crate) fn methods() -> Router {
    Router::new()
        .method("add", async |(a, b): (i64, i64)| Ok::<_, Failure>(a + b))
        .method("echo", async |raw: Box<RawValue>| Ok::<_, Failure>(raw))
        .method("slow", async |(n,): (u64,)| {
            for _ in 0..n {
                tokio::task::yield_now().await;
            }
            Ok::<_, Failure>(n)
        })
        .method("big", async |(n,): (usize,)| Ok::<_, Failure>("x".repeat(n)))
        .method("never", async || -> Result<(), Failure> { std::future::pending().await })
        .method("back", async |cx: Context| {
            Ok::<_, Failure>(cx.peer().notify("x", ()).await.is_ok())
        })
        .shutdown_method("shutdown", async || Ok::<_, Failure>("bye"))
}

pub(crate) async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// Serves these methods; returns the address.
pub(crate) async fn serve_with(
    profile: Profile,
    access: AccessPolicy,
    router: Router,
) -> SocketAddr {
    let (listener, address) = listen().await;
    let access = Arc::new(access);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let transport =
                HttpServer::new(Socket::tcp(stream), Arc::clone(&access), &target(), &profile);
            let (peer, driver) =
                Peer::builder(transport).profile(profile).router(router.clone()).build();
            tokio::spawn(async move {
                driver.await;
                drop(peer);
            });
        }
    });
    address
}

pub(crate) async fn serve() -> SocketAddr {
    serve_with(Profile::agent(), access(), methods()).await
}

/// A client whose every byte the test decides.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Client {
    pub(crate) async fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("it can be told");
        Client::on(stream)
    }

    /// One end of this connection.
    pub(crate) fn on(stream: TcpStream) -> Self {
        Client { stream, read: Vec::new() }
    }

    /// Sends it. A server that has enough may have closed the connection.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// Closes the direction of sending.
    pub(crate) async fn finish(&mut self) {
        self.stream.shutdown().await.expect("it is open");
    }

    /// The next response. The response to `HEAD` has no body, whatever its headers say.
    pub(crate) async fn response_to(&mut self, is_head: bool) -> Response {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|it| it == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.more().await, "no response: {:?}", String::from_utf8_lossy(&self.read));
        };
        let head = String::from_utf8(self.read.drain(..end).collect()).expect("text");
        let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length = length.map_or(0, |length| length.parse().expect("a number"));
        let length = if is_head { 0 } else { length };
        while self.read.len() < length {
            assert!(self.more().await, "the body is cut short");
        }
        let body = String::from_utf8(self.read.drain(..length).collect()).expect("text");
        Response { status, head, body }
    }

    pub(crate) async fn response(&mut self) -> Response {
        self.response_to(false).await
    }

    /// Sends this, and reads the response.
    pub(crate) async fn ask(&mut self, request: impl AsRef<[u8]>) -> Response {
        self.send(request).await;
        self.response().await
    }

    /// Checks that the server has closed the connection without another byte.
    pub(crate) async fn expect_end(&mut self) {
        assert!(!self.more().await && self.read.is_empty(), "more came");
    }

    /// Reads on; `false` at the end.
    async fn more(&mut self) -> bool {
        let reading = self.stream.read_buf(&mut self.read);
        tokio::time::timeout(PATIENCE, reading).await.expect("it hangs").expect("it reads") > 0
    }
}

impl Response {
    /// Returns `true` if this header line is there. Upper and lower case of a name are the same.
    pub(crate) fn has(&self, header: &str) -> bool {
        let (name, value) = header.split_once(':').expect("a header");
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.any(|(found, given)| found.eq_ignore_ascii_case(name) && given == value)
    }

    pub(crate) fn closes(&self) -> bool {
        self.has("Connection: close")
    }
}

/// A request with this body.
pub(crate) fn post(body: &str) -> String {
    post_with("", body)
}

pub(crate) fn post_with(headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /rpc HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
}

/// A request without params.
pub(crate) fn request(id: u32, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

pub(crate) fn result(id: u32, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// A call of `add`, and its answer.
pub(crate) fn call(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"add","params":[{id},1]}}"#)
}

pub(crate) fn answer(id: u32) -> String {
    result(id, &(id + 1).to_string())
}

/// Answers every client with the bytes of `respond`, which gets the number of the request, and then
/// closes the connection if `respond` says so.
pub(crate) async fn answer_with<F>(respond: F) -> SocketAddr
where
    F: Fn(usize) -> (Vec<u8>, bool) + Send + Sync + 'static,
{
    let (listener, address) = listen().await;
    let respond = Arc::new(respond);
    tokio::spawn(async move {
        let counter = Arc::new(AtomicUsize::new(0));
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let (respond, counter) = (Arc::clone(&respond), Arc::clone(&counter));
            tokio::spawn(async move {
                let mut client = Client::on(stream);
                while client.read_request().await.is_some() {
                    let number = counter.fetch_add(1, Ordering::SeqCst);
                    let (bytes, closes) = respond(number);
                    client.send(bytes).await;
                    if closes {
                        break;
                    }
                }
            });
        }
    });
    address
}

impl Client {
    /// Reads a request with a length, from the other end, and returns its body; `None` at the end, which
    /// may be a reset.
    pub(crate) async fn read_request(&mut self) -> Option<String> {
        loop {
            let text = String::from_utf8_lossy(&self.read);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
                let length: usize = length.expect("a length").parse().expect("a number");
                if body.len() >= length {
                    let (begin, end) = (head.len() + 4, head.len() + 4 + length);
                    let body = text[begin..end].to_owned();
                    self.read.drain(..end);
                    return Some(body);
                }
            }
            let reading = self.stream.read_buf(&mut self.read);
            let read = tokio::time::timeout(PATIENCE, reading).await.expect("it hangs");
            if !read.is_ok_and(|count| count > 0) {
                return None;
            }
        }
    }
}
