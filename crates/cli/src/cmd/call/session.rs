//! A session with a server: the handshake, the open files, the calls, and the end of the protocol.
//!
//! ```text
//! initialize ──▶ initialized ──▶ didOpen … ──▶ call … ──▶ shutdown, exit
//!     └─error─▶ server/discover (MCP) ────────────▲
//! ```
//!
//! The first failure skips to the end.

use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duet_rpc::threads;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::conversation::Conversation;
use super::incoming::shown;
use super::open_file::OpenFile;
use super::params;
use super::plan::{self, PlannedCall};
use crate::args::{CallArgs, ProtocolName};
use crate::cmd::handshake;
use crate::cmd::stderr::Stderr;
use crate::exit::{Exit, Problem};
use crate::{console, json};

/// Everything to say to the server.
pub(super) struct Session {
    handshake: Option<CallHandshake>,
    documents: Vec<OpenFile>,
    settle: Duration,
    calls: Vec<PlannedCall>,
}

/// Where the results of the calls go.
pub(super) enum Results {
    Stdout,
    /// Kept for another command; only the last one.
    Kept(RefCell<Option<Box<RawValue>>>),
}

impl Results {
    async fn add(&self, result: Box<RawValue>) -> Exit {
        match self {
            Results::Stdout => print(result).await,
            Results::Kept(kept) => {
                kept.replace(Some(result));
                Exit::Success
            }
        }
    }
}

/// Time without a message of the server after files are opened. A server begins to work on them within milliseconds.
const SETTLE_AFTER_OPEN: Duration = Duration::from_millis(500);

/// Time after which a person wants to know that the command still waits. Most servers answer `initialize` sooner.
const NOTE_AFTER: Duration = Duration::from_secs(5);

struct CallHandshake {
    protocol: ProtocolName,
    params: Map<String, Value>,
}

/// State after the handshake: `_meta` for each request, if the server needs it.
type Meta = Option<Value>;

impl Session {
    pub(super) fn read(args: &CallArgs) -> Result<Session, Problem> {
        let given = &args.session;
        if let (Some(ProtocolName::Mcp), false) = (given.handshake, given.open.is_empty()) {
            return Err(Problem::usage("`--open` is for language servers: use `--handshake lsp`"));
        }
        let mut handshake = given
            .handshake
            .map(|protocol| CallHandshake { protocol, params: handshake::initialize(protocol) });
        if let (Some(handshake), Some(word)) = (&mut handshake, &given.init) {
            let given = params::read_value("`--init`", word)?;
            let members = serde_json::from_str::<Map<String, Value>>(given.get());
            let members =
                members.map_err(|_| Problem::usage("`--init` takes a JSON object, as in '{}'"))?;
            handshake.params.extend(members);
        }
        let language = given.language.as_deref();
        let documents = given.open.iter().map(|word| OpenFile::read(word, language));
        let settle = if given.open.is_empty() { Duration::ZERO } else { SETTLE_AFTER_OPEN };
        Ok(Session {
            handshake,
            settle: given.settle.unwrap_or(settle),
            documents: documents.collect::<Result<_, _>>()?,
            calls: plan::read(args)?,
        })
    }

    /// Returns true if a result is expected on stdout.
    pub(super) fn has_results(&self) -> bool {
        self.calls.iter().any(|call| !call.is_notification)
    }

    /// Returns true if nothing that has an answer follows the last notification.
    pub(super) fn ends_with_notification(&self) -> bool {
        let is_lsp = self.protocol() == Some(ProtocolName::Lsp);
        !is_lsp && self.calls.last().is_some_and(|call| call.is_notification)
    }

    fn protocol(&self) -> Option<ProtocolName> {
        self.handshake.as_ref().map(|it| it.protocol)
    }

    /// Runs the session.
    pub(super) async fn run(
        self,
        server: &Conversation<'_>,
        results: &Results,
        stderr: &Stderr,
    ) -> Exit {
        let (protocol, is_alone) = (self.protocol(), self.is_one_message());
        // A script may begin with a handshake of its own.
        let has_handshake =
            self.handshake.is_some() || self.calls.iter().any(|call| call.method == "initialize");
        let has_place = self.documents.last().map(OpenFile::has_place);
        let fail = |method: &str, problem: Problem| {
            let method = super::report::plain(method);
            match is_alone {
                true => stderr.say(&problem.message),
                false => stderr.say(&format!("{method}: {}", problem.message)),
            }
            let advice = match has_handshake {
                true => super::report::missing_document(&method, &problem, has_place),
                false => super::report::missing_handshake(&method, &problem),
            };
            if let Some(advice) = advice {
                stderr.say(advice);
            }
            problem.exit
        };
        let meta = match &self.handshake {
            None => None,
            Some(handshake) => match handshake.run(server, stderr).await {
                Ok(meta) => meta,
                Err((method, problem)) => {
                    let advice = super::report::other_handshake(handshake.protocol, &problem);
                    let exit = fail(method, problem);
                    advice.inspect(|advice| stderr.say(advice));
                    return exit;
                }
            },
        };
        let exit = match self.send(server, results, &meta).await {
            Ok(exit) => exit,
            Err((method, problem)) => fail(&method, problem),
        };
        // A server that does not answer, or is gone, would not answer `shutdown` either.
        let is_there = !matches!(exit, Exit::Timeout | Exit::BrokenProtocol);
        if protocol == Some(ProtocolName::Lsp) && is_there {
            end_lsp(server, stderr).await;
        }
        exit
    }

    fn is_one_message(&self) -> bool {
        self.handshake.is_none() && self.calls.len() == 1
    }

    /// Opens the files, makes the calls and passes on their results.
    async fn send(
        self,
        server: &Conversation<'_>,
        results: &Results,
        meta: &Meta,
    ) -> Result<Exit, (String, Problem)> {
        for document in &self.documents {
            let (method, params) =
                ("textDocument/didOpen", to_raw_value(&document.did_open()).ok());
            let opened = server.notify(method, params).await;
            opened.map_err(|problem| (method.to_owned(), problem))?;
        }
        if !self.settle.is_zero() {
            server.settle(self.settle).await;
        }
        for PlannedCall { method, params, is_notification } in self.calls {
            let params = match self.documents.last() {
                Some(document) => document.complete(&method, params),
                None => params,
            };
            let params = with_meta(params, meta);
            if is_notification {
                server.notify(&method, params).await.map_err(|problem| (method, problem))?;
                continue;
            }
            let result = server.call(&method, params).await;
            match results.add(result.map_err(|problem| (method, problem))?).await {
                Exit::Success => server.waits_since.set(Instant::now()),
                failed => return Ok(failed),
            }
        }
        Ok(Exit::Success)
    }
}

impl CallHandshake {
    async fn run(
        &self,
        server: &Conversation<'_>,
        stderr: &Stderr,
    ) -> Result<Meta, (&'static str, Problem)> {
        let initialize = server.call("initialize", to_raw_value(&self.params).ok());
        let still_waiting = || stderr.note("initialize: no answer yet, waiting");
        let refused = match noting_after(NOTE_AFTER, still_waiting, initialize).await {
            Ok(result) => {
                if !result.get().starts_with('{') {
                    stderr.say(&format!(
                        "warning: initialize: the result is not an object: {}",
                        shown(result.get())
                    ));
                }
                let (method, params) = handshake::initialized(self.protocol);
                let sent = server.notify(method, to_raw_value(&params).ok()).await;
                return sent.map(|()| None).map_err(|problem| (method, problem));
            }
            Err(refused) => refused,
        };
        let may_be_newer = self.protocol == ProtocolName::Mcp && refused.exit == Exit::ErrorAnswer;
        if !may_be_newer {
            return Err(("initialize", refused));
        }
        let meta = Some(handshake::stateless_meta());
        match server.call(handshake::DISCOVER, with_meta(None, &meta)).await {
            Ok(_) => Ok(meta),
            // An error again: the first one is about what the user asked for.
            Err(problem) if problem.exit == Exit::ErrorAnswer => Err(("initialize", refused)),
            Err(problem) => {
                stderr.say(&format!("initialize: {}", refused.message));
                Err((handshake::DISCOVER, problem))
            }
        }
    }
}

/// Runs the work, and calls `note` once if it takes longer than this.
async fn noting_after<T>(time: Duration, note: impl FnOnce(), work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    if let Ok(done) = tokio::time::timeout(time, work.as_mut()).await {
        return done;
    }
    note();
    work.await
}

fn with_meta(params: Option<Box<RawValue>>, meta: &Meta) -> Option<Box<RawValue>> {
    match meta {
        Some(meta) => params::with_members(params, [("_meta", meta)]),
        None => params,
    }
}

/// Time for the answer to `shutdown`. The results are printed by then, so it is not worth a longer wait.
const SHUTDOWN_TIME: Duration = Duration::from_secs(5);

/// Ends a language server as its protocol wants it. The results are there, so a failure is only reported.
async fn end_lsp(server: &Conversation<'_>, stderr: &Stderr) {
    let shutdown = server.peer.call::<Box<RawValue>>("shutdown", None::<Value>);
    if let Err(error) = shutdown.timeout(SHUTDOWN_TIME).await {
        stderr.say(&format!("shutdown: {}", super::report::plain(&error.to_string())));
    }
    // A server that is gone needs no `exit`.
    let _ = server.peer.notify("exit", None::<Value>).await;
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
