//! `doctor -- COMMAND`: checks the server of somebody else.
//!
//! It uses the server as a client does that makes mistakes, and judges what a client depends on: an answer to each
//! request, frames on stdout and nothing else, and an exit when the client is gone.
//!
//! ```text
//! mod       the start, the header
//! detect    the framing and the handshake of the server
//! checks    what each check sends, and how it judges the reaction
//! process   the server: frames, stdout byte by byte, signals, exit
//! stand_in  a process in the place of the client
//! verdict   the table
//! ```

mod checks;
mod detect;
mod process;
mod stand_in;
mod verdict;

use std::io;
use std::path::Path;
use std::time::Duration;

use duet_rpc::proto::frame::{Framing, FramingChoice};
use tokio::runtime::Builder;

use self::checks::{Examination, Examined};
use self::detect::detect;
use self::process::{ServerSetup, TestedServer};
use super::report::shown_up_to;
use crate::args::{DoctorArgs, Global, ProtocolName};
use crate::cmd::handshake;
use crate::exit::Exit;
use crate::sys::{self, Interruptions, descriptors};
use crate::{console, settings};

/// Maximum length of a name in the header.
const NAME: usize = 60;

/// The time for an answer, if the user wants no limit.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Checks the server and prints the report.
pub(super) fn run(args: &DoctorArgs, global: &Global) -> Exit {
    let mut setup = setup(args);
    let is_detected = args.framing.is_none() && args.handshake.is_none();
    let examined = match examine(&mut setup, is_detected) {
        Ok(Some(Ok(examined))) => examined,
        Ok(Some(Err(error))) => {
            console::say(format_args!("{error}"));
            return Exit::NotStarted;
        }
        Ok(None) => {
            console::say(format_args!("the checks were interrupted"));
            return Exit::Failed;
        }
        Err(error) => {
            console::say(format_args!("cannot start the checks: {error}"));
            return Exit::Failed;
        }
    };
    let in_color = console::may_color(&io::stdout(), global.no_color);
    let report = header(args, &setup, &examined) + &verdict::render(&examined.findings, in_color);
    match (console::print(&report), verdict::count(&examined.findings)) {
        (Exit::Success, (1.., _)) => Exit::Failed,
        (printed, _) => printed,
    }
}

fn setup(args: &DoctorArgs) -> ServerSetup {
    let framing = match (args.framing.map(|framing| framing.choice()), args.handshake) {
        (Some(FramingChoice::Fixed(framing)), _) => framing,
        (_, Some(protocol)) => handshake::framing(protocol),
        (_, None) => Framing::Ndjson,
    };
    ServerSetup {
        command: args.command.clone(),
        framing,
        protocol: args.handshake,
        answer_time: settings::limited(args.timeout).unwrap_or(NO_LIMIT),
    }
}

/// Runs all checks. Returns `None` if a signal arrived first; every started process is killed then. The inner error is
/// that of a server that cannot be started.
fn examine(setup: &mut ServerSetup, is_detected: bool) -> io::Result<Option<io::Result<Examined>>> {
    // The runtime opens six descriptors, and panics if it cannot.
    descriptors::check_free(8)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interruptions = Interruptions::receive()?;
        let _child_exits = sys::processes::keep_exit_status()?;
        let checks = async {
            if is_detected {
                (setup.framing, setup.protocol) = detect(setup).await?;
            }
            let server = TestedServer::start(setup)?;
            Ok(Examination::new(setup, server).run().await)
        };
        Ok(interruptions.or(checks).await.ok())
    })
}

/// The server and how doctor spoke to it, without anything about the user.
fn header(args: &DoctorArgs, setup: &ServerSetup, examined: &Examined) -> String {
    let program = args.command.first().map(Path::new).and_then(Path::file_name);
    let program = shown_up_to(NAME, &program.unwrap_or_default().to_string_lossy());
    let name = examined.name.as_deref().map(|name| format!(", {}", shown_up_to(NAME, name)));
    let protocol = match setup.protocol {
        Some(ProtocolName::Lsp) => "lsp",
        Some(ProtocolName::Mcp) => "mcp",
        None => "none",
    };
    format!(
        "duet-rpc doctor {own}\n\n\
         - server: {program}{name}\n\
         - framing: {framing}, handshake: {protocol}\n\
         - system: {os} {architecture}\n\n",
        own = env!("CARGO_PKG_VERSION"),
        name = name.unwrap_or_default(),
        framing = setup.framing,
        os = std::env::consts::OS,
        architecture = std::env::consts::ARCH,
    )
}
