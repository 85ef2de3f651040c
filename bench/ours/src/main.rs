//! Our own echo server, as docs/serving.md has it.
//!
//! ```console
//! bench-ours lsp|ndjson|length raw|value
//! ```
//!
//! `raw` takes the params as JSON text, `value` builds a tree of them, as the other stacks do.
//! Besides what all of them serve there is `hold`, which is never answered, and `pend`, which makes
//! calls that nobody answers: to see what waiting costs.

use std::process::ExitCode;
use std::time::Duration;

use duet_rpc::proto::frame::{Framing, FramingChoice};
use duet_rpc::proto::policy::Order;
use duet_rpc::{Context, Failure, Profile, Router};
use serde_json::Value;
use serde_json::value::RawValue;

type Answer<T> = Result<T, Failure>;

/// More than any curve asks for.
const MANY: usize = 1 << 20;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let framing = match arguments.first().map(String::as_str) {
        Some("lsp") => Framing::Lsp,
        Some("ndjson") => Framing::Ndjson,
        Some("length") => Framing::Length,
        _ => return ExitCode::from(2),
    };
    let router = match arguments.get(1).map(String::as_str) {
        Some("raw") => Router::new()
            .method("echo", async |params: Box<RawValue>| Answer::Ok(params))
            .method("later", later::<Box<RawValue>>)
            .method("nap", nap::<Box<RawValue>>),
        Some("value") => Router::new()
            .method("echo", async |params: Value| Answer::Ok(params))
            .method("later", later::<Value>)
            .method("nap", nap::<Value>),
        _ => return ExitCode::from(2),
    };
    // As every server does that knows it: the first call is not watched on a thread of its own then.
    let router = router.quick("echo");
    let router = router.method("hold", std::future::pending::<Answer<()>>).method("pend", pend);
    let mut profile = Profile { order: Order::Concurrent, ..Profile::agent() };
    profile.framing = FramingChoice::Fixed(framing);
    profile.call_timeout = None;
    (profile.limits.in_flight, profile.limits.pending_calls) = (MANY, MANY);
    duet_rpc::serve(&profile, router)
}

async fn later<T>(params: T) -> Answer<T> {
    tokio::task::yield_now().await;
    Ok(params)
}

async fn nap<T>(params: T) -> Answer<T> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(params)
}

async fn pend((count,): (usize,), context: Context) -> Answer<()> {
    for _ in 0..count {
        let peer = context.peer().clone();
        tokio::spawn(async move { peer.call::<Value>("never", &[0; 0]).await });
    }
    Ok(())
}
