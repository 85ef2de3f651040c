//! The programs that the test starts: roles of the test itself.

use std::env;
use std::fs;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use duet_rpc::transport::{Child, Transport};
use duet_rpc::{Parent, Profile, Router, Server};

/// The variable with the role of a started program.
pub(crate) const ROLE: &str = "DUET_RPC_TEST_ROLE";

/// The variable with the id of a process with which a server ends.
pub(crate) const NAMED: &str = "DUET_RPC_TEST_NAMED";

/// Longer than a test.
const LONG: Duration = Duration::from_secs(600);

/// A process that was killed may take this long to be gone.
const GONE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy)]
pub(crate) enum Role {
    /// Serves until its end.
    Server,
    /// Serves until its end, or the end of its parent.
    Watcher,
    /// Starts a server with its own stdin and stdout, and waits.
    Starter,
    /// Prints its id, and ignores the end of its stdin.
    Stubborn,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Server => "server",
            Role::Watcher => "watcher",
            Role::Starter => "starter",
            Role::Stubborn => "stubborn",
        }
    }
}

/// Plays a role.
pub(crate) fn run(role: &str) -> ExitCode {
    if role == Role::Starter.name() {
        let mut server = Command::new(env::current_exe().expect("its path"));
        let status = server.env(ROLE, Role::Watcher.name()).status();
        ExitCode::from(u8::from(!status.is_ok_and(|status| status.success())))
    } else if role == Role::Stubborn.name() {
        stubborn()
    } else {
        let server = Server::new().profile(Profile::agent()).router(router());
        let watches = role == Role::Watcher.name();
        let server = if watches { server.exit_with_parent() } else { server };
        let server = match env::var(NAMED) {
            Ok(id) => server.exit_with_process(id.parse().expect("an id")),
            Err(_) => server,
        };
        server.run().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
    }
}

#[allow(clippy::print_stdout)]
fn router() -> Router {
    Router::new()
        .method("ready", async || true)
        .method("print", async || {
            println!("a stray print");
            true
        })
        .method("sleep", async || tokio::time::sleep(LONG).await)
        .method("block", duet_rpc::blocking(|| thread::sleep(LONG)))
        .method("spin", duet_rpc::blocking(spin))
        .shutdown_method("shutdown", async || {})
}

fn spin() {
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        std::hint::spin_loop();
    }
}

fn stubborn() -> ExitCode {
    eprintln!("{}", std::process::id());
    thread::sleep(LONG);
    ExitCode::SUCCESS
}

/// Starts a wrapper that starts a program that ignores its end, and closes it: nothing of it is left.
pub(crate) fn tree() {
    let folder = env::temp_dir().join(format!("duet-rpc-tree-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let child = Child::spawn(wrapper(&folder)).expect("it starts");
        let mut child = child.grace(Duration::from_millis(100)).on_stderr(move |line| {
            let _ = tell.send(line.to_owned());
        });
        // wine writes messages of its own there.
        let id = loop {
            let line = told.recv().await.expect("it prints its id");
            if let Ok(id) = line.trim().parse() {
                break id;
            }
        };
        let stubborn = Parent::with_id(id).expect("a process of this user");
        assert!(!stubborn.is_gone());
        let report = std::future::poll_fn(|cx| child.poll_close(cx)).await;
        assert!(!report.stopped.is_empty(), "{report:?}");
        let begun = Instant::now();
        while !stubborn.is_gone() {
            assert!(begun.elapsed() < GONE, "process {id} is left");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    fs::remove_dir_all(folder).expect("it is ours");
}

/// A script that a package manager would install, named without its ending, as in `npx`.
#[cfg(windows)]
fn wrapper(folder: &std::path::Path) -> tokio::process::Command {
    let program = env::current_exe().expect("its path");
    let script = format!("@echo off\r\n\"{}\"\r\n", program.display());
    fs::write(folder.join("wrapper.cmd"), script).expect("it is ours");
    let mut command = tokio::process::Command::new(folder.join("wrapper"));
    command.env(ROLE, Role::Stubborn.name());
    command
}

#[cfg(unix)]
fn wrapper(folder: &std::path::Path) -> tokio::process::Command {
    let script = folder.join("wrapper");
    let program = env::current_exe().expect("its path");
    fs::write(&script, format!("'{}'\nexit $?\n", program.display())).expect("it is ours");
    let mut command = tokio::process::Command::new("sh");
    command.arg(script).env(ROLE, Role::Stubborn.name());
    command
}
