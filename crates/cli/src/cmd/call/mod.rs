//! `call`: starts a server or connects to one, sends one request, prints the answer.

mod params;
mod report;
mod stderr;
mod tls;
mod tracked;

use std::ffi::{OsStr, OsString};
use std::future::poll_fn;
use std::io::{self, IsTerminal};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use duet_rpc::proto::Limits;
use duet_rpc::proto::frame::{Framing, FramingChoice};
use duet_rpc::proto::policy::BatchRule;
use duet_rpc::threads;
use duet_rpc::transport::{Address, Child, Connector, TlsClient, Transport};
use duet_rpc::{Error, ErrorKind, Peer, Profile, RemoteError, Router, UnusableAnswer};
use serde_json::value::RawValue;
use tokio::process::Command;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::SignalKind;
use tokio::sync::oneshot;

use self::report::{Clue, Via};
use self::stderr::Stderr;
use self::tracked::{SendProgress, TrackedTransport};
use super::interrupt::{self, Interruptions};
use crate::args::{CallArgs, Global, LogFormat};
use crate::exit::{Exit, Problem};
use crate::logging::{Level, Log};
use crate::{console, descriptors, json, settings};

/// Time for each step of stopping the server.
const GRACE: Duration = Duration::from_secs(2);

/// Time for the server to read our last messages, for example a cancellation, before we close.
const DRAIN: Duration = Duration::from_millis(500);

/// Maximum size of an answer. The length framing needs a smaller limit: text that a server prints by mistake
/// reads as a length, and every such length must exceed the limit.
const MAX_ANSWER: usize = 256 * 1024 * 1024;
const MAX_ANSWER_WITH_PREFIX: usize = 16 * 1024 * 1024 - 1;

pub(crate) fn run(args: &CallArgs, global: &Global) -> Exit {
    // A request may change something, so it is not sent if its result would be lost.
    if let (false, Err(error)) = (args.notify, console::stdout()) {
        return console::cannot_write(&error);
    }
    let input = match Input::read(args) {
        Ok(input) => input,
        Err(problem) => {
            console::say(format_args!("{}", problem.message));
            return problem.exit;
        }
    };
    match start(args, global) {
        Ok((runtime, stderr, log)) => {
            let exit = runtime.block_on(converse(args, global, input, &stderr));
            // Dropping the runtime kills a server that still runs.
            drop(runtime);
            stderr.flush();
            log.inspect(|log| log.flush());
            exit.unwrap_or_else(|signal| {
                interrupt::die_of(signal);
                Exit::Failed
            })
        }
        Err(error) => {
            console::say(format_args!("cannot make the call: {error}"));
            Exit::Failed
        }
    }
}

/// Params, token and certificates. They are read before this process handles signals itself: a signal must still end it
/// while it waits on a pipe without a writer.
struct Input {
    params: Option<Box<RawValue>>,
    token: Option<String>,
    tls: TlsClient,
}

impl Input {
    fn read(args: &CallArgs) -> Result<Input, Problem> {
        let params = params::read(args.params.as_deref())?;
        let token = args.token_file.as_deref().map(super::rpc::read_token).transpose()?;
        let tls = tls::settings(args)?;
        Ok(Input { params, token, tls })
    }
}

/// Sets up the runtime, stderr and the log.
fn start(args: &CallArgs, global: &Global) -> io::Result<(Runtime, Stderr, Option<&'static Log>)> {
    // The runtime opens six descriptors, and panics if it cannot.
    descriptors::check_free(8)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // Our own daemon writes the log itself. With any other server, this process logs if the user asks for it.
    let is_ours = args.command.is_empty() && args.connect.is_none();
    let is_wanted = global.log_level.is_some() && !is_ours;
    let log = is_wanted.then(|| Log::start(global, Level::Warn, Level::Debug)).transpose()?;
    log.inspect(|log| log.open());
    Ok((runtime, Stderr::start()?, log))
}

/// Connects to the server, runs the conversation, and stops the server. A first signal stops the server too;
/// a second one ends this process immediately.
async fn converse(
    args: &CallArgs,
    global: &Global,
    Input { params, token, tls }: Input,
    stderr: &Stderr,
) -> Result<Exit, SignalKind> {
    let begun = Instant::now();
    let mut interruptions = match Interruptions::receive() {
        Ok(interruptions) => interruptions,
        Err(error) => {
            stderr.say(&format!("cannot make the call: {error}"));
            return Ok(Exit::Failed);
        }
    };
    let time_left =
        || settings::limited(args.timeout).map(|timeout| timeout.saturating_sub(begun.elapsed()));
    let (profile, framing) = profile(args);
    let found = match &args.connect {
        None => start_server(args, global, stderr),
        Some(address) => {
            let reached = reach(args, address, token, tls, &profile, time_left());
            interruptions.or(reached).await?
        }
    };
    let transport = match found {
        Ok(transport) => transport,
        Err((exit, problem)) => {
            stderr.say(&problem);
            return Ok(exit);
        }
    };
    let (transport, progress) = TrackedTransport::new(transport);
    let peer = Peer::builder(transport).profile(profile).router(Router::new()).spawn();
    let via = match &args.connect {
        None => Via::Stdout(framing),
        Some(Address::WebSocket(..) | Address::Http(..)) => Via::Messages,
        Some(_) => Via::Socket(framing),
    };
    let conversation = Conversation { args, stderr, peer: &peer, progress, via };
    let exchange = async {
        match args.notify {
            true => conversation.notify(params, time_left()).await,
            false => conversation.call(params, time_left()).await,
        }
    };
    let exit = interruptions.or(exchange).await;
    let end = interruptions.or(peer.close()).await?;
    if let Some(stopped) = report::stopped(&end) {
        stderr.say(&stopped);
    } else if let (Ok(Exit::Success), true, Some(failed)) =
        (exit, args.notify, report::failed(&end))
    {
        stderr.say(&failed);
    }
    // Over HTTP, a refused notification shows only in its HTTP response, which arrives after `notify`
    // returned.
    let is_http = matches!(args.connect, Some(Address::Http(..)));
    match (exit?, end.failure()) {
        (Exit::Success, Some(failure)) if args.notify && is_http => {
            let (exit, message) = match report::refused(&end) {
                Some(refused) => (Exit::NotStarted, refused),
                None => (Exit::BrokenProtocol, report::not_delivered(failure)),
            };
            stderr.say(&message);
            Ok(exit)
        }
        (exit, _) => Ok(exit),
    }
}

/// One conversation with a server.
struct Conversation<'a> {
    args: &'a CallArgs,
    stderr: &'a Stderr,
    peer: &'a Peer,
    progress: Arc<SendProgress>,
    via: Via,
}

/// The outcome of a request.
enum Answer {
    Result(Box<RawValue>),
    Error(Error),
    /// An error response with `id: null`.
    Uncorrelated(RemoteError),
    Unusable(UnusableAnswer),
}

impl Conversation<'_> {
    async fn call(&self, params: Option<Box<RawValue>>, time_left: Option<Duration>) -> Exit {
        let call = self.peer.call::<Box<RawValue>>(&self.args.method, params);
        let call = match time_left {
            Some(time) => call.timeout(time),
            None => call.no_timeout(),
        };
        // A server that cannot read the request answers with `id: null`.
        let (mut call, mut uncorrelated) = (pin!(call), pin!(self.next_uncorrelated_error()));
        let mut unusable = pin!(self.peer.unusable_answer());
        let answer = poll_fn(|cx| {
            if let Poll::Ready(uncorrelated) = uncorrelated.as_mut().poll(cx) {
                return Poll::Ready(Answer::Uncorrelated(uncorrelated));
            }
            // A usable answer may follow an unusable one.
            match (call.as_mut().poll(cx), unusable.as_mut().poll(cx)) {
                (Poll::Ready(Ok(result)), _) => Poll::Ready(Answer::Result(result)),
                (Poll::Ready(Err(error)), _) if error.remote().is_some() => {
                    Poll::Ready(Answer::Error(error))
                }
                (_, Poll::Ready(why)) => Poll::Ready(Answer::Unusable(why)),
                (Poll::Ready(Err(error)), Poll::Pending) => Poll::Ready(Answer::Error(error)),
                (Poll::Pending, Poll::Pending) => Poll::Pending,
            }
        });
        let (exit, message) = match answer.await {
            Answer::Result(result) => return print(result).await,
            Answer::Error(error) => return self.explain(&error).await,
            Answer::Uncorrelated(error) => (Exit::ErrorAnswer, report::error_answer(&error)),
            Answer::Unusable(why) => (Exit::BrokenProtocol, report::unusable(why, self.via)),
        };
        self.stderr.say(&message);
        exit
    }

    /// Waits for an error response with `id: null` that can only refer to our request, because nothing else
    /// arrived.
    async fn next_uncorrelated_error(&self) -> RemoteError {
        let uncorrelated = self.peer.next_uncorrelated_error().await;
        let stats = self.peer.stats();
        match stats.messages > 1 || stats.faults > 0 {
            true => std::future::pending().await,
            false => uncorrelated,
        }
    }

    async fn explain(&self, error: &Error) -> Exit {
        let (exit, message) = match (error.kind(), error.remote()) {
            (_, Some(answer)) => (Exit::ErrorAnswer, report::error_answer(answer)),
            (ErrorKind::Timeout, _) => {
                (Exit::Timeout, report::no_answer_within(self.args.timeout, self.clue()))
            }
            (ErrorKind::Disconnected | ErrorKind::Transport, _) => {
                // Wait for the end, so that the server's stderr is printed first.
                let end = self.peer.closed().await;
                match report::refused(&end) {
                    Some(refused) => (Exit::NotStarted, refused),
                    None => (Exit::BrokenProtocol, report::gone(&end, self.clue())),
                }
            }
            (ErrorKind::Exchange, _) => (Exit::BrokenProtocol, report::failed_exchange(error)),
            _ => (Exit::BrokenProtocol, report::broken_answer(error)),
        };
        self.stderr.say(&message);
        exit
    }

    async fn notify(&self, params: Option<Box<RawValue>>, time_left: Option<Duration>) -> Exit {
        let sent = async {
            let notified = self.peer.notify(&self.args.method, params).await;
            notified.is_ok() && self.progress.sent().await
        };
        let sent = match time_left {
            Some(time) => tokio::time::timeout(time, sent).await.ok(),
            None => Some(sent.await),
        };
        match sent {
            Some(true) => Exit::Success,
            Some(false) => {
                let end = self.peer.closed().await;
                self.stderr.say(&report::gone_before_sent(&end));
                Exit::BrokenProtocol
            }
            None => {
                self.stderr.say(&report::not_read_within(self.args.timeout));
                Exit::Timeout
            }
        }
    }

    fn clue(&self) -> Clue {
        let stats = self.peer.stats();
        if stats.faults > 0 {
            Clue::Garbage(self.via)
        } else if stats.unmatched_answers > 0 {
            Clue::OtherAnswer
        } else if stats.messages > 0 {
            Clue::OtherMessages
        } else if stats.bytes_received > 0 {
            Clue::Part(self.via)
        } else {
            Clue::Silence(self.via)
        }
    }
}

/// Prints a result: indented on a terminal, compact otherwise. A separate thread writes it: the reader of
/// stdout may never read, and a signal must still end the call.
async fn print(result: Box<RawValue>) -> Exit {
    let mut text = match io::stdout().is_terminal() {
        true => json::escape_for_terminal(&json::pretty(result.get())),
        false => json::compact(result.get()),
    };
    text.push('\n');
    let text = Arc::new(text);
    let (tell, told) = oneshot::channel();
    let to_print = Arc::clone(&text);
    let print = move || {
        let _ = tell.send(console::print(&to_print));
    };
    match threads::spawn("duet-rpc stdout", print) {
        Ok(_) => told.await.unwrap_or(Exit::Failed),
        Err(_) => console::print(&text),
    }
}

/// Exit code and message for a server that cannot be started or reached.
type NoServer = (Exit, String);

/// Starts the server as a child process.
fn start_server(
    args: &CallArgs,
    global: &Global,
    stderr: &Stderr,
) -> Result<Box<dyn Transport>, NoServer> {
    let not_started = |program: &OsStr, error: io::Error| {
        (Exit::NotStarted, report::not_started(program, &error))
    };
    let (program, words) = server(args, global).map_err(|error| {
        let told = format!("cannot start \"duet-rpc\": {error}");
        not_started(OsStr::new("duet-rpc"), io::Error::new(error.kind(), told))
    })?;
    let mut command = Command::new(&program);
    command.args(words);
    let child = Child::spawn(command).map_err(|error| not_started(&program, error))?;
    let lines = stderr.clone();
    Ok(Box::new(child.grace(GRACE).on_stderr(move |line| lines.pass_on(line))))
}

/// Connects to the server.
async fn reach(
    args: &CallArgs,
    address: &Address,
    token: Option<String>,
    tls: TlsClient,
    profile: &Profile,
    time_left: Option<Duration>,
) -> Result<Box<dyn Transport>, NoServer> {
    let not_reached = |error| (Exit::NotStarted, report::not_reached(address, &error));
    let mut connector = Connector::new(address).map_err(not_reached)?.tls(tls);
    if let Some(token) = token {
        connector = connector.token(token);
    }
    // The timeout of the whole call applies, without a separate one for the handshake.
    let profile = profile.with(|it| it.call_timeout = None);
    let connected = connector.connect(&profile);
    let connected = match time_left {
        None => connected.await,
        Some(time) => match tokio::time::timeout(time, connected).await {
            Ok(connected) => connected,
            Err(_) => {
                return Err((Exit::Timeout, report::not_reached_within(address, args.timeout)));
            }
        },
    };
    connected.map_err(not_reached)
}

/// The program to start, with its arguments.
fn server(args: &CallArgs, global: &Global) -> io::Result<(OsString, Vec<OsString>)> {
    if let Some((program, words)) = args.command.split_first() {
        return Ok((program.clone(), words.to_vec()));
    }
    let mut words = vec!["rpc", "--profile", args.profile.name()];
    if let Some(FramingChoice::Fixed(framing)) = args.framing.map(|framing| framing.choice()) {
        words.extend(["--framing", framing.name()]);
    }
    words.extend(["--log-level", global.log_level.unwrap_or(Level::Warn).name()]);
    words.extend(match global.log_format {
        LogFormat::Text => ["--log-format", "text"],
        LogFormat::Json => ["--log-format", "json"],
    });
    if global.no_color {
        words.push("--no-color");
    }
    Ok((std::env::current_exe()?.into(), words.into_iter().map(OsString::from).collect()))
}

/// The profile for this call, with generous limits, and the framing.
fn profile(args: &CallArgs) -> (Profile, Framing) {
    let mut profile = args.profile.profile();
    let choice = args.framing.map_or(profile.framing, |framing| framing.choice());
    let framing = match choice {
        FramingChoice::Fixed(framing) => framing,
        // The side that speaks first cannot detect the framing. The command line rejects this value.
        FramingChoice::Auto => Framing::Ndjson,
    };
    profile.framing = framing.into();
    profile.batch = BatchRule::Allow;
    // Only the timeout of the whole call applies, however slowly the answer arrives.
    profile.read_timeout = None;
    profile.call_timeout = settings::limited(args.timeout);
    profile.drain_timeout = DRAIN;
    profile.limits.depth = Limits::MAX_DEPTH;
    profile.limits.message_bytes = match framing {
        Framing::Length => MAX_ANSWER_WITH_PREFIX,
        Framing::Lsp | Framing::Ndjson => MAX_ANSWER,
    };
    (profile, framing)
}
