//! Cost of a generated handler: no more allocations than a handwritten closure (S3).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use duet_rpc::{Context, Failure, Router};
use serde::Deserialize;

use super::connect;

#[duet_rpc::service]
trait Sum {
    async fn add(&self, a: i64, b: i64) -> Result<i64, Failure>;
    fn plain(&self, a: i64, #[rpc(default)] b: i64) -> i64;
    async fn context(&self, a: i64, cx: Context, b: i64) -> i64;
}

#[derive(Default)]
struct Total(AtomicI64);

impl Total {
    fn sum(&self, a: i64, b: i64) -> i64 {
        self.0.fetch_add(a + b, Ordering::Relaxed)
    }
}

impl Sum for Total {
    async fn add(&self, a: i64, b: i64) -> Result<i64, Failure> {
        Ok(self.sum(a, b))
    }
    fn plain(&self, a: i64, b: i64) -> i64 {
        self.sum(a, b)
    }
    async fn context(&self, a: i64, _cx: Context, b: i64) -> i64 {
        self.sum(a, b)
    }
}

#[derive(Deserialize)]
struct Terms {
    a: i64,
    b: i64,
}

fn by_hand() -> Router {
    let total = Arc::new(Total::default());
    let (add, plain, context) = (Arc::clone(&total), Arc::clone(&total), total);
    Router::new()
        .method("add", move |terms: Terms| {
            let total = Arc::clone(&add);
            async move { Ok::<_, Failure>(total.sum(terms.a, terms.b)) }
        })
        .method("plain", move |terms: Terms| {
            let total = Arc::clone(&plain);
            async move { Ok::<_, Failure>(total.sum(terms.a, terms.b)) }
        })
        .method("context", move |terms: Terms, _: Context| {
            let total = Arc::clone(&context);
            async move { Ok::<_, Failure>(total.sum(terms.a, terms.b)) }
        })
}

/// The number of allocations of 200 calls, after a warm-up that sizes all buffers.
fn allocations(router: Router, method: &str) -> u64 {
    const CALLS: usize = 200;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (_server, peer) = runtime.block_on(async { connect(router, Router::new()) });
    let params = serde_json::json!({"a": 1, "b": 2});
    let call_all = || {
        runtime.block_on(async {
            for _ in 0..CALLS {
                peer.call::<i64>(method, &params).await.expect("the call is answered");
            }
        });
    };
    call_all();
    allocation_counter::measure(call_all).count_total
}

#[test]
fn s3_generated_handler_allocates_no_more_than_a_handwritten_one() {
    for method in ["add", "plain", "context"] {
        let generated = allocations(Total::default().into_router(), method);
        let by_hand = allocations(by_hand(), method);
        // A few buffers per run are chance. One buffer per call is not.
        assert!(generated.abs_diff(by_hand) < 20, "{method}: {generated}, by hand {by_hand}");
    }
}
