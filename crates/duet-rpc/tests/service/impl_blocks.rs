//! `#[service]` on an `impl` block.

use std::sync::atomic::{AtomicU64, Ordering};

use duet_rpc::{Context, Failure, Router};
use serde_json::{Value, json};

use super::connect;

/// A generic type with a served `impl` block.
struct Counter<C> {
    count: AtomicU64,
    clock: C,
}

impl<C: Fn() -> u64> Counter<C> {
    fn new(clock: C) -> Self {
        Counter { count: AtomicU64::new(0), clock }
    }
}

#[duet_rpc::service(prefix = "counter.")]
impl<C: Fn() -> u64 + Send + Sync + 'static> Counter<C> {
    /// Adds to the count.
    pub async fn add(&self, #[rpc(default = 1)] by: u64) -> u64 {
        self.count.fetch_add(by, Ordering::Relaxed) + by
    }

    pub fn now(&self) -> Result<u64, Failure> {
        Ok((self.clock)())
    }

    pub async fn unit(&self, mut list: Vec<u8>, cx: Context) -> &'static str {
        list.clear();
        if cx.id().is_some() { "request" } else { "notification" }
    }

    #[rpc(name = "private")]
    async fn marked(&self) -> bool {
        self.not_served()
    }

    fn not_served(&self) -> bool {
        true
    }

    #[rpc(skip)]
    #[expect(dead_code, reason = "the method is not served")]
    pub async fn skipped(&self, _text: &str) {}

    #[expect(dead_code, reason = "the function has no receiver")]
    pub fn constant() -> u64 {
        7
    }
}

#[tokio::test]
async fn p7_an_impl_block_serves_its_public_methods() {
    let router = Counter::new(|| 12).into_router();
    let mut names: Vec<_> = router.methods().map(str::to_owned).collect();
    names.sort_unstable();
    assert_eq!(names, ["counter.add", "counter.now", "counter.unit", "private"]);
    assert_eq!(Counter::<fn() -> u64>::METHODS[0].summary(), "Adds to the count.");

    let (_server, peer) = connect(router, Router::new());
    for (method, params, expect) in [
        ("counter.add", json!([]), json!(1)),
        ("counter.add", json!({"by": 4}), json!(5)),
        ("counter.now", json!(null), json!(12)),
        ("counter.unit", json!([[1]]), json!("request")),
        ("private", json!(null), json!(true)),
    ] {
        let answer: Value = peer.call(method, &params).await.expect(method);
        assert_eq!(answer, expect, "{method}");
    }
}
