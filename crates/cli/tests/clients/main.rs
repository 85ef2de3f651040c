//! Clients of other people's making against the daemon and the examples: whatever speaks JSON-RPC to
//! servers on stdio, sockets and the web. `scripts/clients` fetches those that are libraries. What is
//! missing is skipped, and says so, unless the environment variable REAL_CLIENTS is `required`.
#![cfg(unix)]

mod curl;
mod everyone;
mod foreign_server;
mod script;
#[path = "../support/mod.rs"]
mod support;
mod websockets;

use std::path::PathBuf;

use support::programs::root;
use support::{has, skip};

/// Where `scripts/clients` puts what it fetches.
fn fetched(name: &str) -> Option<PathBuf> {
    let path = root().join("target/clients").join(name);
    path.exists().then_some(path)
}
