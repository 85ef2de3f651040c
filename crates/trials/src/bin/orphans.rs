//! `orphans`: looks for processes that a call leaves behind. See `orphans --help`.

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    duet_rpc_trials::orphans::main()
}

#[cfg(not(unix))]
fn main() {}
