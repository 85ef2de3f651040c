//! The spy: starts a server and copies the bytes on its stdin and stdout to files, so that the tests can compare
//! them with the trace of a tap.
//!
//! `CAPTURE=PATH spy PROGRAM [ARGUMENT]…` writes `PATH.c2s` and `PATH.s2c`. Signals go to the server, and the exit
//! status is that of the server.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        eprintln!("spy: {error}");
        ExitCode::from(101)
    })
}

fn run() -> io::Result<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let program = words.next().ok_or_else(|| io::Error::other("no program"))?;
    let path = std::env::var("CAPTURE").map_err(io::Error::other)?;
    let mut command = Command::new(program);
    let mut server = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    pass_signals_on(&server)?;
    let (stdin, stdout) = (server.stdin.take(), server.stdout.take());
    let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
        return Err(io::Error::other("the server has no pipes"));
    };
    let [c2s, s2c] = ["c2s", "s2c"].map(|name| File::create(format!("{path}.{name}")));
    let (c2s, s2c) = (c2s?, s2c?);
    thread::spawn(move || copy(io::stdin(), stdin, c2s));
    copy(stdout, io::stdout(), s2c)?;
    let code = server.wait()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(102)))
}

/// Passes signals on: a client that sends one means the server.
fn pass_signals_on(server: &Child) -> io::Result<()> {
    let pid = Pid::from_child(server);
    for (number, signal) in [(SIGHUP, Signal::HUP), (SIGINT, Signal::INT), (SIGTERM, Signal::TERM)]
    {
        let (mut arrivals, arrives) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(number, arrives)?;
        thread::spawn(move || {
            while arrivals.read_exact(&mut [0]).is_ok() {
                // The server may have exited.
                let _ = kill_process(pid, signal);
            }
        });
    }
    Ok(())
}

/// Copies one direction piece by piece, until either side closes.
fn copy(mut from: impl Read, mut to: impl Write, mut file: File) -> io::Result<()> {
    let mut piece = vec![0; 64 * 1024];
    loop {
        let count = match from.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(count) => count,
            Err(_) => 0,
        };
        file.write_all(&piece[..count])?;
        if to.write_all(&piece[..count]).and_then(|()| to.flush()).is_err() || count == 0 {
            return Ok(());
        }
    }
}
