//! A server that does nothing by itself: a test receives each request, and decides the response.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::support::{Client, PATIENCE, listen};

/// The server, and the events that it receives.
pub(crate) struct ByHand {
    pub(crate) address: SocketAddr,
    hears: mpsc::UnboundedReceiver<Heard>,
}

pub(crate) enum Heard {
    Request(Request),
    /// The client has closed a connection.
    End,
}

/// A request that waits for the test's decision.
pub(crate) struct Request {
    /// The number of its connection, counted from 0.
    pub(crate) connection: usize,
    pub(crate) head: String,
    pub(crate) body: Value,
    acts: mpsc::UnboundedSender<(Act, oneshot::Sender<()>)>,
}

/// An action on a connection.
pub(crate) enum Act {
    Send(Vec<u8>),
    Close,
    Reset,
}

impl ByHand {
    pub(crate) async fn serve() -> Self {
        let (listener, address) = listen().await;
        let (heard, hears) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.expect("a connection");
                tokio::spawn(converse(stream, connection, heard.clone()));
            }
        });
        ByHand { address, hears }
    }

    /// The next event. Notifications are answered with 202 by themselves.
    pub(crate) async fn hear(&mut self) -> Heard {
        loop {
            let heard = timeout(PATIENCE, self.hears.recv()).await.expect("it hangs");
            match heard.expect("it serves") {
                Heard::Request(request) if request.body.get("id").is_none() => {
                    request.send("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").await;
                }
                heard => return heard,
            }
        }
    }

    /// The next message of any kind, unanswered.
    pub(crate) async fn message(&mut self) -> Request {
        loop {
            let heard = timeout(PATIENCE, self.hears.recv()).await.expect("it hangs");
            if let Heard::Request(request) = heard.expect("it serves") {
                return request;
            }
        }
    }

    /// Returns `true` if another message comes while every task gets many turns.
    pub(crate) async fn gets_more(&mut self) -> bool {
        for _ in 0..2000 {
            tokio::task::yield_now().await;
        }
        matches!(self.hears.try_recv(), Ok(Heard::Request(_)))
    }

    /// The next request.
    pub(crate) async fn request(&mut self) -> Request {
        loop {
            if let Heard::Request(request) = self.hear().await {
                return request;
            }
        }
    }

    /// Waits until the client has closed this many connections, and checks that it sends no request
    /// meanwhile.
    pub(crate) async fn ends(&mut self, count: usize) {
        for _ in 0..count {
            match self.hear().await {
                Heard::End => {}
                Heard::Request(request) => panic!("a request: {}", request.body),
            }
        }
    }
}

impl Request {
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().expect("it has a method")
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.filter(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    /// Does this on its connection, and waits until it is done.
    pub(crate) async fn act(&self, act: Act) {
        let (done, is_done) = oneshot::channel();
        // A connection that the client has closed does not matter.
        let _ = self.acts.send((act, done));
        let _ = is_done.await;
    }

    pub(crate) async fn send(&self, bytes: impl Into<Vec<u8>>) {
        self.act(Act::Send(bytes.into())).await;
    }

    /// Answers with this status and body.
    pub(crate) async fn respond(&self, status: &str, body: &str) {
        self.send(response(status, body)).await;
    }

    /// Answers with the name of the method.
    pub(crate) async fn answer(&self) {
        let answer = json!({"jsonrpc": "2.0", "id": self.body["id"], "result": self.method()});
        self.respond("200 OK", &answer.to_string()).await;
    }
}

pub(crate) fn response(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

async fn converse(stream: TcpStream, connection: usize, heard: mpsc::UnboundedSender<Heard>) {
    let mut client = Client::on(stream);
    let (acts, mut to_do) = mpsc::unbounded_channel();
    loop {
        tokio::select! {
            request = client.read_whole_request() => {
                let Some((head, body)) = request else { break };
                let body = serde_json::from_str(&body).expect("JSON");
                let request = Request { connection, head, body, acts: acts.clone() };
                // The test may be over.
                let _ = heard.send(Heard::Request(request));
            }
            Some((act, done)) = to_do.recv() => {
                // A waiting test learns of the end when `done` is dropped, after the connection.
                match act {
                    Act::Send(bytes) => client.send(bytes).await,
                    Act::Close => return drop((client, done)),
                    Act::Reset => {
                        client.stream.set_zero_linger().expect("it can be told");
                        return drop((client, done));
                    }
                }
                let _ = done.send(());
            }
        }
    }
    let _ = heard.send(Heard::End);
}
