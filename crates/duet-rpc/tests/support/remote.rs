//! The raw other end of a connection, for tests that decide each byte that a peer reads.
#![allow(dead_code, reason = "each test file uses its part")]

use std::time::Duration;

use duet_rpc::transport::Stream;
use duet_rpc::{Peer, Profile, Router};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

/// A remote that sends and reads one message per line.
pub(crate) struct Remote(pub(crate) BufReader<DuplexStream>);

impl Remote {
    pub(crate) async fn send(&mut self, text: &str) {
        let line = format!("{text}\n");
        self.0.get_mut().write_all(line.as_bytes()).await.expect("the remote reads");
    }

    pub(crate) async fn next(&mut self) -> Value {
        let mut line = String::new();
        let read = tokio::time::timeout(Duration::from_secs(20), self.0.read_line(&mut line));
        read.await.expect("a line arrives").expect("the connection is open");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("a message: {line:?}"))
    }

    pub(crate) async fn ask(&mut self, text: &str) -> Value {
        self.send(text).await;
        self.next().await
    }
}

/// A peer with this router, and its remote.
pub(crate) fn serve(profile: &Profile, router: Router) -> (Peer, Remote) {
    let (here, there) = tokio::io::duplex(1024 * 1024);
    (
        Peer::builder(Stream::from_io(here)).profile(*profile).router(router).spawn(),
        Remote(BufReader::new(there)),
    )
}
