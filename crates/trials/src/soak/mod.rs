//! The soak: one daemon group a random mix of all that clients do, good and bad, for as long as one likes.
//! Every answer is checked against what the contract says, every byte of output and every line of the log
//! is accounted for, and what the daemon costs must stay flat.

mod bad;
mod client;
mod clients;
mod config;
mod connection;
mod counters;
mod daemon;
mod disconnects;
mod expect;
pub mod flags;
mod good;
mod http;
mod ledger;
mod log;
mod report;
mod resources;
mod scenarios;
mod state;
mod texts;
pub(crate) mod ws;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use self::client::Client;
use self::clients::Clients;
use self::config::{Config, POOL};
use self::connection::Connection;
use self::daemon::Daemon;
use self::expect::Pages;
use self::ledger::Ledger;
pub use self::resources::Resources;
use crate::random::Random;
use crate::wire::Framing;

pub use self::config::{Over, Profile};
pub use self::counters::{Broken, Counters, Group};
pub use self::report::Report;

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// As much as can be in this time.
    Time(Duration),
    /// So many rounds.
    Rounds(u64),
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The same seed plays the same game.
    pub seed: u64,
    /// How much of it.
    pub amount: Amount,
    /// Who the client is.
    pub profile: Profile,
    /// What carries the messages.
    pub over: Over,
    /// How messages are cut out of the stream, if not as the profile has it.
    pub framing: Option<Framing>,
    /// How many connections there are at a time, where it listens.
    pub connections: usize,
    /// How long the daemon waits for the rest of a frame.
    pub read_timeout: Duration,
    /// How long anything may take before it counts as lost.
    pub patience: Duration,
    /// Whether nothing is said on the way.
    pub is_quiet: bool,
    /// The daemon, and what comes before its flags; the test bed if there is nothing.
    pub program: Vec<PathBuf>,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            seed: 1,
            amount: Amount::Time(Duration::from_secs(60)),
            profile: Profile::Agent,
            over: Over::Stdio,
            framing: None,
            connections: 8,
            read_timeout: Duration::from_secs(3),
            patience: Duration::from_secs(30),
            is_quiet: false,
            program: Vec::new(),
        }
    }
}

impl Plan {
    /// The framing that is spoken.
    pub fn framing(&self) -> Framing {
        self.framing.unwrap_or(self.profile.framing())
    }
}

/// Every so many rounds there is a frame that does not come to its end: each takes the read timeout.
const STALL_EVERY: u64 = 50;

/// A place for a socket, which goes when this does.
struct SocketFolder(PathBuf);

impl SocketFolder {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("duet-rpc-soak-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        // Without it the daemon says what is wrong.
        let _ = std::fs::create_dir_all(&folder);
        SocketFolder(folder)
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A soak that is under way.
struct Soak {
    plan: Plan,
    begun: Instant,
    told_at: Instant,
    rounds: u64,
    counters: Arc<Counters>,
    resources: Resources,
}

/// Plays the game.
///
/// # Errors
///
/// With the first thing that broke.
pub fn run(plan: &Plan) -> Result<Report, Broken> {
    let mut plan = plan.clone();
    if plan.program.is_empty() {
        plan.program = vec![crate::harness::programs::testbed()];
    }
    let config = Config { profile: plan.profile, over: plan.over, framing: plan.framing() };
    let counters = Arc::<Counters>::default();
    let folder = SocketFolder::new();
    let listen = match plan.over {
        Over::Stdio => None,
        Over::Unix => Some(format!("unix://{}/socket", folder.0.display())),
        over => Some(format!("{over}://127.0.0.1:0")),
    };
    let daemon = Daemon::start(&plan, config, listen.as_deref(), &counters)?;
    let now = Instant::now();
    let resources = Resources::new(daemon.id(), POOL + 2);
    let mut soak = Soak { plan, begun: now, told_at: now, rounds: 0, counters, resources };
    let log = Arc::clone(&daemon.log);
    let played = match config.over {
        Over::Stdio => soak.over_stdio(daemon, config),
        _ => soak.over_sockets(daemon, config),
    };
    played.map_err(|broken| explain(broken, log.timeouts(), &soak))?;
    soak.resources.check()?;
    let (took, dropped) = (soak.begun.elapsed(), log.dropped());
    let Soak { plan, rounds, counters, resources, .. } = soak;
    Ok(Report { plan, took, rounds, counters, dropped, resources })
}

/// A machine that holds one of us up in the middle of a frame, for longer than the read timeout, has the daemon
/// drop it, as it should. Nobody here can tell that from a daemon that drops frames, so it is said.
fn explain(mut broken: Broken, timeouts: u64, soak: &Soak) -> Broken {
    let deeds = soak.counters.group(Group::Actions);
    let meant =
        deeds.iter().find(|(name, _)| *name == "read timeouts").map_or(0, |(_, count)| *count);
    if timeouts > meant {
        let more = timeouts - meant;
        let why = "it counts wrongly, or this machine was too busy for --read-timeout";
        broken.what +=
            &format!(" (and the daemon dropped {more} frames as too late that we had sent: {why})");
    }
    broken
}

impl Soak {
    fn over_stdio(&mut self, mut daemon: Daemon, config: Config) -> Result<(), Broken> {
        let (stdin, stdout) = daemon.pipes().ok_or_else(|| Broken::new("no pipes"))?;
        let (log, pages) = (Arc::clone(&daemon.log), Arc::<Pages>::default());
        let ledger = Ledger::new(config.order(), pages, Arc::clone(&self.counters));
        let connection = Connection::new(config.carrier(), stdin, stdout, ledger, &self.counters);
        let patience = self.plan.patience;
        let random = Random::new(self.plan.seed);
        let mut client = Client::new(random, config, &connection, &log, &self.counters, patience);
        client.greet()?;
        self.resources.look(patience)?;
        client.many_slow()?;
        while self.goes_on() {
            client.mix()?;
            if client.random.once_in(3) {
                client.act()?;
            }
            if self.rounds % STALL_EVERY == 2 {
                client.stall()?;
            }
            if self.rounds.is_multiple_of(8) {
                self.resources.look(patience)?;
            }
        }
        client.unsubscribe()?;
        self.resources.look(patience)?;
        match client.random.below(3) {
            0 => self.counters.count(Group::Connections, "ended by the end of input"),
            1 => client.shut_down(),
            _ => {
                self.counters.count(Group::Connections, "ended by SIGTERM");
                daemon.terminate();
            }
        }
        connection.finish(patience)?;
        daemon.wait(patience)
    }

    fn over_sockets(&mut self, daemon: Daemon, config: Config) -> Result<(), Broken> {
        let patience = self.plan.patience;
        let url = daemon.url.clone().unwrap_or_default();
        let (log, pages, counters) =
            (Arc::clone(&daemon.log), Arc::<Pages>::default(), Arc::clone(&self.counters));
        let clients = Clients { config, url, log, pages, counters, patience };
        let mut random = Random::new(self.plan.seed);
        self.resources.look(patience)?;
        clients.warm_up(random.fork())?;
        while self.goes_on() {
            clients.generation(&mut random, self.plan.connections)?;
            if self.rounds % STALL_EVERY == 1 {
                clients.stall(random.fork())?;
            }
            self.resources.look(patience)?;
        }
        daemon.terminate();
        daemon.wait(patience)
    }

    /// Whether there is another round. Now and then a word about it.
    fn goes_on(&mut self) -> bool {
        let is_more = match self.plan.amount {
            Amount::Time(time) => self.begun.elapsed() < time,
            Amount::Rounds(rounds) => self.rounds < rounds,
        };
        self.rounds += u64::from(is_more);
        let is_long =
            matches!(self.plan.amount, Amount::Time(time) if time > Duration::from_secs(600));
        let pause = Duration::from_secs(if is_long { 60 } else { 10 });
        if !self.plan.is_quiet && self.told_at.elapsed() >= pause {
            self.told_at = Instant::now();
            let (answers, bad) =
                (self.counters.sum(Group::Answers), self.counters.sum(Group::BadInput));
            let seconds = self.begun.elapsed().as_secs();
            let (rounds, memory) = (self.rounds, self.resources.resident_kb());
            let done = format!("round {rounds}: {answers} answers, {bad} bad inputs");
            eprintln!("{seconds} s, {done}, {memory} kB");
        }
        is_more
    }
}
