//! `vanish`: looks for processes and memory that clients of a bridge leave behind. See `vanish --help`.

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    duet_rpc_trials::vanish::main()
}

#[cfg(not(unix))]
fn main() {}
