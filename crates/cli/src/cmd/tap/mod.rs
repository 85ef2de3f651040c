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
//! With `--fault`, the pumps of c2s and s2c are those of `duet_rpc_trace::fault_pump`, which parse messages.
//!
//! No async runtime: a thread that sleeps in `read` is woken by the kernel and by nothing else.

mod faults;
mod last_bytes;
mod settings;
mod sockets;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::iter::once;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use duet_rpc_trace::{Dir, Events, FaultEnd, FaultLink, Feed, Stop, discard, fault_pump, pump};

use self::faults::FaultTotals;
pub(super) use self::faults::{add_counts, name_unused_rules};
use self::last_bytes::{EndReport, LastBytes};
use super::watch::{self, WatchTarget};
use crate::args::TapArgs;
use crate::console;
use crate::exit::{Exit, Problem};
use crate::sys::tap_stdio::{self, close_stdin, close_stdout};
use crate::sys::{self, Ended, ServerPipes, SignalSender, TapSignals, TappedServer};

/// The time without progress after which the recorder is left behind at the end.
const LAST_RECORDS: Duration = Duration::from_secs(2);

/// Runs the tap. With a server that it starts, it does not return: it ends as the server ended.
pub(crate) fn run(args: &TapArgs) -> Exit {
    let ended = match (&args.listen, &args.connect) {
        (Some(listen), Some(connect)) => sockets::run(args, listen, connect),
        _ if args.no_record && args.faults.fault.is_empty() => guard_only(&args.command),
        _ => record(args),
    };
    end(ended)
}

/// Runs this program again with these words, under a guard that leaves no process behind. Does not return, except if
/// that fails: it ends as the guarded program ended.
pub(super) fn run_guarded(words: impl Iterator<Item = OsString>) -> Exit {
    let guarded = sys::own_path().map_err(cannot_start).and_then(|program| {
        let command: Vec<OsString> = once(program).chain(words).collect();
        guard_only(&command)
    });
    end(guarded)
}

fn end(ended: Result<Option<Ended>, Problem>) -> Exit {
    match ended {
        Ok(Some(ended)) => sys::end_like(ended),
        Ok(None) => Exit::Success,
        Err(problem) => {
            console::say(format_args!("{}", problem.message));
            problem.exit
        }
    }
}

/// Gives the server our own stdin, stdout and stderr, and only guards its processes.
fn guard_only(command: &[OsString]) -> Result<Option<Ended>, Problem> {
    let signals = TapSignals::receive().map_err(cannot_start)?;
    // The terminal would stop the server at its first read, because its process group is not ours.
    if io::stdin().is_terminal() {
        let (server, pipes) = TappedServer::start(command).map_err(cannot_start)?;
        let last_bytes = LastBytes::new();
        pass_on(signals, &server, None, last_bytes.reporter()).map_err(cannot_start)?;
        forward(pipes, [None, None, None], &last_bytes).map_err(cannot_start)?;
        let ended = server.wait();
        last_bytes.wait();
        return ended.map(Some).map_err(lost_server);
    }
    let server = TappedServer::start_with_ours(command).map_err(cannot_start)?;
    pass_on(signals, &server, None, LastBytes::new().reporter()).map_err(cannot_start)?;
    server.wait().map(Some).map_err(lost_server)
}

fn record(args: &TapArgs) -> Result<Option<Ended>, Problem> {
    let recording = match args.no_record {
        true => None,
        false => {
            let mut recording = settings::recording(args, &args.command)?;
            recording.claim()?;
            Some(recording)
        }
    };
    let signals = TapSignals::receive().map_err(cannot_start)?;
    let (server, pipes) = TappedServer::start(&args.command).map_err(cannot_start)?;
    let trace = recording.as_ref().map(|recording| recording.file.path.clone());
    let (feeds, recorder) = recording.map_or(([None, None, None], None), settings::start);
    if let Some(trace) = trace.filter(|_| args.web && recorder.is_some()) {
        show(WatchTarget::File(trace));
    }
    let events = recorder.as_ref().map(|recorder| recorder.events());
    let last_bytes = LastBytes::new();
    pass_on(signals, &server, events, last_bytes.reporter()).map_err(cannot_start)?;
    let mut link = None;
    match args.faults.fault.is_empty() {
        true => forward(pipes, feeds, &last_bytes),
        false => {
            let to_server = server.signals().map_err(cannot_start)?;
            let faults = faults::link(args, feeds[0].as_ref(), to_server).map_err(cannot_start)?;
            link = Some(Arc::clone(&faults));
            let signals = (server.signals(), server.signals());
            let signals = [signals.0.map_err(cannot_start)?, signals.1.map_err(cannot_start)?];
            forward_with_faults(pipes, feeds, faults, signals, &last_bytes)
        }
    }
    .map_err(cannot_start)?;

    let ended = server.wait();
    last_bytes.wait();
    if let Some(recorder) = recorder {
        if let Ok(ended) = ended {
            recorder.events().exit(ended.code, ended.signal, ended.left);
        }
        report_losses(recorder.finish(LAST_RECORDS));
    }
    if let Some(link) = link {
        let totals = FaultTotals::default();
        totals.end(&link);
        totals.report(&args.faults.fault);
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

/// Starts the pumps.
fn forward(
    pipes: ServerPipes,
    [mut c2s, mut s2c, mut err]: [Option<Feed>; 3],
    last_bytes: &LastBytes,
) -> io::Result<()> {
    let ServerPipes { stdin, stdout, stderr } = pipes;
    let ours = (tap_stdio::stdin()?, tap_stdio::stdout()?, tap_stdio::stderr()?);
    let (our_stdin, our_stdout, our_stderr) = ours;
    thread::Builder::new().name("c2s".to_owned()).spawn(move || {
        let stop = pump(&our_stdin, &stdin, c2s.as_mut());
        drop(stdin);
        if !matches!(stop, Stop::Eof) {
            close_stdin(our_stdin);
        }
    })?;
    let passed = last_bytes.reporter();
    thread::Builder::new().name("s2c".to_owned()).spawn(move || {
        pump(&stdout, &our_stdout, s2c.as_mut());
        drop(stdout);
        close_stdout(our_stdout);
        let _ = passed.send(EndReport::Passed);
    })?;
    let passed = last_bytes.reporter();
    thread::Builder::new().name("err".to_owned()).spawn(move || {
        pump(&stderr, &our_stderr, err.as_mut());
        let _ = passed.send(EndReport::Passed);
    })?;
    Ok(())
}

/// Starts the pumps, with fault rules between them.
fn forward_with_faults(
    pipes: ServerPipes,
    [mut c2s, mut s2c, mut err]: [Option<Feed>; 3],
    link: Arc<FaultLink>,
    [c2s_signals, s2c_signals]: [SignalSender; 2],
    last_bytes: &LastBytes,
) -> io::Result<()> {
    let ServerPipes { stdin, stdout, stderr } = pipes;
    let ours = (tap_stdio::stdin()?, tap_stdio::stdout()?, tap_stdio::stderr()?);
    let (our_stdin, our_stdout, our_stderr) = ours;
    let faults = Arc::clone(&link);
    thread::Builder::new().name("c2s".to_owned()).spawn(move || {
        let end = fault_pump(Dir::C2s, &our_stdin, &stdin, &faults, c2s.as_mut());
        drop(stdin);
        match end {
            FaultEnd::Usual(Stop::Eof) => {}
            FaultEnd::HalfClosed => discard(&our_stdin),
            FaultEnd::Usual(_) => close_stdin(our_stdin),
            FaultEnd::Cut => {
                close_stdin(our_stdin);
                faults::end_after_cut(c2s_signals);
            }
        }
    })?;
    let passed = last_bytes.reporter();
    thread::Builder::new().name("s2c".to_owned()).spawn(move || {
        let end = fault_pump(Dir::S2c, &stdout, &our_stdout, &link, s2c.as_mut());
        close_stdout(our_stdout);
        match end {
            FaultEnd::HalfClosed => discard(&stdout),
            FaultEnd::Cut => faults::end_after_cut(s2c_signals),
            FaultEnd::Usual(_) => {}
        }
        drop(stdout);
        let _ = passed.send(EndReport::Passed);
    })?;
    let passed = last_bytes.reporter();
    thread::Builder::new().name("err".to_owned()).spawn(move || {
        pump(&stderr, &our_stderr, err.as_mut());
        let _ = passed.send(EndReport::Passed);
    })?;
    Ok(())
}

fn report_losses(finished: io::Result<duet_rpc_trace::Report>) {
    match finished {
        Ok(report) => {
            if let Some(error) = report.error {
                let advice = match error.kind() {
                    io::ErrorKind::StorageFull => {
                        "; free some space, or choose another place with --to"
                    }
                    _ => "; choose another place with --to",
                };
                console::say(format_args!("the trace is incomplete: {error}{advice}"));
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

/// Passes signals on to the server, and records them before it can react to them.
fn pass_on(
    signals: TapSignals,
    server: &TappedServer,
    events: Option<&Events>,
    arrival: Sender<EndReport>,
) -> io::Result<()> {
    let events = events.cloned();
    let record = move |signal| {
        if let Some(events) = &events {
            events.signal(signal);
        }
    };
    let report = move || {
        let _ = arrival.send(EndReport::Signal);
    };
    signals.pass_on(server.signals()?, record, report);
    Ok(())
}
