//! A client that reconnects: P6, and the parts of P2, P3, P5 and P9 that hold across breaks.
//!
//! The clock moves only when nothing else is left to do, so times are exact, and no test depends on the
//! speed of the machine.

mod breaks;
mod ends;
#[path = "../links/mod.rs"]
mod links;
#[cfg(unix)]
mod programs;
#[cfg(unix)]
mod sockets;
mod uses;
mod waits;

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duet_rpc::transport::memory::{self, Memory};
use duet_rpc::{
    Backoff, Client, ClientBuilder, ClientState, CloseReason, Disconnect, Error, ErrorKind,
    Failure, Peer, Profile, Router,
};
use tokio::time::Instant;

const MS: fn(u64) -> Duration = Duration::from_millis;
/// A back-off without randomness, so that each time is known.
const PLAIN: Backoff =
    Backoff { first: MS_100, factor: 2.0, most: SECOND, good_after: None, jitter: 0.0 };
const MS_100: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);
/// Longer than a connection must live to reset the back-off.
const LONG: Duration = Duration::from_secs(60);

/// The outcome of an attempt to connect.
#[derive(Clone, Copy)]
enum Does {
    Serve,
    /// Accepts, and drops the connection immediately.
    Drop,
    Fail(io::ErrorKind),
    Hang,
    Panic,
}

/// Servers to connect to, one for each connection.
#[derive(Clone)]
struct World(Arc<Inner>);

struct Inner {
    router: Router,
    /// The outcomes of the next attempts.
    script: Mutex<VecDeque<Does>>,
    /// The outcome of all attempts that the script does not list.
    rest: Mutex<Does>,
    servers: Mutex<Vec<Peer>>,
    /// The time of each attempt.
    attempts: Mutex<Vec<Instant>>,
    began: Instant,
}

impl World {
    fn new(router: Router) -> Self {
        World(Arc::new(Inner {
            router,
            script: Mutex::default(),
            rest: Mutex::new(Does::Serve),
            servers: Mutex::default(),
            attempts: Mutex::default(),
            began: Instant::now(),
        }))
    }

    fn next(&self, script: impl IntoIterator<Item = Does>) {
        self.0.script.lock().expect("no panic").extend(script);
    }

    fn always(&self, does: Does) {
        *self.0.rest.lock().expect("no panic") = does;
    }

    async fn connect(self) -> io::Result<Memory> {
        self.0.attempts.lock().expect("no panic").push(Instant::now());
        let next = self.0.script.lock().expect("no panic").pop_front();
        let does = next.unwrap_or(*self.0.rest.lock().expect("no panic"));
        let (here, there) = memory::pair();
        match does {
            Does::Serve => {
                let server = Peer::builder(there)
                    .profile(Profile::agent())
                    .router(self.0.router.clone())
                    .spawn();
                self.0.servers.lock().expect("no panic").push(server);
            }
            Does::Drop => drop(there),
            Does::Fail(kind) => return Err(kind.into()),
            Does::Hang => std::future::pending().await,
            Does::Panic => panic!("CANARY"),
        }
        Ok(here)
    }

    fn client(&self, router: Router) -> ClientBuilder {
        let world = self.clone();
        let connector = move || world.clone().connect();
        Client::builder(connector).profile(Profile::agent()).router(router).backoff(PLAIN)
    }

    async fn connected(&self) -> Client {
        self.client(Router::new()).connect().await.expect("the client connects")
    }

    /// The servers of all connections.
    fn servers(&self) -> Vec<Peer> {
        self.0.servers.lock().expect("no panic").clone()
    }

    /// The server of the last connection.
    fn server(&self) -> Peer {
        self.servers().pop().expect("there was a connection")
    }

    /// Closes the connection at the server, and waits until the client has noticed the end.
    async fn break_off(&self, client: &Client) {
        let peer = client.peer().expect("the client is connected");
        self.server().close().await;
        peer.closed().await;
    }

    fn connections(&self) -> usize {
        self.servers().len()
    }

    fn attempts(&self) -> usize {
        self.0.attempts.lock().expect("no panic").len()
    }

    /// Milliseconds between one attempt and the next, the first counted from the beginning.
    fn pauses(&self) -> Vec<u64> {
        let mut last = self.0.began;
        let attempts = self.0.attempts.lock().expect("no panic");
        let pause = |&at: &Instant| {
            // Timers have whole milliseconds, and may start within a millisecond.
            let pause = at.duration_since(std::mem::replace(&mut last, at));
            (pause.as_secs_f64() * 1000.0).round() as u64
        };
        attempts.iter().map(pause).collect()
    }
}

fn echo() -> Router {
    Router::new()
        .method("echo", async |(text,): (String,)| Ok::<_, Failure>(text))
        .method("never", async || -> Result<(), Failure> { std::future::pending().await })
}

/// The reason of the disconnect that caused an error.
fn reason(error: &Error) -> Option<CloseReason> {
    let cause = std::error::Error::source(error)?;
    cause.downcast_ref::<Disconnect>().map(Disconnect::reason)
}

fn assert_interrupted(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error:#}");
    assert!(error.is_recoverable());
}

async fn assert_works(client: &Client) {
    assert_eq!(client.call::<String>("echo", ["x"]).await.expect("the call is answered"), "x");
}

/// After the final end, every operation fails immediately, and no retry makes sense.
async fn assert_over(client: &Client, expected: CloseReason) {
    let since = Instant::now();
    let errors = [
        client.call::<String>("echo", ["x"]).await.expect_err("the client is closed"),
        client.notify("echo", ["x"]).await.expect_err("the client is closed"),
        client.connected().await.expect_err("the client is closed"),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Disconnected, "{error:#}");
        assert!(!error.is_recoverable());
        assert_eq!(reason(&error), Some(expected), "{error:#}");
    }
    assert!(client.peer().is_none());
    let ClientState::Disconnected(end) = client.state() else { panic!("{client:?}") };
    assert_eq!(end.reason(), expected);
    assert_eq!(client.closed().await.reason(), expected);
    assert_eq!(client.close().await.reason(), expected);
    assert_eq!(since.elapsed(), Duration::ZERO);
}
