//! `unread`: measures a server whose clients never read. See `unread --help`.

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    duet_rpc_trials::unread::main()
}

#[cfg(not(unix))]
fn main() {}
