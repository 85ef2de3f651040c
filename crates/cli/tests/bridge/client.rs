//! A client of a bridge, over any transport.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use duet_rpc::Profile;
use duet_rpc::proto::frame::{Framing, FramingChoice};
use duet_rpc::transport::{Connector, MessagePipe, PipeEvent, Transport};
use serde_json::Value;
use tokio::time::timeout;

/// Longer than any step takes on any machine.
const HANG: Duration = Duration::from_secs(60);

/// Stands for bytes that are not a message.
pub(crate) const BROKEN: &str = "\"broken\"";

pub(crate) struct Client {
    pipe: MessagePipe<Box<dyn Transport>>,
    arrived: VecDeque<String>,
}

impl Client {
    pub(crate) async fn connect(url: &str, framing: Framing) -> Self {
        let profile = Profile::agent().with(|it| {
            it.framing = FramingChoice::Fixed(framing);
            it.limits.message_bytes = 64 * 1024 * 1024;
        });
        let connector = Connector::new(url).expect("an address");
        let transport = connector.connect(&profile).await.expect("the bridge is there");
        Client::over(MessagePipe::new(transport, &profile))
    }

    /// A client over this pipe.
    pub(crate) fn over(pipe: MessagePipe<Box<dyn Transport>>) -> Self {
        Client { pipe, arrived: VecDeque::new() }
    }

    /// Puts a message into the outbox. It leaves with the next `flush` or `next`.
    pub(crate) fn push(&mut self, message: &str) {
        self.pipe.send(message.as_bytes());
    }

    pub(crate) async fn flush(&mut self) {
        let flushed = poll_fn(|cx| self.pipe.poll_flush(cx));
        timeout(HANG, flushed).await.expect("the bridge reads").expect("it is open");
    }

    pub(crate) async fn send(&mut self, message: &str) {
        self.push(message);
        self.flush().await;
    }

    /// Sends as much of the outbox as the bridge takes now. Returns the rest.
    pub(crate) async fn send_some(&mut self) -> usize {
        let _ = timeout(Duration::from_millis(1), poll_fn(|cx| self.pipe.poll_flush(cx))).await;
        self.pipe.unsent()
    }

    /// The next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<String> {
        timeout(HANG, self.receive()).await.expect("a message or the end")
    }

    async fn receive(&mut self) -> Option<String> {
        let Client { pipe, arrived } = self;
        poll_fn(|cx| {
            loop {
                if let Some(message) = arrived.pop_front() {
                    return Poll::Ready(Some(message));
                }
                let _ = pipe.poll_flush(cx);
                let received = pipe.poll_receive(cx, |event| {
                    arrived.push_back(match event {
                        PipeEvent::Message(text) => text.as_str().to_owned(),
                        PipeEvent::Fault(_) | PipeEvent::Failed(..) => BROKEN.to_owned(),
                    });
                });
                match received {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(true)) => {}
                    Poll::Ready(_) if arrived.is_empty() => return Poll::Ready(None),
                    Poll::Ready(_) => {}
                }
            }
        })
        .await
    }

    /// The next message, parsed.
    pub(crate) async fn value(&mut self) -> Value {
        let message = self.next().await.expect("the connection is open");
        serde_json::from_str(&message).expect("JSON")
    }

    /// Sends a request, and waits for its answer; other messages are dropped.
    pub(crate) async fn call(&mut self, id: u64, method: &str, params: Value) -> Value {
        let request =
            serde_json::json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&request.to_string()).await;
        loop {
            let message = self.value().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }
}
