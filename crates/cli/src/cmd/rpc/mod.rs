//! `rpc`: the daemon.

mod activation;
mod listen;
mod service;
mod tls;
mod token;

use duet_rpc::transport::{Address, TokenFile};
use duet_rpc::{Profile, Server};

use crate::args::{Global, ListenArgs, ProfileName, RpcArgs};
use crate::exit::{Exit, Problem};
use crate::logging::{Level, Log};
use crate::methods::{self, Delivery, LogAccess};
use crate::{Additions, console, settings};
use service::Services;

pub(crate) use crate::sys::EarlySignals;
pub(crate) use listen::{Endpoints, announce, open as open_endpoints};
pub(crate) use service::refuse as refuse_services;
pub(crate) use token::{open_beside as open_tokens, read as read_token};

/// Runs the daemon until shutdown.
pub(crate) fn run(args: &RpcArgs, global: &Global, additions: &Additions) -> Exit {
    let (early, endpoints, token) = match prepare(args) {
        Ok(prepared) => prepared,
        Err(problem) => {
            console::say(format_args!("{}", problem.message));
            return problem.exit;
        }
    };
    let profile = settings::profile(args);
    let traffic = match args.profile {
        ProfileName::Desktop => Level::Info,
        ProfileName::Editor | ProfileName::Agent => Level::Debug,
    };
    let log = match Log::start(global, Level::Info, traffic) {
        Ok(log) => log,
        Err(error) => {
            early.release();
            console::say(format_args!("cannot start the log: {error}"));
            return Exit::Failed;
        }
    };
    let access = match endpoints {
        Endpoints::Listeners { .. } if !args.share_log => LogAccess::Withheld,
        Endpoints::Listeners { .. } | Endpoints::Stdio => LogAccess::Shared(log),
    };
    let router = |delivery| (additions.methods)(methods::router(args.profile, delivery, access));
    let exit_hook = additions.before_exit;
    let all = router(Delivery::All);
    let methods: Vec<_> = match &endpoints {
        Endpoints::Listeners { services, .. } if !services.is_empty() => {
            all.methods().map(str::to_owned).collect()
        }
        Endpoints::Listeners { .. } | Endpoints::Stdio => Vec::new(),
    };
    let mut server = Server::new().profile(profile).router(all).before_exit(move || {
        log.flush();
        exit_hook();
    });
    server = match (args.exit_with_parent, settings::process_to_end_with(args)) {
        (None, _) => server,
        (Some(_), Some(id)) => server.exit_with_process(id),
        (Some(_), None) => server.exit_with_parent(),
    };
    let most = args.max_connections.map(|most| most as usize);
    if let Some(most) = most {
        server = server.max_connections(most);
    }
    // Announce only after signals are received: the reader may send one.
    let profile_name = args.profile.name();
    match endpoints {
        Endpoints::Stdio => {
            server = server.on_connect(move |_| {
                log.open();
                log_start(log, profile_name, &profile);
                early.pass_on();
            });
        }
        Endpoints::Listeners { listeners, services, warnings } => {
            log.show_connections();
            server = listeners.into_iter().fold(server, Server::listen);
            // The log begins after the addresses: after those of services, whose brokers take a moment.
            let begin_log = move || {
                log.open();
                log_start(log, profile_name, &profile);
            };
            let has_services = !services.is_empty();
            let services = Services { addresses: services, methods, most, token };
            server = services.add_to(server, profile, begin_log);
            server = server.one_way(router(Delivery::AnswersOnly)).on_listening(move |addresses| {
                listen::announce(addresses);
                if !has_services {
                    begin_log();
                }
                log_addresses(addresses);
                warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                early.pass_on();
            });
        }
    }
    match server.run() {
        Ok(()) => Exit::Success,
        // The server has logged the error.
        Err(_) => {
            log.open();
            log.flush();
            Exit::Failed
        }
    }
}

/// Runs the steps that can fail before there is a log. Returns the token for brokers, too.
fn prepare(args: &RpcArgs) -> Result<(EarlySignals, Endpoints, Option<String>), Problem> {
    // Read the token first, while a signal still ends the process: a pipe may have no writer.
    let parent = settings::process_to_end_with(args);
    let tokens = args.listen.token_file.as_deref();
    let tokens = tokens.map(|file| token::open_beside(file, parent)).transpose()?;
    let is_worker = args.listen.listen.iter().any(|it| matches!(it, Address::Nats(..)));
    let token = match (&args.listen.token_file, &tokens) {
        (Some(file), Some(tokens)) if is_worker => Some(token::only(file, tokens)?),
        _ => None,
    };
    let early = EarlySignals::capture()
        .map_err(|error| Problem::failure(format!("cannot receive signals: {error}")))?;
    match open(&args.listen, tokens) {
        Ok(endpoints) => Ok((early, endpoints, token)),
        Err(problem) => {
            early.release();
            Err(problem)
        }
    }
}

fn open(args: &ListenArgs, tokens: Option<TokenFile>) -> Result<Endpoints, Problem> {
    let endpoints = listen::open(args, tokens)?;
    if matches!(endpoints, Endpoints::Stdio) {
        let cannot = |error| Problem::failure(format!("cannot write to stdout: {error}"));
        console::stdout().map_err(cannot)?;
    }
    Ok(endpoints)
}

fn log_start(log: &Log, profile_name: &str, profile: &Profile) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        pid = std::process::id(),
        level = log.level().name(),
        sink = log.destination(),
        profile = profile_name,
        framing = %profile.framing,
        "duet-rpc started"
    );
}

fn log_addresses(addresses: &[Address]) {
    for address in addresses {
        tracing::info!("listening on {address}");
    }
}
