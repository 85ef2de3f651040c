//! A server on stdio: the thread that reads its input, and the threads of its handlers. This test has no
//! harness, because it starts itself as the server.

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
