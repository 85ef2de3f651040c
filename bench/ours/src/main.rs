//! Our echo server, written as in docs/serving.md.
//!
//! ```console
//! bench-ours lsp|ndjson|length raw|typed|value
//! bench-ours tcp|ws|http raw|typed|value THREADS
//! ```
//!
//! `raw` takes the params as JSON text, `typed` reads them into Rust types, and `value` builds a
//! tree, as the other stacks do. The second form listens and prints its address; it starts a
//! thread for each processor that the caller lets it use, and ignores THREADS.
//!
//! There are two further methods, to measure the cost of waiting: `hold` is never answered, and
//! `pend` makes calls that the client never answers.

mod typed;

use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use duet_rpc::proto::frame::{Framing, FramingChoice};
use duet_rpc::proto::policy::Order;
use duet_rpc::transport::Listener;
use duet_rpc::{Context, Failure, Profile, Router, Server, quick};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::typed::Params;

type Answer<T> = Result<T, Failure>;

/// More than any curve needs.
const MANY: usize = 1 << 20;

/// Iterations of `spin`, the same in all servers.
const SPINS: u64 = 25_000;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (framing, address) = match arguments.first().map(String::as_str) {
        Some("lsp") => (Framing::Lsp, None),
        Some("ndjson") => (Framing::Ndjson, None),
        Some("length") => (Framing::Length, None),
        Some("tcp") => (Framing::Ndjson, Some("tcp://127.0.0.1:0")),
        Some("ws") => (Framing::Ndjson, Some("ws://127.0.0.1:0/")),
        Some("http") => (Framing::Ndjson, Some("http://127.0.0.1:0/")),
        _ => return ExitCode::from(2),
    };
    // Marked as quick, as in every server with such handlers: otherwise the first call would go to
    // a worker thread.
    let router = match arguments.get(1).map(String::as_str) {
        Some("raw") => Router::new()
            .method("echo", quick(async |params: Box<RawValue>| Answer::Ok(params)))
            .method("spin", quick(spin::<Box<RawValue>>))
            .method("later", later::<Box<RawValue>>)
            .method("nap", nap::<Box<RawValue>>),
        Some("typed") => Router::new()
            .method("echo", quick(async |params: Params| Answer::Ok(params)))
            .method("spin", quick(spin::<Params>))
            .method("later", later::<Params>)
            .method("nap", nap::<Params>),
        Some("value") => Router::new()
            .method("echo", quick(async |params: Value| Answer::Ok(params)))
            .method("spin", quick(spin::<Value>))
            .method("later", later::<Value>)
            .method("nap", nap::<Value>),
        _ => return ExitCode::from(2),
    };
    let router = router.method("hold", std::future::pending::<Answer<()>>).method("pend", pend);
    let mut profile = Profile::agent().with(|it| it.order = Order::Concurrent);
    profile.framing = FramingChoice::Fixed(framing);
    profile.call_timeout = None;
    (profile.limits.in_flight, profile.limits.pending_calls) = (MANY, MANY);
    match address {
        None => duet_rpc::serve(profile, router),
        Some(address) => match listen(&profile, router, address) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        },
    }
}

/// Prints its address, serves, and ends with stdin.
fn listen(profile: &Profile, router: Router, address: &str) -> Result<(), Box<dyn Error>> {
    let listener = Listener::bind(address)?;
    println!("{}", listener.address());
    // A copy of the descriptor, because the library takes over stdin.
    let stdin = rustix::io::dup(rustix::stdio::stdin())?;
    std::thread::spawn(move || {
        let _ = rustix::io::read(stdin, &mut [0]);
        std::process::exit(0);
    });
    Ok(Server::new().profile(*profile).router(router).listen(listener).run()?)
}

async fn spin<T>(params: T) -> Answer<T> {
    let mut number = 1u64;
    for _ in 0..SPINS {
        number = black_box(number).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (number >> 29);
    }
    black_box(number);
    Ok(params)
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
