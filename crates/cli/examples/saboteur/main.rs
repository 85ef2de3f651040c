//! The saboteur: a proxy between a client and a server that corrupts one kind of message. The tests run every
//! client through it, because a test that does not notice a broken server proves nothing.
//!
//! It runs in the server's place, under the server's name and with its arguments. The real server is in the
//! folder `real` beside it, and the environment variable `SABOTAGE` names a [`Mischief`]. With `CAPTURE=PATH` it
//! writes the bytes on stdin and stdout to `PATH.c2s` and `PATH.s2c`, to compare them with a trace.

mod mischief;
mod units;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use mischief::{Mischief, Spoiler};
use units::Units;

fn main() -> ExitCode {
    match run() {
        Ok(status) => status,
        Err(error) => {
            eprintln!("saboteur: {error}");
            ExitCode::from(101)
        }
    }
}

fn run() -> io::Result<ExitCode> {
    let name = std::env::var("SABOTAGE").unwrap_or_default();
    let mischief = Mischief::named(&name)
        .ok_or_else(|| io::Error::other(format!("SABOTAGE: there is no mischief `{name}`")))?;
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let listens = arguments.iter().any(|argument| argument == "--listen");
    let mut command = Command::new(real_server()?);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    if listens {
        // A listening server does not read stdin, so the end of stdin would not end it.
        command.arg("--exit-with-parent").stderr(Stdio::piped());
    }
    let mut server = command.spawn()?;
    pass_signals_on(&server)?;
    match listens {
        true => stand_between_sockets(&mut server, mischief)?,
        false => stand_between_pipes(&mut server, mischief)?,
    }
    let status = server.wait()?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(102);
    Ok(ExitCode::from(if mischief == Mischief::Status { 3 } else { status }))
}

fn real_server() -> io::Result<PathBuf> {
    let name = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let (Some(folder), Some(name)) = (name.parent(), name.file_name()) else {
        return Err(io::Error::other("its own program name is unknown"));
    };
    Ok(folder.join("real").join(name))
}

/// Passes signals on: a client that sends one means the server, not this proxy.
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

/// Connects the pipes. Returns at the end of the server's output.
fn stand_between_pipes(server: &mut Child, mischief: Mischief) -> io::Result<()> {
    let (stdin, stdout) = (server.stdin.take(), server.stdout.take());
    let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
        return Err(io::Error::other("the server has no pipes"));
    };
    let spoilers = mischief.spoilers();
    let (c2s, s2c) = (capture("c2s")?, capture("s2c")?);
    thread::spawn(move || pass(Tee(io::stdin(), c2s), stdin, spoilers.to_server));
    pass(Tee(stdout, s2c), io::stdout(), spoilers.to_client);
    Ok(())
}

/// The file for the bytes of a direction, if they are wanted.
fn capture(direction: &str) -> io::Result<Option<File>> {
    let path = std::env::var("CAPTURE").ok();
    path.map(|path| File::create(format!("{path}.{direction}"))).transpose()
}

/// A reader, and a file that gets all bytes that were read.
struct Tee<R>(R, Option<File>);

impl<R: Read> Read for Tee<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        if let Some(file) = &mut self.1 {
            file.write_all(&buffer[..count])?;
        }
        Ok(count)
    }
}

/// Listens in the server's place, and prints its own address.
fn stand_between_sockets(server: &mut Child, mischief: Mischief) -> io::Result<()> {
    let stderr = server.stderr.take().ok_or_else(|| io::Error::other("no stderr"))?;
    let mut lines = BufReader::new(stderr).lines();
    let line =
        lines.next().unwrap_or_else(|| Err(io::Error::other("the server prints no address")))?;
    let (words, theirs) =
        line.rsplit_once("://").ok_or_else(|| io::Error::other(format!("no address: {line}")))?;
    let (theirs, path) = theirs.split_at(theirs.find('/').unwrap_or(theirs.len()));
    let (theirs, listener) = (Arc::<str>::from(theirs), TcpListener::bind("127.0.0.1:0")?);
    eprintln!("{words}://{}{path}", listener.local_addr()?);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let theirs = theirs.clone();
            thread::spawn(move || stand_between(&client, &TcpStream::connect(&*theirs)?, mischief));
        }
    });
    for line in lines.map_while(Result::ok) {
        eprintln!("{line}");
    }
    Ok(())
}

fn stand_between(client: &TcpStream, server: &TcpStream, mischief: Mischief) -> io::Result<()> {
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    let spoilers = mischief.spoilers();
    thread::spawn(move || {
        pass(&from_client, &to_server, spoilers.to_server);
        let _ = to_server.shutdown(std::net::Shutdown::Write);
    });
    pass(server, client, spoilers.to_client);
    client.shutdown(std::net::Shutdown::Write)
}

/// Copies one direction, until either side closes.
fn pass(mut from: impl Read, mut to: impl Write, mut spoiler: Option<Spoiler>) {
    let (mut units, mut chunk) = (Units::default(), vec![0; 64 * 1024]);
    loop {
        let count = match from.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(count) => count,
            Err(_) => 0,
        };
        let mut output = Vec::new();
        match &mut spoiler {
            // Unchanged data is copied piece by piece, as it was read.
            None => output.extend_from_slice(&chunk[..count]),
            Some(spoiler) => {
                units.feed(&chunk[..count]);
                while let Some(unit) = units.next_unit(count == 0) {
                    spoiler.pass(&unit, &mut output);
                }
            }
        }
        if to.write_all(&output).and_then(|()| to.flush()).is_err() || count == 0 {
            return;
        }
    }
}
