//! The measured figures, stored as JSON. All tables and charts are generated from them.

use serde::{Deserialize, Serialize};

use crate::load::Load;
use crate::server::Pinning;
use crate::wire::Framing;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    pub rows: Vec<Row>,
    pub peaks: Vec<Peak>,
    #[serde(rename = "lives")]
    pub startups: Vec<Startup>,
    pub system_calls: Vec<SystemCalls>,
    pub curves: Vec<Curve>,
    /// Servers that could not be measured.
    pub skipped: Vec<String>,
    /// Fairness between connections; only over sockets.
    #[serde(default)]
    pub fairness: Vec<Fairness>,
    /// The same over sockets, if measured.
    #[serde(default)]
    pub sockets: Option<Box<Figures>>,
}

/// One server under one load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub server: String,
    pub framing: Framing,
    #[serde(rename = "place")]
    pub cores: Pinning,
    pub load: Load,
    /// Nanoseconds per message, in each round. The servers took turns, round by round.
    pub nanos: Vec<f64>,
    /// Nanoseconds of the server's CPU time per message, in each round.
    pub cpu_nanos: Vec<f64>,
    /// Nanoseconds of the driver's CPU time per message, in each round.
    #[serde(default)]
    pub driver_nanos: Vec<f64>,
    /// Context switches of the server's threads per message.
    pub switches: f64,
    /// Over all rounds together, in nanoseconds; only if requests were sent one by one.
    pub latency: Option<Latency>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Latency {
    pub p50: u32,
    pub p99: u32,
    pub p999: u32,
}

/// The start of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Startup {
    pub server: String,
    pub framing: Framing,
    /// From the start to the first answer, in nanoseconds, in each round.
    pub start_nanos: Vec<f64>,
    /// Resident memory after the first answer, in KiB: the median of the rounds.
    pub idle_kib: u64,
}

/// Peak memory of a server while the table was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Peak {
    pub server: String,
    pub framing: Framing,
    #[serde(rename = "place")]
    pub cores: Pinning,
    pub kib: u64,
}

/// Waiting times with many connections that all have a request in flight all the time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fairness {
    pub server: String,
    pub framing: Framing,
    pub connections: usize,
    /// Over the waits of all connections in all rounds, in nanoseconds.
    pub median: u32,
    pub p99: u32,
    pub worst: u32,
    /// The fewest and the most answers that a connection got in its round.
    pub fewest: u32,
    pub most: u32,
}

/// System calls of a server per message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SystemCalls {
    pub server: String,
    pub framing: Framing,
    pub load: Load,
    pub all: f64,
    /// By name, the most frequent first.
    pub by_name: Vec<(String, f64)>,
}

/// Cost of a message against another quantity.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Curve {
    pub kind: CurveKind,
    pub server: String,
    pub framing: Framing,
    pub points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CurveKind {
    /// Size of the nested params, with 128 KB or 64 requests in flight.
    Size,
    /// Number of unanswered calls to the client.
    PendingCalls,
    /// Number of unanswered requests.
    RunningRequests,
    /// Number of messages that the process has served.
    Age,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Point {
    pub x: f64,
    /// Nanoseconds per message: the median of the rounds.
    pub nanos: f64,
    /// Resident memory, in KiB.
    pub resident_kib: u64,
}

pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

impl Fairness {
    /// Ratio of the longest wait to the median.
    pub fn ratio(&self) -> f64 {
        f64::from(self.worst) / f64::from(self.median)
    }
}

impl Row {
    /// Ratio of this server's time to the bare loop's. Each round is compared with the bare loop's
    /// round at the same time, and the result is the median.
    pub fn ratio_to(&self, limit: &Row) -> f64 {
        let ratios: Vec<_> =
            self.nanos.iter().zip(&limit.nanos).map(|(own, limit)| own / limit).collect();
        median(&ratios)
    }
}
