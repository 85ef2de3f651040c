//! `replay`: plays a recorded client against a server, and compares the answers.
//!
//! ```text
//!   recording ─▶ Script ─▶ Replay (duet-rpc-trace) ⇄ play ⇄ MessagePipe ⇄ server
//!       │                                             │
//!       └──────────────▶ diff ◀── trace of the new session
//! ```

mod load;
mod play;
mod record;
mod report;
mod update;

use std::io::{Cursor, Write as _};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use duet_rpc::proto::frame::{Framing, FramingChoice};
use duet_rpc::transport::MessagePipe;
use duet_rpc_trace::{
    DiffOptions, Difference, Ending, Header, Pace, Replay, ReplayOptions, Timestamp, Wire, diff,
    session_name,
};
use tokio::runtime::Builder;
use tokio::sync::mpsc;

use self::play::{Played, play};
use self::record::NewTrace;
use super::recording::{self, PlayedTrace};
use super::stderr::Stderr;
use super::trace::input::{Stop, conclude};
use super::upstream::{Upstream, how_it_ended, profile};
use crate::args::{Global, PaceName, ReplayArgs};
use crate::exit::{Exit, Problem};
use crate::sys::{self, Interruption, Interruptions, descriptors};
use crate::{console, settings};

/// Lines of stderr that wait to be recorded.
const LINES: usize = 10_000;

/// Plays the recording.
pub(crate) fn run(args: ReplayArgs, global: &Global) -> Exit {
    if let Err(error) = console::stdout() {
        return console::cannot_write(&error);
    }
    match prepare(args) {
        Ok(setup) => start(&Rc::new(setup), global),
        Err(CannotReplay::Stop(stop)) => conclude(Err(stop)),
        Err(CannotReplay::Problem(problem)) => {
            console::say(format_args!("{}", problem.message));
            problem.exit
        }
    }
}

/// A replay that cannot begin.
enum CannotReplay {
    Stop(Stop),
    Problem(Problem),
}

impl From<Stop> for CannotReplay {
    fn from(stop: Stop) -> Self {
        CannotReplay::Stop(stop)
    }
}

impl From<Problem> for CannotReplay {
    fn from(problem: Problem) -> Self {
        CannotReplay::Problem(problem)
    }
}

/// Everything that was read before this process handles signals itself.
struct Setup {
    args: ReplayArgs,
    recording: PlayedTrace,
    upstream: Upstream,
    replay: Replay,
    framing: Framing,
    diff: DiffOptions,
}

fn prepare(args: ReplayArgs) -> Result<Setup, CannotReplay> {
    let upstream =
        Upstream::new(&args.command, args.connect.as_ref(), args.token_file.as_deref(), &args.tls)?
            .ok_or_else(|| Problem::usage("there is no server: give its command after --"))?;
    if args.update {
        update::check_name(&args.file)?;
    }
    let recording = recording::read(&args.file, duet_rpc_trace::Dir::C2s)?;
    if args.update {
        update::check(&args.file, &recording)?;
    }
    for warning in &recording.warnings {
        console::say(format_args!("{warning}"));
    }
    let mut options = ReplayOptions::default();
    options.pace = match args.pace {
        PaceName::Asap => Pace::Asap,
        PaceName::Recorded => Pace::Recorded,
    };
    options.timeout = settings::limited(args.timeout).map_or(u64::MAX, micros);
    options.patience = micros(args.patience);
    options.maps.clone_from(&args.map);
    options.learns = !args.no_learn;
    if args.copies.is_some() || args.repeat.is_some() {
        options.linger = 0;
    }
    let framing = match (args.framing.map(|name| name.choice()), recording.script.wire()) {
        (Some(FramingChoice::Fixed(framing)), _) => framing,
        (_, Some(Wire::Lsp)) => Framing::Lsp,
        (_, Some(Wire::Length)) => Framing::Length,
        _ => Framing::Ndjson,
    };
    let diff = args.compare.options();
    let replay = Replay::new(Arc::clone(&recording.script), options);
    Ok(Setup { args, recording, upstream, replay, framing, diff })
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn start(setup: &Rc<Setup>, global: &Global) -> Exit {
    let ready = descriptors::check_free(8)
        .and_then(|()| Builder::new_current_thread().enable_all().build())
        .and_then(|runtime| Ok((runtime, Stderr::start()?)));
    let (runtime, stderr) = match ready {
        Ok(ready) => ready,
        Err(error) => {
            console::say(format_args!("cannot replay: {error}"));
            return Exit::Failed;
        }
    };
    let exit = runtime.block_on(async {
        let mut interruptions = match Interruptions::receive() {
            Ok(interruptions) => interruptions,
            Err(error) => {
                stderr.say(&format!("cannot replay: {error}"));
                return Ok(Exit::Failed);
            }
        };
        // A second signal is not needed: dropping the sessions kills their servers.
        match setup.args.copies.is_some() || setup.args.repeat.is_some() {
            true => load::run(setup, &stderr, &mut interruptions).await,
            false => once(setup, global, &stderr, &mut interruptions).await,
        }
    });
    drop(runtime);
    stderr.flush();
    exit.unwrap_or_else(|signal| {
        sys::die_of(signal);
        Exit::Failed
    })
}

/// Plays the recording once, and prints the differences.
async fn once(
    setup: &Setup,
    global: &Global,
    stderr: &Stderr,
    interruptions: &mut Interruptions,
) -> Result<Exit, Interruption> {
    let is_kept = setup.args.update || setup.args.to.is_some();
    let lines = stderr.clone();
    let pass_on = move |line: &str| lines.pass_on(line);
    let session = session(setup, setup.replay.again(), is_kept, false, pass_on);
    let mut played = match interruptions.or(session).await? {
        Ok(played) => played,
        Err(problem) => {
            stderr.say(&problem.message);
            return Ok(problem.exit);
        }
    };
    let kept = played.kept.take();
    let ended = played.ended;
    let verdict = match ReplayResult::new(setup, played) {
        Ok(verdict) => verdict,
        Err(problem) => {
            stderr.say(&problem);
            return Ok(Exit::Failed);
        }
    };
    stderr.flush();
    let exit = report::print(&setup.args, global, &verdict);
    if let Some(trouble) = &verdict.trouble {
        stderr.say(&trouble.message);
    }
    match kept {
        Some(kept) => Ok(update::store(setup, &verdict, kept.finish(ended).0, exit, stderr)),
        None => Ok(exit),
    }
}

/// Opens a connection and plays one session.
async fn session(
    setup: &Setup,
    replay: Replay,
    is_kept: bool,
    is_counted: bool,
    mut pass_on: impl FnMut(&str) + Send + 'static,
) -> Result<Played, Problem> {
    let (lines_in, lines) = mpsc::channel(LINES);
    let on_stderr = move |line: &str| {
        pass_on(line);
        if is_kept {
            // A server that floods its stderr loses lines of the trace, not memory.
            let _ = lines_in.try_send(line.to_owned());
        }
    };
    let profile = profile(setup.framing);
    let timeout = settings::limited(setup.args.timeout);
    let transport = setup.upstream.open(&profile, timeout, on_stderr).await?;
    let pipe = MessagePipe::new(transport, &profile);
    let kept = is_kept.then(|| NewTrace::new(&header(setup), setup.framing));
    // Any framing will do for a trace that is only compared; this one takes every text as it is.
    let mut compared = NewTrace::new(&Header::new("replay"), Framing::Lsp);
    if is_counted {
        compared = compared.with_stats();
    }
    Ok(play(pipe, replay, compared, kept, lines).await)
}

/// The header of the new trace.
fn header(setup: &Setup) -> Header {
    let now = Timestamp::now();
    let words: Vec<_> =
        setup.args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = words.first().map_or("replay", String::as_str);
    let mut header = Header::new(session_name(now, program, std::process::id()));
    header.start = now.to_string();
    header.cwd = std::env::current_dir().ok().map(|cwd| cwd.to_string_lossy().into_owned());
    header.pid = Some(std::process::id());
    header.version = concat!("duet-rpc ", env!("CARGO_PKG_VERSION")).to_owned();
    header.command = words;
    header.connect = setup.args.connect.as_ref().map(ToString::to_string);
    header
}

/// The result of a session.
struct ReplayResult {
    differences: Vec<Difference>,
    /// The reason why the session is not complete.
    trouble: Option<Problem>,
    /// The length of the session, in microseconds.
    duration: u64,
}

impl ReplayResult {
    fn new(setup: &Setup, played: Played) -> Result<Self, String> {
        let trouble = trouble(setup, &played);
        let (bytes, _) = played.compared.finish(played.duration);
        let differences = compare(&setup.recording.bytes, &bytes, &setup.diff)?;
        Ok(ReplayResult { differences, trouble, duration: played.duration })
    }

    fn exit(&self) -> Exit {
        let is_same = |it: &Difference| matches!(it, Difference::Same(_));
        match &self.trouble {
            Some(problem) => problem.exit,
            None if self.differences.iter().all(is_same) => Exit::Success,
            None => Exit::Failed,
        }
    }
}

/// Compares the new session with the recording: the code of `trace diff`.
fn compare(old: &[u8], new: &[u8], options: &DiffOptions) -> Result<Vec<Difference>, String> {
    let mut differences = Vec::new();
    diff(Cursor::new(old), Cursor::new(new), options, |difference| differences.push(difference))
        .map_err(|(_, error)| format!("cannot compare: {error}"))?;
    Ok(differences)
}

/// The reason why a session is not complete.
fn trouble(setup: &Setup, played: &Played) -> Option<Problem> {
    let problem = |exit, message| Some(Problem { exit, message });
    match &played.ending {
        Ending::TimedOut(what) => {
            let seconds = setup.args.timeout.as_secs_f64();
            let hint = match &played.first_fault {
                Some(fault) => format!("; it sent bytes that are not messages: {fault}"),
                None => String::new(),
            };
            let message = format!("no answer within {seconds} s: waiting for {what}{hint}");
            problem(Exit::Timeout, message)
        }
        Ending::ServerEnded(what) => {
            let how = played.end.exit.map(how_it_ended).unwrap_or_default();
            let hint = match &played.first_fault {
                Some(fault) => format!("; {fault}"),
                None => String::new(),
            };
            let message = format!("the server ended{how} too early: waiting for {what}{hint}");
            problem(Exit::BrokenProtocol, message)
        }
        _ => {
            let fault = played.first_fault.as_ref()?;
            // A recorded server that prints, too, is as it was.
            if setup.recording.script.stray(duet_rpc_trace::Dir::S2c) > 0 {
                return None;
            }
            let faults = played.faults;
            let message =
                format!("the server sent bytes that are not messages ({faults} times): {fault}");
            problem(Exit::BrokenProtocol, message)
        }
    }
}

/// Writes text to stdout, and returns the exit code of the replay if that works.
fn print(text: &str, exit: Exit) -> Exit {
    let written = console::stdout().and_then(|mut stdout| {
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    });
    match written {
        Ok(()) => exit,
        Err(error) => console::cannot_write(&error),
    }
}
