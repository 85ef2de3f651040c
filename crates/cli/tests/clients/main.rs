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
use std::process::{Command, Stdio};

/// Whether this program can be run at all.
fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Says that something is not tested, which must not happen where it is required.
fn skip(what: &str, why: &str) {
    let is_required = std::env::var_os("REAL_CLIENTS").is_some_and(|value| value == "required");
    assert!(!is_required, "{what} is required here, but {why}");
    support::say_skipped(what, why);
}

/// Where `scripts/clients` puts what it fetches.
fn fetched(name: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/clients");
    let path = folder.canonicalize().ok()?.join(name);
    path.exists().then_some(path)
}
