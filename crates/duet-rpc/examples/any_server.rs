//! A client for any language server: starts the server, prints its name and capabilities, and shuts it down as an
//! editor does. It also reports a server that crashes or does not answer.
//!
//! ```console
//! $ cargo run -q -p duet-rpc --example any_server -- target/debug/examples/language_server
//! name: plain-text 0.1.0
//! can: executeCommandProvider, hoverProvider, positionEncoding, textDocumentSync
//! asked: nothing
//! end: closed by the remote; the child process ended with exit status: 0
//! ```
//!
//! Options come before the command: `--framing lsp|ndjson|length` sets the framing, and `--timeout SECONDS` sets the
//! time limit of an answer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use duet_rpc::proto::frame::{Framing, FramingChoice};
use duet_rpc::transport::Child;
use duet_rpc::{Context, Disconnect, Error, Peer, Profile, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

/// Default time limit of an answer, and of the server's exit.
const TIMEOUT: Duration = Duration::from_secs(10);

const USAGE: &str = "any_server [--framing lsp|ndjson|length] [--timeout SECONDS] [--] COMMAND…";

struct Arguments {
    framing: FramingChoice,
    timeout: Duration,
    command: Command,
}

fn read_arguments(mut arguments: impl Iterator<Item = OsString>) -> Option<Arguments> {
    let (mut framing, mut timeout) = (Framing::Lsp.into(), TIMEOUT);
    loop {
        let argument = arguments.next()?;
        let mut value = || arguments.next()?.into_string().ok();
        match argument.to_str() {
            Some("--framing") => framing = value()?.parse().ok()?,
            Some("--timeout") => {
                let seconds = value()?.parse().ok()?;
                timeout = Duration::try_from_secs_f64(seconds).ok()?;
            }
            _ => {
                let is_mark = argument == "--";
                let program = if is_mark { arguments.next()? } else { argument };
                let mut command = Command::new(program);
                command.args(arguments);
                return Some(Arguments { framing, timeout, command });
            }
        }
    }
}

/// The methods that the server called, in order and without repetition. The list is an extension of the connection.
#[derive(Default)]
struct CalledMethods(Mutex<Vec<&'static str>>);

impl CalledMethods {
    fn note(cx: &Context, method: &'static str) {
        let asked = cx.peer().extension::<CalledMethods>();
        let mut asked = asked.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !asked.contains(&method) {
            asked.push(method);
        }
    }
}

#[derive(Deserialize)]
struct ConfigurationParams {
    items: Vec<Value>,
}

/// The methods of the client. Some servers continue only after an answer.
fn client() -> Router {
    let mut router = Router::new().method(
        "workspace/configuration",
        async |params: ConfigurationParams, cx: Context| {
            CalledMethods::note(&cx, "workspace/configuration");
            // Null selects the server's default.
            vec![Value::Null; params.items.len()]
        },
    );
    // For these methods an empty answer is enough.
    for method in [
        "client/registerCapability",
        "client/unregisterCapability",
        "window/workDoneProgress/create",
        "window/showMessageRequest",
        "workspace/workspaceFolders",
    ] {
        router = router.method(method, move |cx: Context| CalledMethods::note(&cx, method));
    }
    router
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Introduction {
    capabilities: BTreeMap<String, Value>,
    server_info: Option<ServerInfo>,
}

#[derive(Deserialize)]
struct ServerInfo {
    name: String,
    version: Option<String>,
}

async fn initialize(server: &Peer) -> Result<Introduction, Error> {
    let params = json!({
        "processId": std::process::id(),
        "clientInfo": {"name": "any_server", "version": env!("CARGO_PKG_VERSION")},
        "rootUri": null,
        "capabilities": {
            "workspace": {"configuration": true},
            "window": {"workDoneProgress": true},
        },
    });
    let introduction = server.call("initialize", params).await?;
    server.notify("initialized", json!({})).await?;
    Ok(introduction)
}

async fn shut_down(server: &Peer) -> Result<(), Error> {
    server.call::<Value>("shutdown", ()).await?;
    server.notify("exit", ()).await
}

/// Waits for the server to exit. After the time limit, closes the connection, which stops the server.
async fn wait_for_exit(server: &Peer, timeout: Duration) -> Disconnect {
    match tokio::time::timeout(timeout, server.closed()).await {
        Ok(end) => end,
        Err(_) => server.close().await,
    }
}

async fn query(server: &Peer, out: &mut impl Write) -> Result<(), Error> {
    let Introduction { capabilities, server_info } = initialize(server).await?;
    let name =
        server_info.map(|info| format!("{} {}", info.name, info.version.unwrap_or_default()));
    let name = name.unwrap_or_else(|| "unknown".to_owned());
    let _ = writeln!(out, "name: {}", plain(name.trim_end()));
    // False and null mean that the server lacks the capability.
    let has = |(_, value): &(_, _)| !matches!(value, Value::Bool(false) | Value::Null);
    let capabilities = capabilities.into_iter().filter(has).map(|(name, _)| plain(&name));
    let _ = writeln!(out, "can: {}", list(capabilities));
    shut_down(server).await?;
    let asked = server.extension::<CalledMethods>();
    let asked = asked.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let _ = writeln!(out, "asked: {}", list(asked.into_iter().map(str::to_owned)));
    Ok(())
}

/// Replaces control characters in the server's text, because they could control the terminal.
fn plain(text: &str) -> String {
    text.replace(char::is_control, "?")
}

fn list(names: impl Iterator<Item = String>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(Arguments { framing, timeout, command }) = read_arguments(std::env::args_os().skip(1))
    else {
        eprintln!("usage: {USAGE}");
        return ExitCode::from(2);
    };
    let child = match Child::spawn(command) {
        Ok(child) => child,
        Err(error) => {
            eprintln!("cannot start the server: {error}");
            return ExitCode::FAILURE;
        }
    };
    let profile = Profile::editor().with(|it| {
        it.framing = framing;
        it.call_timeout = Some(timeout);
    });
    let server = Peer::builder(child).profile(profile).router(client()).spawn();
    let mut out = io::stdout();
    let queried = query(&server, &mut out).await;
    let end = match &queried {
        Ok(()) => wait_for_exit(&server, timeout).await,
        // A server that failed may never exit by itself.
        Err(_) => server.close().await,
    };
    let _ = writeln!(out, "end: {end}");
    let has_failed = !end.exit_report().exit.is_some_and(|status| status.success());
    if let Err(error) = &queried {
        eprintln!("the server failed: {error:#}");
    }
    if queried.is_err() || has_failed {
        for line in &end.exit_report().last_stderr {
            eprintln!("server stderr: {line}");
        }
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
