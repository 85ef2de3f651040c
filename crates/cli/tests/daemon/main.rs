//! The daemon as its clients meet it: the real binary, over real pipes (sections 1 to 5 and 10 of the
//! contract).
#![cfg(unix)]

mod batches;
mod callback;
mod catalog;
mod echo;
mod events;
mod faults;
mod flood;
mod hands;
mod limits;
mod methods;
mod order;
#[path = "../support/mod.rs"]
mod support;
mod testbed;

use duet_rpc::proto::frame::Framing;
use support::daemon::{Daemon, FRAMINGS, PROFILES, rpc};

/// Every profile in every framing, as options.
fn ways(profiles: &[&'static str]) -> Vec<([&'static str; 4], Framing)> {
    let framings = |&profile| {
        FRAMINGS.map(|(name, framing)| (["--profile", profile, "--framing", name], framing))
    };
    profiles.iter().flat_map(framings).collect()
}

/// The same, where nothing is left to be found out by the daemon.
fn explicit_ways(profiles: &[&'static str]) -> Vec<([&'static str; 4], Framing)> {
    let mut ways = ways(profiles);
    ways.retain(|(options, _)| options[3] != "auto");
    ways
}

/// A message; without an id it is a notification, and without params it has none.
fn message(id: Option<u64>, method: &str, params: &str) -> String {
    let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
    let params = if params.is_empty() { String::new() } else { format!(r#","params":{params}"#) };
    format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}"{params}}}"#)
}

/// Requests with the ids 1, 2, 3 …, each a method and its params.
fn requests<M: AsRef<str>, P: AsRef<str>>(calls: &[(M, P)]) -> Vec<String> {
    let numbered = calls.iter().zip(1..);
    numbered
        .map(|((method, params), id)| message(Some(id), method.as_ref(), params.as_ref()))
        .collect()
}

/// Starts a daemon with these options, which is spoken to in this framing.
fn start(options: &[&str], framing: Framing) -> Daemon {
    Daemon::of(rpc(options), framing)
}
