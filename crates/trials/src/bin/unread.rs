//! `unread`: measures a server whose clients never read. `unread --help` says how to call it.

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    duet_rpc_trials::unread::main()
}

#[cfg(not(unix))]
fn main() {}
