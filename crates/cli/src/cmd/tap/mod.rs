//! `tap`: stands between a client and a server, forwards every byte, and records them (W1–W9).
//!
//! ```text
//!  stdin  ──▶ pump c2s ──▶ server's stdin          each pump is a thread: read, write, hand over
//!  stdout ◀── pump s2c ◀── server's stdout
//!  stderr ◀── pump err ◀── server's stderr         the recorder is a thread: it may be slow or dead
//!                │
//!                └──▶ queue ──▶ recorder ──▶ trace file
//! ```
//!
//! No async runtime: a thread that sleeps in `read` is woken by the kernel and by nothing else.

mod child;
pub(crate) mod guard;
pub(crate) mod launch;
mod settings;
mod sockets;
mod tree;

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::os::unix::net::UnixStream;
use std::process::exit;
use std::thread;
use std::time::Duration;

use duet_rpc::is_signal_ignored;
use duet_rpc_trace::{Events, Feed, Stop, pump};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, setrlimit};

use self::child::{Ended, Pipes, Server};
use super::watch::{self, WatchTarget};
use crate::args::TapArgs;
use crate::console;
use crate::exit::{Exit, Problem};

/// The time without progress after which the recorder is left behind at the end.
const LAST_RECORDS: Duration = Duration::from_secs(2);

/// Runs the tap. With a server that it starts, it does not return: it ends as the server ended.
pub(crate) fn run(args: &TapArgs) -> Exit {
    let ended = match (&args.listen, &args.connect) {
        (Some(listen), Some(connect)) => sockets::run(args, listen, connect),
        _ if args.no_record => guard_only(args),
        _ => record(args),
    };
    match ended {
        Ok(Some(ended)) => end_like(ended),
        Ok(None) => Exit::Success,
        Err(problem) => {
            console::say(format_args!("{}", problem.message));
            problem.exit
        }
    }
}

/// Gives the server our own stdin, stdout and stderr, and only guards its processes.
fn guard_only(args: &TapArgs) -> Result<Option<Ended>, Problem> {
    let signals = Signals::receive().map_err(cannot_start)?;
    // The terminal would stop the server at its first read, because its process group is not ours.
    if io::stdin().is_terminal() {
        let (server, pipes) = Server::start(&args.command).map_err(cannot_start)?;
        signals.pass_on(server.signals().map_err(cannot_start)?, None);
        let outputs = forward(pipes, [None, None, None]).map_err(cannot_start)?;
        let ended = server.wait();
        outputs.into_iter().for_each(|output| drop(output.join()));
        return ended.map(Some).map_err(lost_server);
    }
    let stdio = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let server = Server::start_with(&args.command, stdio).map_err(cannot_start)?;
    // The server alone has them now, so their other ends see what it does.
    close_stdin();
    close_stdout();
    signals.pass_on(server.signals().map_err(cannot_start)?, None);
    server.wait().map(Some).map_err(lost_server)
}

fn record(args: &TapArgs) -> Result<Option<Ended>, Problem> {
    let recording = settings::recording(args, &args.command)?;
    let signals = Signals::receive().map_err(cannot_start)?;
    let (server, pipes) = Server::start(&args.command).map_err(cannot_start)?;
    let trace = recording.file.path.clone();
    let (feeds, recorder) = settings::start(recording);
    if args.web && recorder.is_some() {
        show(WatchTarget::File(trace));
    }
    let events = recorder.as_ref().map(|recorder| recorder.events());
    signals.pass_on(server.signals().map_err(cannot_start)?, events);
    let outputs = forward(pipes, feeds).map_err(cannot_start)?;

    let ended = server.wait();
    // All bytes that the server wrote before its end, however slowly the client reads them.
    for output in outputs {
        let _ = output.join();
    }
    if let Some(recorder) = recorder {
        if let Ok(ended) = ended {
            recorder.events().exit(ended.code, ended.signal, ended.left);
        }
        report_losses(recorder.finish(LAST_RECORDS));
    }
    ended.map(Some).map_err(lost_server)
}

/// Shows traces on a web page while this process runs. Without the page, bytes pass all the same.
fn show(target: WatchTarget) {
    match watch::start(target, 0) {
        Ok(url) => console::say(format_args!("watch it at {url}")),
        Err(error) => console::say(format_args!("cannot serve the web page: {error}")),
    }
}

/// Starts the pumps. Returns those of stdout and stderr.
fn forward(
    pipes: Pipes,
    [mut c2s, mut s2c, mut err]: [Option<Feed>; 3],
) -> io::Result<[thread::JoinHandle<()>; 2]> {
    let Pipes { stdin, stdout, stderr } = pipes;
    thread::Builder::new().name("c2s".to_owned()).spawn(move || {
        let stop = pump(rustix::stdio::stdin(), &stdin, c2s.as_mut());
        drop(stdin);
        if !matches!(stop, Stop::Eof) {
            close_stdin();
        }
    })?;
    let s2c = thread::Builder::new().name("s2c".to_owned()).spawn(move || {
        pump(&stdout, rustix::stdio::stdout(), s2c.as_mut());
        drop(stdout);
        close_stdout();
    })?;
    let err = thread::Builder::new().name("err".to_owned()).spawn(move || {
        pump(&stderr, rustix::stdio::stderr(), err.as_mut());
    })?;
    Ok([s2c, err])
}

/// Closes our stdin, so that the client gets EPIPE.
fn close_stdin() {
    if let Ok(null) = null() {
        let _ = rustix::stdio::dup2_stdin(&null);
    }
}

/// Closes our stdout, so that the client sees its end.
fn close_stdout() {
    if let Ok(null) = null() {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

/// A closed descriptor could be taken by the next file that is opened. `/dev/null` keeps its place.
fn null() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/null")
}

fn report_losses(finished: io::Result<duet_rpc_trace::Report>) {
    match finished {
        Ok(report) => {
            if let Some(error) = report.error {
                console::say(format_args!("the trace is incomplete: {error}"));
            }
        }
        Err(error) => console::say(format_args!("the trace is incomplete: {error}")),
    }
}

fn cannot_start(error: io::Error) -> Problem {
    Problem { exit: Exit::NotStarted, message: format!("cannot start the server: {error}") }
}

fn lost_server(error: io::Error) -> Problem {
    Problem::failure(error.to_string())
}

/// The signals that are passed on, each with a pipe that gets a byte when it arrives. A signal that was
/// ignored at the start stays ignored, here and in the server.
struct Signals(Vec<(i32, UnixStream)>);

impl Signals {
    fn receive() -> io::Result<Self> {
        let mut received = Vec::new();
        for signal in guard::PASSED_ON.into_iter().filter(|&signal| !is_signal_ignored(signal)) {
            let (arrived, tell) = UnixStream::pair()?;
            signal_hook::low_level::pipe::register(signal, tell)?;
            received.push((signal, arrived));
        }
        Ok(Signals(received))
    }

    /// Passes signals on to the server, on a thread of its own.
    fn pass_on(self, server: UnixStream, events: Option<&Events>) {
        let events = events.cloned();
        let pass_on = move || {
            loop {
                let sockets = self.0.iter().map(|(_, arrived)| arrived);
                let mut fds: Vec<_> = sockets.map(|it| PollFd::new(it, PollFlags::IN)).collect();
                let _ = poll(&mut fds, None);
                for (fd, (signal, arrived)) in fds.iter().zip(&self.0) {
                    let mut byte = [0];
                    if !fd.revents().is_empty() && rustix::io::read(arrived, &mut byte).is_ok() {
                        // Before the server can react to it.
                        if let Some(events) = &events {
                            events.signal(*signal);
                        }
                        child::send_signal(&server, *signal);
                    }
                }
            }
        };
        // Without a thread, signals keep their handlers and are not passed on.
        let _ = thread::Builder::new().name("signals".to_owned()).spawn(pass_on);
    }
}

/// Ends this process as the server ended.
fn end_like(ended: Ended) -> ! {
    if let Some(signal) = ended.signal {
        // The server has dumped its core already, if it should.
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        // Returns only if that fails.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
        // It does not know all signals. We handle none of the others.
        let _ = signal_hook::low_level::raise(signal);
        exit(128 + signal);
    }
    exit(ended.code.unwrap_or(1))
}
