//! `rpc`: the daemon.

use duet_rpc::Server;

use crate::args::{Global, ProfileName, RpcArgs};
use crate::exit::Exit;
use crate::logging::{Level, Log};
use crate::{Additions, console, methods, settings};

/// Serves until the daemon is to end.
pub(crate) fn run(args: &RpcArgs, global: &Global, additions: &Additions) -> Exit {
    let profile = settings::profile(args);
    let traffic = match args.profile {
        ProfileName::Desktop => Level::Info,
        ProfileName::Editor | ProfileName::Agent => Level::Debug,
    };
    let log = match Log::start(global, Level::Info, traffic) {
        Ok(log) => log,
        Err(error) => {
            console::say(format_args!("the log cannot be started: {error}"));
            return Exit::Failed;
        }
    };
    let router = (additions.methods)(methods::router(args.profile, log));
    let last_act = additions.before_exit;
    let mut server = Server::new(&profile, router).before_exit(move || {
        log.flush();
        last_act();
    });
    if args.exit_with_parent {
        server = server.exit_with_parent();
    }
    // Not before signals are received: who reads this may send one.
    let profile_name = args.profile.name();
    server = server.on_start(move |_| {
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            pid = std::process::id(),
            level = log.level().name(),
            sink = log.place(),
            profile = profile_name,
            framing = %profile.framing,
            "duet-rpc started"
        );
    });
    match server.run() {
        Ok(()) => Exit::Success,
        // It stands in the log already.
        Err(_) => {
            log.flush();
            Exit::Failed
        }
    }
}
