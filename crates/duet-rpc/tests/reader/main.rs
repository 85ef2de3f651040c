//! A server on stdio: who reads its input, and where its handlers run. It has no harness, because it
//! starts itself as the server.

#[cfg(unix)]
mod blocked;
#[cfg(unix)]
mod inside;
#[cfg(unix)]
mod unix;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    unix::main()
}

#[cfg(not(unix))]
fn main() {}
