//! The load on a server: method, size, and number of concurrent requests.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Load {
    /// Number of connections, each with its own requests.
    #[serde(default = "one")]
    pub connections: usize,
    /// Number of requests in flight per connection; 1 is a round trip.
    pub window: usize,
    pub shape: Shape,
    /// Size of the params, in bytes of JSON.
    pub size: usize,
    pub handler: Handler,
}

/// Shape of the params.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// One long string.
    Text,
    /// A list of records with lists, records and numbers in them.
    Nested,
}

/// Work of the handler before it returns the params.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Handler {
    /// None: it is ready immediately.
    Echo,
    /// It yields once.
    Later,
    /// It sleeps for a millisecond.
    Nap,
    /// It computes for much longer than the server takes to read and write the message.
    Spin,
}

fn one() -> usize {
    1
}

impl Handler {
    pub fn method(self) -> &'static str {
        match self {
            Handler::Echo => "echo",
            Handler::Later => "later",
            Handler::Nap => "nap",
            Handler::Spin => "spin",
        }
    }
}

const fn load(window: usize, size: usize, shape: Shape, handler: Handler) -> Load {
    Load { connections: 1, window, shape, size, handler }
}

impl Load {
    /// A load with an immediate handler, over one connection.
    pub const fn echo(window: usize, size: usize, shape: Shape) -> Self {
        load(window, size, shape, Handler::Echo)
    }

    /// Small requests over many connections, one at a time over each.
    pub const fn many(connections: usize, handler: Handler) -> Self {
        Load { connections, ..load(1, 64, Shape::Text, handler) }
    }
}

/// The rows of the table.
pub const TABLE: [Load; 14] = [
    load(1, 64, Shape::Text, Handler::Echo),
    load(1, 1_000, Shape::Text, Handler::Echo),
    load(1, 1_000, Shape::Nested, Handler::Echo),
    load(64, 64, Shape::Text, Handler::Echo),
    load(64, 64, Shape::Nested, Handler::Echo),
    load(64, 1_000, Shape::Text, Handler::Echo),
    load(64, 1_000, Shape::Nested, Handler::Echo),
    load(8, 64_000, Shape::Text, Handler::Echo),
    load(8, 64_000, Shape::Nested, Handler::Echo),
    load(2, 1_000_000, Shape::Text, Handler::Echo),
    load(2, 1_000_000, Shape::Nested, Handler::Echo),
    load(1, 64, Shape::Text, Handler::Later),
    load(64, 64, Shape::Text, Handler::Later),
    load(64, 64, Shape::Text, Handler::Nap),
];

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.connections, self.window) {
            (1, 1) => write!(f, "round trip, ")?,
            (1, window) => write!(f, "{window} at once, ")?,
            (connections, _) => write!(f, "{connections} connections, ")?,
        }
        match self.size {
            size if size >= 1_000_000 => write!(f, "{} MB", size / 1_000_000)?,
            size if size >= 1_000 => write!(f, "{} KB", size / 1_000)?,
            size => write!(f, "{size} B")?,
        }
        if self.shape == Shape::Nested {
            write!(f, " nested")?;
        }
        match self.handler {
            Handler::Echo => Ok(()),
            Handler::Later => write!(f, ", handler yields"),
            Handler::Nap => write!(f, ", handler sleeps 1 ms"),
            Handler::Spin => write!(f, ", handler calculates"),
        }
    }
}
