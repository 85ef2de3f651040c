//! Foreign clients against the daemon and the examples, on stdio, sockets and the web. `scripts/clients`
//! fetches the libraries. A missing client is skipped with a message, unless the environment variable
//! REAL_CLIENTS is `required`.
#![cfg(unix)]

mod axum;
#[path = "../../../duet-rpc/tests/support/certificates.rs"]
mod certificates;
mod certified;
mod chromium;
mod curl;
mod everyone;
mod foreign_server;
mod generated;
mod nginx;
mod openrpc;
mod real_servers;
mod sabotage;
mod script;
#[path = "../support/mod.rs"]
mod support;
mod websockets;

use std::path::PathBuf;

use support::programs::root;
use support::{has, skip};

/// Path of a file fetched by `scripts/clients`.
fn fetched(name: &str) -> Option<PathBuf> {
    let path = root().join("target/clients").join(name);
    path.exists().then_some(path)
}
