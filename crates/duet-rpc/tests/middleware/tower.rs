//! Layers of the `tower` crates: results, errors, and a service that is not ready.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use duet_rpc::{Failure, HandlerService, Request, Router};
use serde_json::json;
use serde_json::value::RawValue;
use tower_layer::{Layer, layer_fn};
use tower_service::Service;

use super::{answers, outcome, request};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A service that accepts a fixed number of messages, and is never ready after that. It boxes errors.
#[derive(Clone)]
struct Limited {
    inner: HandlerService,
    left: Arc<AtomicUsize>,
}

impl Service<Request> for Limited {
    type Response = Box<RawValue>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Box<RawValue>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        let taken =
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if taken.is_ok() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let reply = self.inner.call(request);
        Box::pin(async move { Ok(reply.await?) })
    }
}

fn limited(left: usize) -> impl Layer<HandlerService, Service = Limited> {
    let left = Arc::new(AtomicUsize::new(left));
    layer_fn(move |inner| Limited { inner, left: Arc::clone(&left) })
}

#[tokio::test]
async fn p7_layer_serves_all_methods_and_answers_busy_when_not_ready() {
    let router = Router::new()
        .method("a", || "a")
        .method("b", async || {
            tokio::task::yield_now().await;
            "b"
        })
        .method("fail", || -> Result<(), Failure> { Err(Failure::new(-32077, "Failed")) })
        .layer(limited(3));
    let methods = ["fail", "a", "b", "a"];
    let messages: Vec<_> = (0..4).map(|id| request(id, methods[id as usize])).collect();
    let messages: Vec<_> = messages.iter().map(String::as_str).collect();
    let mut got = answers(router, &messages, 4).await;
    got.sort_by_key(|answer| answer["id"].as_u64());
    let expected = [json!(-32077), json!("a"), json!("b"), json!(-32000)];
    for (answer, expected) in got.iter().zip(expected) {
        assert_eq!(*outcome(answer), expected, "{answer}");
    }
    assert_eq!(got[3]["error"]["data"]["reason"], "overloaded");
}
