//! Soak: one daemon under random client traffic, good and bad, for any length of time.
//!
//! Every answer is checked against the contract, every output byte and log line is accounted for, and the
//! daemon's resources must stay flat.
//!
//! | file | content |
//! |---|---|
//! | `report` `resources` `log` | the report; memory, descriptors and threads; the log of the daemon |
//! | `config` | limits, and the consequences of profile, transport and framing |
//! | `clients` `client` `connection` | generations of clients; one client; its reads and writes |
//! | `good` `bad` `texts` | requests, bad input, and pieces of JSON |
//! | `scenarios` `disconnects` | steps that need an idle connection; every end of a connection |
//! | `http` | clients of HTTP |

mod bad;
mod client;
mod clients;
mod config;
mod connection;
mod disconnects;
mod good;
mod http;
mod log;
mod report;
mod resources;
mod scenarios;
mod texts;

use prelude::*;

pub use report::SoakReport;
pub use resources::Resources;

/// Imports shared by the files of the clients.
mod prelude {
    pub(super) use super::client::Client;
    pub(super) use super::clients::Clients;
    pub(super) use super::config::*;
    pub(super) use super::good::{self, Asked};
    pub(super) use super::texts::{envelope, quoted};
    pub(super) use crate::harness::prelude::*;
}

/// Put one daemon under random client traffic, and check every byte of its output.
///
/// Exit code: 0 if all checks passed, 1 if something failed, 2 for bad options.
#[derive(Clone, Debug, Parser)]
#[command(name = "soak")]
pub struct Plan {
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Duration of the run, in seconds
    #[arg(long, default_value = "60", value_parser = seconds)]
    pub seconds: Duration,
    /// Number of rounds, instead of a duration
    #[arg(long)]
    pub rounds: Option<u64>,
    /// Profile of the daemon
    #[arg(long, default_value = "agent")]
    pub profile: Profile,
    /// Transport of the connections
    #[arg(long, default_value = "stdio")]
    pub over: Transport,
    /// Framing on streams [default: the framing of the profile]
    #[arg(long)]
    pub framing: Option<Framing>,
    /// Number of concurrent connections, if the daemon listens
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    pub connections: u64,
    /// Read timeout of the daemon, in seconds
    #[arg(long, default_value = "3", value_parser = some_seconds)]
    pub read_timeout: Duration,
    /// Time limit for an answer, in seconds
    #[arg(long, default_value = "30", value_parser = seconds)]
    pub patience: Duration,
    /// Print no progress
    #[arg(long)]
    pub quiet: bool,
    /// Daemon and its first arguments; empty for the test bed
    #[arg(skip)]
    pub program: Vec<PathBuf>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|it| Duration::try_from_secs_f64(it).ok());
    seconds.ok_or_else(|| "not a number of seconds".to_owned())
}

fn some_seconds(text: &str) -> Result<Duration, String> {
    let is_some = |it: &Duration| !it.is_zero();
    seconds(text).ok().filter(is_some).ok_or_else(|| "not a number above 0".to_owned())
}

impl Default for Plan {
    fn default() -> Self {
        Plan::parse_from(["soak"])
    }
}

impl Plan {
    fn framing(&self) -> Framing {
        self.framing.unwrap_or(self.profile.framing())
    }
}

/// Runs the command.
pub fn main() -> ExitCode {
    let plan = Plan::parse();
    match run(&plan) {
        Ok(report) => {
            say(report);
            say("all checks passed");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("seed {}, {} over {}: {failure}", plan.seed, plan.profile, plan.over);
            ExitCode::FAILURE
        }
    }
}

/// Rounds between frames that never complete: each takes the read timeout.
const STALL_EVERY: u64 = 50;

/// A soak in progress.
struct Soak {
    plan: Plan,
    begun: Instant,
    told_at: Instant,
    rounds: u64,
    clients: Arc<Clients>,
    resources: Resources,
}

/// Runs a soak.
///
/// # Errors
///
/// Returns the first failure.
pub fn run(plan: &Plan) -> Result<SoakReport, Failure> {
    let plan = plan.clone();
    let config = Config { profile: plan.profile, over: plan.over, framing: plan.framing() };
    let folder = TempFolder::new("soak").map_err(|error| Failure::new(error.to_string()))?;
    let listen = plan.over.url(folder.path());
    let failure = |error: io::Error| Failure::new(format!("the daemon: {error}"));
    let mut daemon = Daemon::start(command(&plan, listen.as_deref()), PIPES).map_err(failure)?;
    daemon.theirs.clear();
    let url = listen.map(|_| daemon.listening_url(plan.patience)).transpose().map_err(failure)?;
    let (counters, log, pages) = Default::default();
    let (url, patience) = (url.unwrap_or_default(), plan.patience);
    let clients = Arc::new(Clients { config, url, log, pages, counters, patience });
    let stderr = daemon.stderr.take().map(fs::File::from);
    let stderr = stderr.map(|stderr| clients.log.read(stderr, &clients.counters));
    let (now, resources) = (Instant::now(), Resources::new(daemon.id(), POOL + 2));
    let mut soak = Soak { plan, begun: now, told_at: now, rounds: 0, clients, resources };
    let played = match config.over {
        Transport::Stdio => soak.over_stdio(&mut daemon),
        _ => soak.over_sockets(&daemon),
    };
    let ended = played.and_then(|()| soak.end(&mut daemon, stderr));
    ended.map_err(|failure| soak.explain(failure))?;
    let Soak { plan, rounds, clients, resources, begun, .. } = soak;
    let (took, dropped) = (begun.elapsed(), clients.log.state().dropped);
    let counters = Arc::clone(&clients.counters);
    Ok(SoakReport { plan, took, rounds, counters, dropped, resources })
}

/// The command that starts the daemon.
fn command(plan: &Plan, listen: Option<&str>) -> Command {
    let words = if plan.program.is_empty() { &[programs::testbed()][..] } else { &plan.program };
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    let (profile, framing) = (plan.profile.to_string(), plan.framing().to_string());
    command.args(["--profile", &profile, "--log-format", "json", "--framing", &framing]);
    command.args(["--max-message-bytes", &MESSAGE_LIMIT.to_string()]);
    command.args(["--read-timeout", &plan.read_timeout.as_secs_f64().to_string()]);
    if plan.profile == Profile::Agent {
        command.args(["--max-in-flight", &IN_FLIGHT.to_string()]);
    }
    command.args(listen.iter().flat_map(|url| ["--listen", url]));
    // On stdio this has no effect.
    command.arg("--share-log");
    command.env_remove("DUET_RPC_LOG").env_remove("TESTBED_TELLS");
    command
}

impl Soak {
    fn over_stdio(&mut self, daemon: &mut Daemon) -> Result<(), Failure> {
        let pipes = daemon.stdin.take().zip(daemon.stdout.take());
        let (stdin, stdout) = pipes.ok_or_else(|| Failure::new("no pipes"))?;
        let (patience, random) = (self.plan.patience, Random::new(self.plan.seed));
        let clients = Arc::clone(&self.clients);
        let mut client = Client::new(&clients, [stdin, stdout], random)?;
        client.greet()?;
        self.resources.look(patience)?;
        client.many_slow()?;
        while self.goes_on() {
            client.mix()?;
            if client.random.once_in(3) {
                client.scenario()?;
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
            0 => clients.count_end("ended by the end of input"),
            1 => client.shut_down(),
            _ => {
                clients.count_end("ended by SIGTERM");
                daemon.signal(Signal::TERM);
            }
        }
        client.finish()
    }

    fn over_sockets(&mut self, daemon: &Daemon) -> Result<(), Failure> {
        let patience = self.plan.patience;
        let mut random = Random::new(self.plan.seed);
        self.resources.look(patience)?;
        self.clients.warm_up(random.fork())?;
        while self.goes_on() {
            self.clients.generation(&mut random, self.plan.connections as usize)?;
            if self.rounds % STALL_EVERY == 1 {
                self.clients.stall(random.fork())?;
            }
            self.resources.look(patience)?;
        }
        daemon.signal(Signal::TERM);
        Ok(())
    }

    /// Waits for the end of the daemon, which must be clean, and checks the log and the resources.
    fn end(
        &self,
        daemon: &mut Daemon,
        stderr: Option<thread::JoinHandle<()>>,
    ) -> Result<(), Failure> {
        let status = daemon.wait(self.plan.patience);
        let status = status.ok_or_else(|| Failure::new("the daemon does not end"))?;
        let is_good = status.code() == Some(0);
        Failure::unless(is_good, "the daemon ends badly", "exit code 0", status)?;
        let is_gone = wait_until(self.plan.patience, || !daemon.is_left());
        Failure::unless(is_gone, "the daemon has left a process behind", "", "")?;
        let _ = stderr.map(thread::JoinHandle::join);
        self.clients.log.check()?;
        self.resources.check()
    }

    /// Returns true if there is another round. Prints the progress regularly.
    fn goes_on(&mut self) -> bool {
        let is_more = match self.plan.rounds {
            None => self.begun.elapsed() < self.plan.seconds,
            Some(rounds) => self.rounds < rounds,
        };
        self.rounds += u64::from(is_more);
        let is_long = self.plan.rounds.is_none() && self.plan.seconds > Duration::from_secs(600);
        let pause = Duration::from_secs(if is_long { 60 } else { 10 });
        if !self.plan.quiet && self.told_at.elapsed() >= pause {
            self.told_at = Instant::now();
            let counters = &self.clients.counters;
            let [answers, bad] = [Group::Answers, Group::BadInput].map(|it| counters.sum(it));
            let (rounds, memory) = (self.rounds, self.resources.resident_kb());
            let done = format!("round {rounds}: {answers} answers, {bad} bad inputs");
            eprintln!("{} s, {done}, {memory} kB", self.begun.elapsed().as_secs());
        }
        is_more
    }

    /// Adds a hint to a failure. If this machine delays us inside a frame for longer than the read timeout,
    /// the daemon rightly drops the frame. We cannot distinguish that from a daemon that drops frames, so the
    /// failure mentions it.
    fn explain(&self, mut failure: Failure) -> Failure {
        let actions = self.clients.counters.group(Group::Actions);
        let meant = actions.iter().find(|(name, _)| *name == "read timeouts");
        let timeouts = self.clients.log.state().timeouts;
        let more = timeouts.saturating_sub(meant.map_or(0, |(_, count)| *count));
        if more > 0 {
            failure.what += &format!(
                " (and the daemon timed out {more} frames that we had sent: it counts wrongly, or this \
                 machine was too busy for --read-timeout)"
            );
        }
        failure
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Plan;
    use crate::{Profile, Transport};

    #[test]
    fn options_are_read_and_bad_ones_are_named() {
        let read = |words: &str| Plan::try_parse_from(format!("soak {words}").split_whitespace());
        let plan = read("--seed 7 --rounds 3 --profile editor --over tcp").expect("all are known");
        assert_eq!((plan.seed, plan.profile, plan.over), (7, Profile::Editor, Transport::Tcp));
        assert_eq!(plan.rounds, Some(3));
        for bad in ["--seed", "--seed x", "--over carrier-pigeon", "-x", "--seconds=-1", "7"] {
            let why = read(bad).expect_err("it is bad").to_string();
            let word = bad.split([' ', '=']).next().expect("a word");
            assert!(why.contains(word), "{why}");
        }
        for bad in ["--connections 0", "--read-timeout 0", "--framing ws"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
