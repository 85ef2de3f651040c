//! The saboteur: it stands between a client and a server, and spoils one thing that passes. The tests run
//! every client through it, as a test that does not notice a broken server shows nothing.
//!
//! It is started in the server's place, under the server's name and with its arguments. The real one is in
//! the folder `real` beside it, and the environment variable `SABOTAGE` has the name of a [`Mischief`].

mod mischief;
mod units;

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
        // It reads no stdin then, whose end would end it.
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
        return Err(io::Error::other("it does not know under which name it was started"));
    };
    Ok(folder.join("real").join(name))
}

/// A client that wants the server to end means the server, and not whoever stands before it.
fn pass_signals_on(server: &Child) -> io::Result<()> {
    let pid = Pid::from_child(server);
    for (number, signal) in [(SIGHUP, Signal::HUP), (SIGINT, Signal::INT), (SIGTERM, Signal::TERM)]
    {
        let (mut arrivals, arrives) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(number, arrives)?;
        thread::spawn(move || {
            while arrivals.read_exact(&mut [0]).is_ok() {
                // It may be gone.
                let _ = kill_process(pid, signal);
            }
        });
    }
    Ok(())
}

/// Returns when the server has said its last word.
fn stand_between_pipes(server: &mut Child, mischief: Mischief) -> io::Result<()> {
    let (stdin, stdout) = (server.stdin.take(), server.stdout.take());
    let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
        return Err(io::Error::other("the server has no pipes"));
    };
    let spoilers = mischief.spoilers();
    thread::spawn(move || pass(io::stdin(), stdin, spoilers.to_server));
    pass(stdout, io::stdout(), spoilers.to_client);
    Ok(())
}

/// Listens in the server's place, and says so in its place.
fn stand_between_sockets(server: &mut Child, mischief: Mischief) -> io::Result<()> {
    let stderr = server.stderr.take().ok_or_else(|| io::Error::other("no stderr"))?;
    let mut lines = BufReader::new(stderr).lines();
    let line = lines.next().unwrap_or_else(|| Err(io::Error::other("it says nothing")))?;
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

/// Passes on what comes from one side to the other, until either is gone.
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
            // What is not spoiled goes on in the pieces that it comes in.
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
