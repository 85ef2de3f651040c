//! A filter that enables the span of a request by its name, as `RUST_LOG=[request]=info` does, gets it
//! (G3).

use std::sync::atomic::{AtomicUsize, Ordering};

use duet_rpc::transport::memory;
use duet_rpc::{Failure, Peer, Profile, Router};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static SPANS: AtomicUsize = AtomicUsize::new(0);

struct ByName;

impl Subscriber for ByName {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == "request"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(SPANS.fetch_add(1, Ordering::Relaxed) as u64 + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn g3_a_filter_by_the_name_of_a_span_gets_the_span_of_each_request() {
    tracing::subscriber::set_global_default(ByName).expect("no other subscriber is set");
    let (here, there) = memory::pair();
    let router = Router::new()
        .method("a", async || Ok::<_, Failure>(()))
        .method("b", async || Ok::<_, Failure>(()));
    let _server = Peer::builder(there).profile(Profile::agent()).router(router).spawn();
    let client = Peer::builder(here).profile(Profile::agent()).router(Router::new()).spawn();
    for _ in 0..5 {
        client.call::<()>("a", ()).await.expect("it is served");
        client.call::<()>("b", ()).await.expect("it is served");
    }
    assert_eq!(SPANS.load(Ordering::Relaxed), 10);
}
