//! The daemon over real pipes, tested with the real binary (sections 1 to 5 and 10 of the contract).
#![cfg(unix)]

mod batches;
mod callback;
mod catalog;
mod echo;
mod events;
mod faults;
mod flood;
mod handoff;
mod limits;
mod methods;
mod order;
#[path = "../support/mod.rs"]
mod support;
mod testbed;

use duet_rpc::proto::frame::Framing;
use support::daemon::{Daemon, FRAMINGS, PROFILES, rpc};

/// Options for every profile in every framing.
fn ways(profiles: &[&'static str]) -> Vec<([&'static str; 4], Framing)> {
    let framings = |&profile| {
        FRAMINGS.map(|(name, framing)| (["--profile", profile, "--framing", name], framing))
    };
    profiles.iter().flat_map(framings).collect()
}

/// Like `ways`, without `auto`.
fn explicit_ways(profiles: &[&'static str]) -> Vec<([&'static str; 4], Framing)> {
    let mut ways = ways(profiles);
    ways.retain(|(options, _)| options[3] != "auto");
    ways
}

/// A message; without an id a notification, without params none.
fn message(id: Option<u64>, method: &str, params: &str) -> String {
    let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
    let params = if params.is_empty() { String::new() } else { format!(r#","params":{params}"#) };
    format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}"{params}}}"#)
}

/// Requests with the ids 1, 2, 3 …, each with a method and its params.
fn requests<M: AsRef<str>, P: AsRef<str>>(calls: &[(M, P)]) -> Vec<String> {
    let numbered = calls.iter().zip(1..);
    numbered
        .map(|((method, params), id)| message(Some(id), method.as_ref(), params.as_ref()))
        .collect()
}

/// Starts a daemon with these options, to talk to in this framing.
fn start(options: &[&str], framing: Framing) -> Daemon {
    Daemon::spawn(rpc(options), framing)
}
