//! The endpoints of the daemon: stdio or listening sockets (T2, T3).

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::mpsc;
use std::time::Duration;

use duet_rpc::threads;
use duet_rpc::transport::{AccessPolicy, Address, Listener, TlsServer, TokenFile};

use super::{activation, service, tls};
use crate::args::ListenArgs;
use crate::exit::Problem;
use crate::sys::files;

/// Time for the parent process to read the addresses.
const ANNOUNCE_TIMEOUT: Duration = Duration::from_millis(500);

/// Endpoints that clients connect to.
pub(crate) enum Endpoints {
    Stdio,
    Listeners {
        listeners: Vec<Listener>,
        /// Services behind brokers.
        services: Vec<Address>,
        /// Warnings to log at startup.
        warnings: Vec<String>,
    },
}

/// Listens on each address, and on each inherited socket.
pub(crate) fn open(args: &ListenArgs, tokens: Option<TokenFile>) -> Result<Endpoints, Problem> {
    if args.listen.contains(&Address::Stdio) {
        return match args.listen.len() {
            1 => check_options(args, &[]).map(|()| Endpoints::Stdio),
            _ => Err(Problem::usage(
                "stdio: cannot be combined with other addresses: \
                 while there are connections, stdin is not read",
            )),
        };
    }
    let policy = access_policy(args, tokens);
    let tls = tls::settings(args)?;
    let mut inherited = activation::inherited()?;
    if args.listen.is_empty() && inherited.is_empty() {
        return check_options(args, &[]).map(|()| Endpoints::Stdio);
    }
    let services = service::among(&args.listen)?;
    let mut listeners = Vec::new();
    for address in args.listen.iter().filter(|it| !matches!(it, Address::Nats(..))) {
        let tls = tls::needed(address, tls.as_ref())?;
        listeners.push(match inherited.take(address, tls)? {
            Some(listener) => listener,
            None => bind(address, tls, args.allow_remote)?,
        });
    }
    listeners.extend(inherited.rest(tls.as_ref())?);
    check_options(args, &listeners)?;
    if let Some(open) = listeners.iter().find(|listener| !listener.is_local())
        && !args.allow_remote
    {
        return Err(Problem::remote(open.address()));
    }
    let guard = |listener: Listener| guard(listener.access(policy.clone()), &args.allow_uid);
    let listeners = listeners.into_iter().map(guard).collect::<Result<Vec<_>, _>>()?;
    let warnings = warnings(args, &listeners);
    Ok(Endpoints::Listeners { listeners, services, warnings })
}

/// Fails if an option concerns none of the addresses: its user may rely on it.
fn check_options(args: &ListenArgs, listeners: &[Listener]) -> Result<(), Problem> {
    let has = |fits: fn(&Address) -> bool| listeners.iter().any(|it| fits(it.address()));
    let web = has(|it| matches!(it, Address::WebSocket(..) | Address::Http(..)));
    for (option, is_given, is_used, needed) in [
        (
            "--tls-cert",
            args.tls.tls_cert.is_some(),
            has(Address::is_secure),
            "tls://, wss:// or https://",
        ),
        ("--allow-host", !args.allow_host.is_empty(), web, "ws:// or http://"),
        ("--allow-origin", !args.allow_origin.is_empty(), web, "ws:// or http://"),
        (
            "--subprotocol",
            !args.subprotocol.is_empty(),
            has(|it| matches!(it, Address::WebSocket(..))),
            "ws://",
        ),
        (
            "--allow-uid",
            !args.allow_uid.is_empty(),
            has(|it| matches!(it, Address::Unix(_))),
            "unix://",
        ),
    ] {
        if is_given && !is_used {
            return Err(Problem::usage(format!(
                "{option} has no effect here: --listen needs an address with {needed}"
            )));
        }
    }
    Ok(())
}

/// Access policy for WebSocket and HTTP.
fn access_policy(args: &ListenArgs, tokens: Option<TokenFile>) -> AccessPolicy {
    let mut policy = AccessPolicy::default();
    if let Some(tokens) = tokens {
        policy = policy.token_file(tokens);
    }
    if args.allow_query_token {
        policy = policy.allow_query_token();
    }
    for host in &args.allow_host {
        policy = policy.allow_host(host);
    }
    for origin in &args.allow_origin {
        policy = policy.allow_origin(origin.to_string());
    }
    for name in &args.subprotocol {
        policy = policy.subprotocol(name);
    }
    policy
}

/// Sets the users who may connect to a Unix socket.
fn guard(listener: Listener, uids: &[u32]) -> Result<Listener, Problem> {
    if uids.is_empty() || !matches!(listener.address(), Address::Unix(_)) {
        return Ok(listener);
    }
    let address = listener.address().clone();
    listener.allow_uids(uids.iter().copied()).map_err(|error| {
        Problem::failure(format!("cannot let other users connect to {address}: {error}"))
    })
}

fn bind(
    address: &Address,
    tls: Option<&TlsServer>,
    allow_remote: bool,
) -> Result<Listener, Problem> {
    let local = address.is_local();
    if !allow_remote && matches!(local, Ok(false)) {
        return Err(Problem::remote(address));
    }
    let bound = match (tls.cloned().map(Listener::tls), allow_remote) {
        (None, true) => Listener::bind_anywhere(address),
        (None, false) => Listener::bind(address),
        (Some(tls), true) => tls.bind_anywhere(address),
        (Some(tls), false) => tls.bind(address),
    };
    bound.map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => "; is another daemon running there?",
            io::ErrorKind::AlreadyExists => "; choose another path, or move the file away",
            io::ErrorKind::PermissionDenied => "; may you listen there?",
            io::ErrorKind::NotFound => "; does its folder exist?",
            io::ErrorKind::AddrNotAvailable => "; is it an address of this machine?",
            _ => "",
        };
        Problem::failure(format!("cannot listen on {address}: {error}{advice}"))
    })
}

/// Warnings about access that the operator may not intend.
fn warnings(args: &ListenArgs, listeners: &[Listener]) -> Vec<String> {
    let mut warnings = Vec::new();
    if args.token_file.as_deref().is_some_and(files::is_exposed) {
        let who = "other users of this machine can read or change the token file";
        warnings.push(format!("{who}: `chmod 600` makes it yours alone"));
    }
    if args.tls.tls_key.as_deref().is_some_and(files::is_exposed) {
        let who = "other users of this machine can read or change the key of the certificate";
        warnings.push(format!("{who}: `chmod 600` makes it yours alone"));
    }
    for listener in listeners {
        let address = listener.address();
        let is_guarded = matches!(address, Address::WebSocket(..) | Address::Http(..));
        if args.token_file.is_some() && !is_guarded && !matches!(address, Address::Unix(_)) {
            warnings.push(format!("the token does not guard {address}: TCP has no tokens"));
        }
        if !args.allow_uid.is_empty() && matches!(address, Address::Tcp(_)) {
            warnings.push(format!("--allow-uid does not guard {address}: TCP knows no users"));
        }
        if let Address::Unix(path) = address
            && args.allow_uid.is_empty()
            && files::is_socket_for_all(path)
        {
            warnings.push(format!(
                "every user of this machine can connect to {address}: its mode should be 0600, and \
                 systemd needs `SocketMode=0600` for that"
            ));
        }
        let asks_token = is_guarded && args.token_file.is_some();
        let asks_certificate = address.is_secure() && tls::requires_certificates(args);
        if !asks_token && !asks_certificate && !listener.is_local() {
            warnings.push(format!("anyone who can reach {address} can call the daemon"));
        }
    }
    warnings
}

/// Prints the addresses to stderr before anything else (T2). Waits only briefly for a reader of stderr:
/// clients that connect are served anyway (L8).
pub(crate) fn announce(addresses: &[impl Display]) {
    let lines: String =
        addresses.iter().map(|address| format!("listening on {address}\n")).collect();
    let (done, is_done) = mpsc::channel();
    let write = move || {
        // If nobody reads it, the addresses are still in the log.
        let _ = io::stderr().write_all(lines.as_bytes());
        let _ = done.send(());
    };
    if threads::spawn("duet-rpc announcement", write).is_ok() {
        let _ = is_done.recv_timeout(ANNOUNCE_TIMEOUT);
    }
}
