//! Tools: names, schemas and functions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::agent::{AgentClient, Progress};
use crate::{ClientState, NumbersAndWords};

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
            "description": "Returns the number of running prime counts.",
            "inputSchema": {"type": "object"},
            "outputSchema": {
                "type": "object",
                "properties": {"running": number},
                "required": ["running"],
            },
        },
    ])
}

impl NumbersAndWords {
    /// Runs a tool. The model reads the error.
    pub(crate) async fn run(
        &self,
        name: Name,
        arguments: Value,
        progress: &Progress,
        client: &ClientState,
    ) -> Result<Value, String> {
        match name {
            Name::TextStatistics => text_statistics(read(arguments)?),
            Name::CountPrimes => count_primes(read(arguments)?, &self.running, progress).await,
            Name::ListRoots => list_roots(&progress.agent, client).await,
            Name::Status => Ok(json!({"running": self.running.count()})),
        }
    }
}

async fn list_roots(agent: &AgentClient, client: &ClientState) -> Result<Value, String> {
    if !client.has_roots.load(Ordering::Relaxed) {
        return Err("The client does not support `roots/list`.".to_owned());
    }
    // The client answers this call while its own call waits.
    let answer = agent.list_roots().await;
    let roots = answer.map_err(|error| format!("The call of the client failed: {error:#}"))?;
    let uris: Vec<_> = roots.roots.into_iter().map(|root| root.uri).collect();
    Ok(json!({"roots": uris}))
}

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("Invalid arguments: {error}"))
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

/// Maximum limit for primes. Counting to it takes hours.
const LARGEST: u64 = 1_000_000_000;
/// The tool yields after this many numbers. A cancellation takes effect there.
const YIELD_INTERVAL: u64 = 1000;
/// Maximum number of progress reports.
const REPORTS: u64 = 1000;

#[derive(Deserialize)]
struct Limit {
    limit: u64,
}

async fn count_primes(
    Limit { limit }: Limit,
    running: &Running,
    progress: &Progress,
) -> Result<Value, String> {
    if limit > LARGEST {
        return Err(format!("The limit is larger than {LARGEST}."));
    }
    // A cancelled request drops this future at its current `await`, and this value with it.
    let _run = Run::begin(running);
    let step = (limit / REPORTS).next_multiple_of(YIELD_INTERVAL).max(YIELD_INTERVAL);
    let mut primes = 0;
    for number in 0..=limit {
        primes += u64::from(is_prime(number));
        if number % YIELD_INTERVAL == 0 {
            // A handler without an `await` cannot be cancelled.
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

/// The number of running prime counts.
#[derive(Default)]
pub(crate) struct Running(Arc<AtomicU64>);

impl Running {
    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One running prime count. Its drop ends the count.
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
