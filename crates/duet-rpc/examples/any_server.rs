//! A client of language servers: starts any of them, asks who it is and what it can do, and sends it home
//! again as politely as an editor does. If it dies, or says nothing, that is told too.
//!
//! ```console
//! $ cargo run -q -p duet-rpc --example any_server -- target/debug/examples/language_server
//! name: plain-text 0.1.0
//! can: executeCommandProvider, hoverProvider, positionEncoding, textDocumentSync
//! asked: nothing
//! end: closed by the remote; the child process ended with exit status: 0
//! ```
//!
//! Options come before the command: `--framing lsp|ndjson|length` for how messages are kept apart,
//! `--patience SECONDS` for how long an answer may take.

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
const PATIENCE: Duration = Duration::from_secs(10);

const USAGE: &str = "any_server [--framing lsp|ndjson|length] [--patience SECONDS] [--] COMMAND…";

struct Wishes {
    framing: FramingChoice,
    patience: Duration,
    command: Command,
}

fn read_arguments(mut arguments: impl Iterator<Item = OsString>) -> Option<Wishes> {
    let (mut framing, mut patience) = (Framing::Lsp.into(), PATIENCE);
    loop {
        let argument = arguments.next()?;
        let mut value = || arguments.next()?.into_string().ok();
        match argument.to_str() {
            Some("--framing") => framing = value()?.parse().ok()?,
            Some("--patience") => {
                let seconds = value()?.parse().ok()?;
                patience = Duration::try_from_secs_f64(seconds).ok()?;
            }
            _ => {
                let is_mark = argument == "--";
                let program = if is_mark { arguments.next()? } else { argument };
                let mut command = Command::new(program);
                command.args(arguments);
                return Some(Wishes { framing, patience, command });
            }
        }
    }
}

/// The methods that the server called, in order and without repetition. The connection keeps the list.
#[derive(Default)]
struct Asked(Mutex<Vec<&'static str>>);

impl Asked {
    fn note(cx: &Context, method: &'static str) {
        let asked = cx.peer().extension::<Asked>();
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

/// Servers ask their clients too, and some go on only when they are answered.
fn client() -> Router {
    let mut router = Router::new().method(
        "workspace/configuration",
        async |params: ConfigurationParams, cx: Context| {
            Asked::note(&cx, "workspace/configuration");
            // Null for each: whatever the server thinks best.
            vec![Value::Null; params.items.len()]
        },
    );
    // To these it is enough to say that we have heard.
    for method in [
        "client/registerCapability",
        "client/unregisterCapability",
        "window/workDoneProgress/create",
        "window/showMessageRequest",
        "workspace/workspaceFolders",
    ] {
        router = router.method(method, move |cx: Context| Asked::note(&cx, method));
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

async fn get_to_know(server: &Peer) -> Result<Introduction, Error> {
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

async fn send_home(server: &Peer) -> Result<(), Error> {
    server.call::<Value>("shutdown", ()).await?;
    server.notify("exit", ()).await
}

/// Waits for the server to leave, and if it does not, makes it.
async fn see_it_end(server: &Peer, patience: Duration) -> Disconnect {
    match tokio::time::timeout(patience, server.closed()).await {
        Ok(end) => end,
        Err(_) => server.close().await,
    }
}

async fn visit(server: &Peer, out: &mut impl Write) -> Result<(), Error> {
    let Introduction { capabilities, server_info } = get_to_know(server).await?;
    let name =
        server_info.map(|info| format!("{} {}", info.name, info.version.unwrap_or_default()));
    let name = name.unwrap_or_else(|| "it does not say".to_owned());
    let _ = writeln!(out, "name: {}", plain(name.trim_end()));
    // What is false or null is as good as not there.
    let has = |(_, value): &(_, _)| !matches!(value, Value::Bool(false) | Value::Null);
    let capabilities = capabilities.into_iter().filter(has).map(|(name, _)| plain(&name));
    let _ = writeln!(out, "can: {}", list(capabilities));
    send_home(server).await?;
    let asked = server.extension::<Asked>();
    let asked = asked.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let _ = writeln!(out, "asked: {}", list(asked.into_iter().map(str::to_owned)));
    Ok(())
}

/// Removes characters that control a terminal from text of the server.
fn plain(text: &str) -> String {
    text.replace(char::is_control, "?")
}

fn list(names: impl Iterator<Item = String>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(Wishes { framing, patience, command }) = read_arguments(std::env::args_os().skip(1))
    else {
        eprintln!("usage: {USAGE}");
        return ExitCode::from(2);
    };
    let child = match Child::spawn(command) {
        Ok(child) => child,
        Err(error) => {
            eprintln!("the server cannot be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    let profile = Profile::editor().with(|it| {
        it.framing = framing;
        it.call_timeout = Some(patience);
    });
    let server = Peer::builder(child).profile(profile).router(client()).spawn();
    let mut out = io::stdout();
    let visited = visit(&server, &mut out).await;
    let end = match &visited {
        Ok(()) => see_it_end(&server, patience).await,
        // Why wait for one that does not do what it should?
        Err(_) => server.close().await,
    };
    let _ = writeln!(out, "end: {end}");
    let has_failed = !end.exit_report().exit.is_some_and(|status| status.success());
    if let Err(error) = &visited {
        eprintln!("it went wrong: {error:#}");
    }
    if visited.is_err() || has_failed {
        for line in &end.exit_report().last_stderr {
            eprintln!("its stderr: {line}");
        }
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
