//! `unread`: measures a server whose clients never read. `unread --help` says how to call it.

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    duet_rpc_trials::unread::command::main(std::env::args().skip(1))
}

#[cfg(not(unix))]
fn main() {}
