//! `mock`: plays a recorded server for clients.

mod serve;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duet_rpc::proto::frame::{Framing, FramingChoice};
use duet_rpc::transport::{Address, Listener, Stdio, Transport};
use duet_rpc::{Hub, Profile};
use duet_rpc_trace::{Dir, Mock, MockOptions, OnMiss, Script, Wire};
use tokio::runtime::Builder;

use self::serve::serve;
use super::faulty_pipe::FaultSettings;
use super::recording;
use super::rpc;
use super::stderr::Stderr;
use super::trace::input::{Stop, conclude};
use super::upstream::{self, Upstream};
use crate::args::{MockArgs, OnMissName};
use crate::console;
use crate::exit::{Exit, Problem};
use crate::sys::{Interruptions, descriptors};

/// Connections at the same time.
const MOST: usize = 1024;

/// Plays the server.
pub(crate) fn run(args: &MockArgs) -> Exit {
    match prepare(args) {
        Ok(exit) => exit,
        Err(CannotMock::Stop(stop)) => conclude(Err(stop)),
        Err(CannotMock::Problem(problem)) => {
            console::say(format_args!("{}", problem.message));
            problem.exit
        }
    }
}

/// A mock that cannot begin.
enum CannotMock {
    Stop(Stop),
    Problem(Problem),
}

impl From<Stop> for CannotMock {
    fn from(stop: Stop) -> Self {
        CannotMock::Stop(stop)
    }
}

impl From<Problem> for CannotMock {
    fn from(problem: Problem) -> Self {
        CannotMock::Problem(problem)
    }
}

/// Everything that the clients share.
struct MockServer {
    /// The server at its start.
    mock: Mock,
    profile: Profile,
    faults: Arc<FaultSettings>,
    /// The server that gets the other requests, and its framing.
    upstream: Option<Upstream>,
    upstream_profile: Profile,
    stderr: Stderr,
    /// Requests that were answered with an error that is not recorded.
    misses: AtomicU64,
}

fn prepare(args: &MockArgs) -> Result<Exit, CannotMock> {
    check(args)?;
    let cannot = |error: io::Error| Problem::failure(format!("cannot start the mock: {error}"));
    let tokens = args.listen.token_file.as_deref();
    let tokens = tokens.map(|file| rpc::open_tokens(file, None)).transpose()?;
    let token = args.to_token_file.as_deref();
    let upstream = Upstream::new(&args.command, args.connect.as_ref(), token, &args.tls)?;
    let trace = recording::read(&args.file, Dir::S2c)?;
    trace.warnings.iter().for_each(|warning| console::say(format_args!("{warning}")));

    let early = rpc::EarlySignals::capture().map_err(cannot)?;
    let endpoints = rpc::open_endpoints(&args.listen, tokens).inspect_err(|_| early.release())?;
    if let rpc::Endpoints::Stdio = endpoints {
        console::stdout().map_err(cannot)?;
    }
    descriptors::check_free(8).map_err(cannot)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let stderr = Stderr::start().map_err(cannot)?;
    let says = stderr.clone();
    let faults = FaultSettings::new(&args.faults, false, move |fault| says.note(fault))?;
    let server = Arc::new(MockServer {
        faults: Arc::clone(&faults),
        mock: Mock::new(Arc::clone(&trace.script), options(args)),
        profile: client_profile(args, &trace.script),
        upstream,
        upstream_profile: upstream::profile(recorded_framing(&trace.script)),
        stderr: stderr.clone(),
        misses: AtomicU64::new(0),
    });
    let end = runtime.block_on(async {
        let mut interruptions = Interruptions::receive().map_err(cannot)?;
        early.pass_on();
        let work = Arc::clone(&server).work(endpoints);
        // A signal ends the mock. Dropping the connections ends the servers that it started.
        interruptions.or(work).await.unwrap_or(Ok(()))
    });
    drop(runtime);
    stderr.flush();
    faults.name_unused();
    end?;
    Ok(match server.misses.load(Ordering::Relaxed) {
        0 => Exit::Success,
        _ => Exit::Failed,
    })
}

fn check(args: &MockArgs) -> Result<(), Problem> {
    let has_server = args.connect.is_some() || !args.command.is_empty();
    match (args.on_miss == OnMissName::Pass, has_server) {
        (true, false) => {
            return Err(Problem::usage(
                "--on-miss pass needs a server: give its command after --, or --connect URL",
            ));
        }
        (false, true) => {
            return Err(Problem::usage(
                "a server is only used with --on-miss pass: add the option, or omit the server",
            ));
        }
        _ => {}
    }
    rpc::refuse_services(&args.listen.listen)?;
    if let Some(address) = args.listen.listen.iter().find(|it| matches!(it, Address::Http(..))) {
        return Err(Problem::usage(format!(
            "cannot mock at {address}: a recorded session needs a connection: \
             use tcp://, tls://, unix://, ws:// or wss://"
        )));
    }
    Ok(())
}

fn options(args: &MockArgs) -> MockOptions {
    let mut options = MockOptions::default();
    options.on_miss = match args.on_miss {
        OnMissName::Error => OnMiss::Error,
        OnMissName::Nearest => OnMiss::Nearest,
        OnMissName::Pass => OnMiss::Pass,
    };
    options.maps.clone_from(&args.map);
    options.ignore.clone_from(&args.ignore);
    options
}

fn recorded_framing(script: &Script) -> Framing {
    match script.wire() {
        Some(Wire::Lsp) => Framing::Lsp,
        Some(Wire::Length) => Framing::Length,
        _ => Framing::Ndjson,
    }
}

fn client_profile(args: &MockArgs, script: &Script) -> Profile {
    let choice = match args.framing.choice() {
        FramingChoice::Auto if script.begins_with(Dir::S2c) => recorded_framing(script).into(),
        choice => choice,
    };
    let limits = match choice {
        FramingChoice::Fixed(framing) => framing,
        FramingChoice::Auto => Framing::Length,
    };
    upstream::profile(limits).with(|it| it.framing = choice)
}

impl MockServer {
    async fn work(self: Arc<Self>, endpoints: rpc::Endpoints) -> Result<(), Problem> {
        match endpoints {
            rpc::Endpoints::Stdio => {
                let cannot = |error| Problem::failure(format!("cannot read stdin: {error}"));
                let client: Box<dyn Transport> = Box::new(Stdio::take().map_err(cannot)?);
                let client = self.faults.pipe(client, &self.profile);
                serve(&self, client).await;
            }
            rpc::Endpoints::Listeners { listeners, warnings, .. } => {
                let addresses: Vec<_> = listeners.iter().map(|it| it.address().clone()).collect();
                rpc::announce(&addresses);
                warnings.iter().for_each(|warning| self.stderr.say(warning));
                self.listen(listeners).await;
            }
        }
        Ok(())
    }

    /// Serves the clients of these listeners, until a signal ends the process.
    async fn listen(self: Arc<Self>, listeners: Vec<Listener>) {
        let server = Arc::clone(&self);
        let hub = Hub::builder().profile(self.profile).max_connections(MOST);
        let hub = hub.serve_with(move |transport, _| {
            let server = Arc::clone(&server);
            async move {
                let client = server.faults.pipe(transport, &server.profile);
                serve(&server, client).await;
            }
        });
        let hub = hub.build();
        for listener in listeners {
            tokio::spawn(hub.clone().serve(listener));
        }
        std::future::pending::<()>().await;
    }
}
