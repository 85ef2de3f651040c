//! `soak`: runs one daemon under random client traffic. See `soak --help`.

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    duet_rpc_trials::soak::main()
}

#[cfg(not(unix))]
fn main() {}
