//! Workers and callers behind a real broker.

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod support;

mod calls;
mod ends;
mod limits;
mod link;
mod nodes;

use std::time::Duration;

use duet_rpc::{Context, Error, Failure, Hub, Peer, Router};
use duet_rpc_nats::{NatsPeer, Worker};
use tokio::task::JoinHandle;

use support::Broker;

/// Fails a test that hangs.
async fn within<T>(seconds: u64, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(seconds), work).await.expect("in time")
}

/// A worker in this process.
struct Running {
    hub: Hub,
    serving: JoinHandle<Result<(), Error>>,
}

impl Running {
    async fn start(url: &str, router: Router) -> Self {
        Self::start_with(url, router, 1024).await
    }

    async fn start_with(url: &str, router: Router, most: usize) -> Self {
        let worker = Worker::connect(url).await.expect("a broker");
        let worker = worker.service("math", "1.2.0").max_in_flight(most);
        let worker = worker.methods(router.methods().map(str::to_owned).collect::<Vec<_>>());
        let hub = Hub::builder().router(router).max_connections(most).build();
        let serving = worker.begin().await.expect("subscribed");
        let serving = tokio::spawn(serving.serve(hub.clone()));
        Running { hub, serving }
    }

    async fn stop(self) {
        self.hub.stop().await;
        within(10, self.serving).await.expect("no panic").expect("a graceful end");
    }
}

/// Methods that the tests call.
fn router() -> Router {
    Router::new()
        .method("add", async |(a, b): (i64, i64)| a + b)
        .method("fail", async || -> Result<(), Failure> { Err(Failure::new(7, "no\nway")) })
        .method("sleep", async |(ms,): (u64,)| {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            ms
        })
        .method("length", async |(text,): (String,)| text.len())
        .method("repeat", async |(count,): (usize,)| "x".repeat(count))
        .method("ask_long", async |(count,): (usize,), cx: Context| -> Result<String, Error> {
            cx.peer().call("answer", ["x".repeat(count)]).no_timeout().await
        })
        .method("ask", async |(question,): (String,), cx: Context| -> Result<String, Error> {
            cx.peer().notify("asked", [&question]).await?;
            cx.peer().call("answer", [question]).await
        })
}

async fn peer(broker: &Broker) -> Peer {
    let nats = NatsPeer::connect(&broker.url()).await.expect("a broker");
    nats.service("math").await.expect("subscribed")
}

/// Waits until the broker knows the subscriptions of a client.
async fn confirm(client: &async_nats::Client) {
    let subject = client.new_inbox();
    let mut own = client.subscribe(subject.clone()).await.expect("subscribed");
    client.publish(subject, "".into()).await.expect("sent");
    assert!(within(20, futures_util::StreamExt::next(&mut own)).await.is_some());
}
