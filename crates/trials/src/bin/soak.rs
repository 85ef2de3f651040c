//! `soak`: one daemon under a random mix of all that clients do. `soak --help` says how to call it.

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    duet_rpc_trials::soak::main()
}

#[cfg(not(unix))]
fn main() {}
