//! `watch`: a live web page of running and past sessions.
//!
//! ```text
//! trace files ──▶ folder (which sessions) ──▶ index (where each record is, fates of requests)
//!                                               │
//! browser ──▶ server ──▶ access ──▶ service ──▶ sessions ──▶ query, stats, row
//! ```
//!
//! The page reads the same files as `duet-rpc trace`, so running and past sessions look the same, and a tap knows
//! nothing about the page. All data is pulled by the page: a browser that is slow, or hidden, asks less often.

mod access;
mod assets;
mod entry;
mod folder;
mod index;
mod methods;
mod part;
mod query;
#[cfg(test)]
mod query_tests;
mod row;
mod server;
mod service;
mod sessions;
mod stats;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::Arc;

use duet_rpc::threads;
use duet_rpc_trace::default_folder;
use tokio::runtime::Builder;

pub(crate) use self::folder::WatchTarget;
use self::server::PageServer;
use self::sessions::Watch;
use crate::args::WatchArgs;
use crate::console;
use crate::exit::{Exit, Problem};
use crate::sys::Interruptions;

/// Serves the page until a signal ends it.
pub(crate) fn run(args: &WatchArgs) -> Exit {
    match serve(args) {
        Ok(()) => Exit::Success,
        Err(problem) => {
            console::say(format_args!("{}", problem.message));
            problem.exit
        }
    }
}

/// Serves the page of a target on a thread of its own, until the process ends. Returns the address to open.
pub(crate) fn start(target: WatchTarget, port: u16) -> io::Result<String> {
    let server = PageServer::bind(port)?;
    let url = server.url();
    let watch = Arc::new(Watch::new(target));
    let runtime = Builder::new_current_thread().enable_all().build()?;
    threads::spawn("duet-rpc page", move || runtime.block_on(server.serve(watch)))?;
    Ok(url)
}

fn serve(args: &WatchArgs) -> Result<(), Problem> {
    let target = find_target(args.target.as_deref())?;
    let cannot = |error: io::Error| Problem::failure(format!("cannot start: {error}"));
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let served = runtime.block_on(async {
        let mut interruptions = Interruptions::receive().map_err(cannot)?;
        let port = args.port;
        let server = PageServer::bind(port).map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::AddrInUse => "; is another page served there?",
                _ => "",
            };
            Problem::failure(format!("cannot listen on 127.0.0.1:{port}: {error}{advice}"))
        })?;
        if console::print(&format!("{}\n", server.url())) != Exit::Success {
            return Err(Problem::failure("cannot print the address of the page"));
        }
        match interruptions.or(server.serve(Arc::new(Watch::new(target)))).await {
            Ok(Ok(never)) => match never {},
            Ok(Err(error)) => Err(cannot(error)),
            Err(_signal) => Ok(()),
        }
    });
    // A thread may still read a file. Nothing depends on it.
    runtime.shutdown_background();
    served
}

/// The file or folder to show.
fn find_target(path: Option<&Path>) -> Result<WatchTarget, Problem> {
    let Some(path) = path else {
        let none = || Problem::failure("cannot find your home folder; name a folder to watch");
        return default_folder().map(WatchTarget::Folder).ok_or_else(none);
    };
    let cannot = |error: &dyn std::fmt::Display| {
        Problem::failure(format!("cannot watch {}: {error}", path.display()))
    };
    let data = path.metadata().map_err(|error| cannot(&error))?;
    if data.is_dir() {
        std::fs::read_dir(path).map_err(|error| cannot(&error))?;
        return Ok(WatchTarget::Folder(path.to_owned()));
    }
    if !data.is_file() {
        return Err(cannot(&"it is not a file and not a folder"));
    }
    // The header of a file that is empty may come later.
    match folder::read_header(path).map_err(|error| cannot(&error))? {
        None if data.len() > 0 => Err(cannot(&"it is not a trace of `duet-rpc tap`")),
        _ => Ok(WatchTarget::File(path.to_owned())),
    }
}
