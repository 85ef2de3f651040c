//! `call`: starts a server or connects to one, makes calls, prints the results.
//!
//! ```text
//! mod           start and end of the process, the runtime and the server
//! server        the server: a child process, or a connection
//! session       the handshake, the open files, the calls, the end of the protocol
//! plan          the calls, from the command line and a script
//! params        the params of a call
//! open_file     files that a language server opens
//! conversation  one request or notification at a time
//! incoming      notifications and requests of the server
//! report        messages for a failed call
//! address       messages for a server that cannot be reached
//! tls           certificates
//! first_bytes   a server that will not answer, recognised by its first bytes
//! tracked       a transport that reports when everything is sent, and what the first bytes tell
//! ```

pub(super) mod address;
mod conversation;
pub(super) mod first_bytes;
mod incoming;
mod open_file;
mod params;
mod plan;
pub(super) mod report;
mod server;
mod session;
pub(super) mod tls;
mod tracked;

use std::cell::{Cell, RefCell};
use std::io;
use std::time::{Duration, Instant};

use duet_rpc::Peer;
use duet_rpc::transport::{Address, TlsClient};
use serde_json::value::RawValue;
use tokio::runtime::{Builder, Runtime};

use self::address::ServerAddress;
use self::conversation::Conversation;
use self::incoming::Answers;
use self::report::Via;
use self::session::{Results, Session};
use self::tracked::TrackedTransport;
use super::stderr::Stderr;
use crate::args::{CallArgs, Global};
use crate::exit::{Exit, Problem};
use crate::logging::{Level, Log};
use crate::sys::{self, Interruption, Interruptions, descriptors};
use crate::{console, settings};

/// Time for each step of stopping the server.
const GRACE: Duration = Duration::from_secs(2);

/// Time for the server to read our last messages, for example a cancellation, before we close.
const DRAIN: Duration = Duration::from_millis(500);

/// Maximum size of an answer, and of params.
const MAX_ANSWER: usize = 256 * 1024 * 1024;

pub(crate) fn run(args: &CallArgs, global: &Global) -> Exit {
    call(args, global, &Results::Stdout)
}

/// Makes a call for another command, and returns its result. Messages about a failure are printed.
pub(super) fn fetch(args: &CallArgs, global: &Global) -> Result<Box<RawValue>, Exit> {
    let results = Results::Kept(RefCell::default());
    match (call(args, global, &results), results) {
        (Exit::Success, Results::Kept(kept)) => kept.into_inner().ok_or(Exit::Failed),
        (exit, _) => Err(exit),
    }
}

fn call(args: &CallArgs, global: &Global, results: &Results) -> Exit {
    let input = match Input::read(args) {
        Ok(input) => input,
        Err(problem) => {
            console::say(format_args!("{}", problem.message));
            return problem.exit;
        }
    };
    // A request may change something, so it is not sent if its result would be lost.
    if let (true, Err(error)) = (input.session.has_results(), console::stdout()) {
        return console::cannot_write(&error);
    }
    match start(args, global) {
        Ok((runtime, stderr, log)) => {
            let exit = runtime.block_on(converse(args, global, input, results, &stderr));
            // Dropping the runtime kills a server that still runs.
            drop(runtime);
            stderr.flush();
            log.inspect(|log| log.flush());
            exit.unwrap_or_else(|signal| {
                sys::die_of(signal);
                Exit::Failed
            })
        }
        Err(error) => {
            console::say(format_args!("cannot make the call: {error}"));
            Exit::Failed
        }
    }
}

/// The session, token and certificates. They are read before this process handles signals itself: a signal must still
/// end it while it waits on a pipe without a writer.
struct Input {
    session: Session,
    answers: Answers,
    token: Option<String>,
    tls: TlsClient,
}

impl Input {
    fn read(args: &CallArgs) -> Result<Input, Problem> {
        let session = Session::read(args)?;
        let answers = Answers::read(&args.session)?;
        let token = args.server.token_file.as_deref().map(super::rpc::read_token).transpose()?;
        let tls = tls::settings(&args.server.tls, args.server.connect.as_ref())?;
        Ok(Input { session, answers, token, tls })
    }
}

/// Sets up the runtime, stderr and the log.
fn start(args: &CallArgs, global: &Global) -> io::Result<(Runtime, Stderr, Option<&'static Log>)> {
    // The runtime opens six descriptors, and panics if it cannot.
    descriptors::check_free(8)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // Our own daemon writes the log itself. With any other server, this process logs if the user asks for it.
    let is_ours = args.server.command.is_empty() && args.server.connect.is_none();
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
    Input { session, answers, token, tls }: Input,
    results: &Results,
    stderr: &Stderr,
) -> Result<Exit, Interruption> {
    let begun = Instant::now();
    let mut interruptions = match Interruptions::receive() {
        Ok(interruptions) => interruptions,
        Err(error) => {
            stderr.say(&format!("cannot make the call: {error}"));
            return Ok(Exit::Failed);
        }
    };
    let time_left = || {
        settings::limited(args.server.timeout)
            .map(|timeout| timeout.saturating_sub(begun.elapsed()))
    };
    let (profile, framing) = server::profile(args);
    let token_file = args.server.token_file.as_deref();
    let address =
        args.server.connect.as_ref().map(|address| ServerAddress::new(address, token_file));
    let address = address.as_ref();
    let found = match address {
        None => server::start_server(args, global, stderr),
        Some(address) => {
            let reached = server::reach(args, address, token, tls, &profile, time_left());
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
    let (transport, progress) = TrackedTransport::new(transport, framing);
    // Other commands that make calls have no `--answer`.
    let has_option = matches!(results, Results::Stdout);
    let router = answers.into_router(stderr.clone(), has_option);
    let peer = Peer::builder(transport).profile(profile).router(router).spawn();
    let via = match &args.server.connect {
        None => Via::Stdout(framing),
        Some(Address::WebSocket(..) | Address::Http(..) | Address::Nats(..)) => Via::Messages,
        Some(_) => Via::Socket(framing),
    };
    let waits_since = Cell::new(begun);
    let conversation = Conversation {
        peer: &peer,
        progress,
        via,
        address,
        timeout: args.server.timeout,
        waits_since,
    };
    let is_notified = session.ends_with_notification();
    let exchange = session.run(&conversation, results, stderr);
    let exit = interruptions.or(exchange).await;
    let end = interruptions.or(peer.close()).await?;
    if let Some(stopped) = report::stopped(&end) {
        stderr.say(&stopped);
    } else if let (Ok(Exit::Success), true, Some(failed)) =
        (exit, is_notified, report::failed(&end))
    {
        stderr.say(&failed);
    }
    // Over HTTP, a refused notification shows only in its HTTP response, which arrives after `notify`
    // returned.
    let is_http = matches!(args.server.connect, Some(Address::Http(..)));
    match (exit?, end.failure()) {
        (Exit::Success, Some(failure)) if is_notified && is_http => {
            let is_new = peer.stats().messages == 0;
            let (exit, message) = match address.and_then(|it| it.refused(&end, is_new)) {
                Some(refused) => (Exit::NotStarted, refused),
                None => (Exit::BrokenProtocol, report::not_delivered(failure)),
            };
            stderr.say(&message);
            Ok(exit)
        }
        (exit, _) => Ok(exit),
    }
}
