//! What was measured. It is kept as JSON, and all tables and charts are made of it.

use serde::{Deserialize, Serialize};

use crate::load::Load;
use crate::server::Place;
use crate::wire::Framing;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    pub rows: Vec<Row>,
    pub peaks: Vec<Peak>,
    pub lives: Vec<Life>,
    pub system_calls: Vec<SystemCalls>,
    pub curves: Vec<Curve>,
    /// The servers that could not be measured, and why.
    pub skipped: Vec<String>,
    /// How evenly connections were served; only over sockets.
    #[serde(default)]
    pub fairness: Vec<Fairness>,
    /// The same over sockets, where it was measured.
    #[serde(default)]
    pub sockets: Option<Box<Figures>>,
}

/// One server under one load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub server: String,
    pub framing: Framing,
    pub place: Place,
    pub load: Load,
    /// Nanoseconds a message, in each round. Round by round the servers took turns.
    pub nanos: Vec<f64>,
    /// Nanoseconds of the server's time on a core, a message, in each round.
    pub cpu_nanos: Vec<f64>,
    /// Nanoseconds of the driver's time on a core, a message, in each round.
    #[serde(default)]
    pub driver_nanos: Vec<f64>,
    /// How often the server's threads were switched, a message.
    pub switches: f64,
    /// Of all rounds together, in nanoseconds; only where requests were sent one by one.
    pub latency: Option<Latency>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Latency {
    pub p50: u32,
    pub p99: u32,
    pub p999: u32,
}

/// From the start of a server to its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Life {
    pub server: String,
    pub framing: Framing,
    /// From the start to the first answer, in nanoseconds, in each round.
    pub start_nanos: Vec<f64>,
    /// What is in memory after the first answer, in KiB: the median of the rounds.
    pub idle_kib: u64,
}

/// The most that a server had in memory while the table was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Peak {
    pub server: String,
    pub framing: Framing,
    pub place: Place,
    pub kib: u64,
}

/// How long requests waited when all of many connections had one under way all the time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fairness {
    pub server: String,
    pub framing: Framing,
    pub connections: usize,
    /// Of the waits of all connections in all rounds, in nanoseconds.
    pub median: u32,
    pub p99: u32,
    pub worst: u32,
    /// How many answers the connection got that got the fewest in its round, and the most.
    pub fewest: u32,
    pub most: u32,
}

/// What a server asked of the system, a message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SystemCalls {
    pub server: String,
    pub framing: Framing,
    pub load: Load,
    pub all: f64,
    /// By name, the most frequent first.
    pub by_name: Vec<(String, f64)>,
}

/// How the cost of a message depends on something.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Curve {
    pub kind: CurveKind,
    pub server: String,
    pub framing: Framing,
    pub points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CurveKind {
    /// Against the size of the params, nested, so many under way that it is 64 KB or 64 of them.
    Size,
    /// Against the number of calls to the client that are not answered.
    PendingCalls,
    /// Against the number of requests that are not answered.
    RunningRequests,
    /// Against the number of messages that this process has served.
    Age,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Point {
    pub x: f64,
    /// Nanoseconds a message: the median of the rounds.
    pub nanos: f64,
    /// What is in memory, in KiB.
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
    /// How many times as long as the median the longest wait was.
    pub fn ratio(&self) -> f64 {
        f64::from(self.worst) / f64::from(self.median)
    }
}

impl Row {
    /// How many times as long as the limit it takes: the median of the rounds, each against the
    /// limit's round of the same minute.
    pub fn ratio_to(&self, limit: &Row) -> f64 {
        let ratios: Vec<_> =
            self.nanos.iter().zip(&limit.nanos).map(|(own, limit)| own / limit).collect();
        median(&ratios)
    }
}
