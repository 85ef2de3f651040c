//! The tools: what they are called, what they take, and what they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duet_rpc::Context;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{Client, Progress};

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Name {
    TextStatistics,
    CountPrimes,
    ListRoots,
    Status,
}

pub(crate) fn descriptions() -> Value {
    let number = json!({"type": "integer", "minimum": 0});
    json!([
        {
            "name": "text_statistics",
            "description": "Counts the characters, words and lines of a text.",
            "inputSchema": {
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
            },
            "outputSchema": {
                "type": "object",
                "properties": {"characters": number, "words": number, "lines": number},
                "required": ["characters", "words", "lines"],
            },
        },
        {
            "name": "count_primes",
            "description": "Counts the prime numbers up to a limit. It may take long, reports its \
                progress, and can be cancelled.",
            "inputSchema": {
                "type": "object",
                "properties": {"limit": {"type": "integer", "minimum": 0, "maximum": LARGEST}},
                "required": ["limit"],
            },
            "outputSchema": {
                "type": "object",
                "properties": {"primes": number},
                "required": ["primes"],
            },
        },
        {
            "name": "list_roots",
            "description": "Asks the client which folders it works in.",
            "inputSchema": {"type": "object"},
            "outputSchema": {
                "type": "object",
                "properties": {"roots": {"type": "array", "items": {"type": "string"}}},
                "required": ["roots"],
            },
        },
        {
            "name": "status",
            "description": "Tells how many counts of primes are running.",
            "inputSchema": {"type": "object"},
            "outputSchema": {
                "type": "object",
                "properties": {"running": number},
                "required": ["running"],
            },
        },
    ])
}

/// Runs a tool; an error is for the model to read.
pub(crate) async fn run(
    name: Name,
    arguments: Value,
    cx: &Context,
    progress: &Progress,
) -> Result<Value, String> {
    match name {
        Name::TextStatistics => text_statistics(read(arguments)?),
        Name::CountPrimes => count_primes(read(arguments)?, cx, progress).await,
        Name::ListRoots => list_roots(cx).await,
        Name::Status => Ok(json!({"running": cx.peer().extension::<Running>().count()})),
    }
}

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("The arguments are wrong: {error}"))
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

fn text_statistics(Text { text }: Text) -> Result<Value, String> {
    Ok(json!({
        "characters": text.chars().count(),
        "words": text.split_whitespace().count(),
        "lines": text.lines().count(),
    }))
}

/// The largest limit for primes. To get there takes hours.
const LARGEST: u64 = 1_000_000_000;
/// After how many numbers others get their turn, and the tool may be stopped.
const BREATH: u64 = 1000;
/// How often progress is reported, at most.
const REPORTS: u64 = 1000;

#[derive(Deserialize)]
struct Limit {
    limit: u64,
}

async fn count_primes(
    Limit { limit }: Limit,
    cx: &Context,
    progress: &Progress,
) -> Result<Value, String> {
    if limit > LARGEST {
        return Err(format!("The limit is larger than {LARGEST}."));
    }
    // When the request is cancelled, this function is dropped where it waits, and this with it.
    let _run = Run::begin(&cx.peer().extension::<Running>());
    let step = (limit / REPORTS).next_multiple_of(BREATH).max(BREATH);
    let mut primes = 0;
    for number in 0..=limit {
        primes += u64::from(is_prime(number));
        if number % BREATH == 0 {
            // A handler that never waits can never be cancelled.
            tokio::task::yield_now().await;
        }
        if number % step == 0 || number == limit {
            progress.report(number, limit).await?;
        }
    }
    Ok(json!({"primes": primes}))
}

fn is_prime(number: u64) -> bool {
    let mut divisors = (2..).take_while(|divisor| divisor * divisor <= number);
    number > 1 && divisors.all(|divisor| !number.is_multiple_of(divisor))
}

/// How many counts of primes run on a connection.
#[derive(Default)]
struct Running(Arc<AtomicU64>);

impl Running {
    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One of them, for as long as it lives.
struct Run(Arc<AtomicU64>);

impl Run {
    fn begin(running: &Running) -> Self {
        running.0.fetch_add(1, Ordering::Relaxed);
        Run(Arc::clone(&running.0))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Deserialize)]
struct Roots {
    roots: Vec<Root>,
}

#[derive(Deserialize)]
struct Root {
    uri: String,
}

async fn list_roots(cx: &Context) -> Result<Value, String> {
    if !cx.peer().extension::<Client>().has_roots.load(Ordering::Relaxed) {
        return Err("The client does not tell where it works.".to_owned());
    }
    // The client answers this although it waits for us.
    let answer = cx.peer().call::<Roots>("roots/list", ()).await;
    let roots = answer.map_err(|error| format!("The client could not be asked: {error:#}"))?.roots;
    Ok(json!({"roots": roots.into_iter().map(|root| root.uri).collect::<Vec<_>>()}))
}
