//! One life: what it needs, and what is done to it.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::World;
use super::channel::{Channel, in_shell};
use super::daemon::Daemon;
use super::ending::Ending;
use super::frames::Framing;
use super::ledger::{Expect, random_message};
use super::report::Skipped;
use crate::random::Random;

pub(super) const PROFILES: [&str; 3] = ["editor", "desktop", "agent"];

/// One life, with a place of its own.
pub(super) struct Trial<'w> {
    pub(super) world: &'w World,
    pub(super) random: Random,
    /// The current folder of the daemon. What is in there afterwards is left over.
    pub(super) folder: PathBuf,
    pub(super) profile: &'static str,
    /// Whether it is the test bed, which has more methods.
    pub(super) is_testbed: bool,
    /// From which level on it logs.
    pub(super) level: &'static str,
    pub(super) complaints: Vec<String>,
    /// Why it was not tried.
    pub(super) skipped: Option<Skipped>,
    pub(super) took: Option<Duration>,
    /// How much of that the machine was late by itself.
    pub(super) late: Duration,
    /// Whether nothing was in flight at the end, so that it should have been quick.
    pub(super) was_idle: bool,
    /// What was done, for who reads of a failure.
    pub(super) story: Vec<String>,
    /// Files that may be left.
    pub(super) may_leave: Vec<&'static str>,
    /// What the daemon may say on stderr that is no record.
    pub(super) may_say: Vec<&'static str>,
    /// Also an empty line.
    pub(super) may_say_nothing: bool,
    /// Words of lines that are not ours: of the loader, and of Rust itself where there is no memory.
    pub(super) excused: Vec<&'static str>,
}

impl<'w> Trial<'w> {
    /// One that nothing has been done in yet; its profile and its program come of the random numbers.
    pub(super) fn new(world: &'w World, mut random: Random, folder: PathBuf) -> Self {
        let profile = *random.pick(&PROFILES);
        Trial {
            world,
            profile,
            is_testbed: random.once_in(2),
            random,
            folder,
            level: "info",
            complaints: Vec::new(),
            skipped: None,
            took: None,
            late: Duration::ZERO,
            was_idle: false,
            story: Vec::new(),
            may_leave: Vec::new(),
            may_say: Vec::new(),
            may_say_nothing: false,
            excused: Vec::new(),
        }
    }
}

impl Trial<'_> {
    /// Notes what is done.
    pub(super) fn tell(&mut self, what: impl Display) {
        self.story.push(what.to_string());
    }

    pub(super) fn complain(&mut self, what: impl Display) {
        self.complaints.push(what.to_string());
    }

    /// Complains unless this holds.
    pub(super) fn check(&mut self, holds: bool, what: impl Display) {
        if !holds {
            self.complain(what);
        }
    }

    /// Says that it cannot be tried here.
    pub(super) fn skip(&mut self, why: Skipped) -> io::Result<()> {
        self.skipped = Some(why);
        Ok(())
    }

    /// How long one waits before something counts as hanging.
    pub(super) fn hang(&self) -> Duration {
        Duration::from_secs(10).mul_f64(self.world.patience)
    }

    /// The command, with random settings that change nothing of how it ends.
    pub(super) fn command(&mut self) -> Command {
        let level = *self.random.pick(&["info", "info", "debug", "warn"]);
        self.command_at(level)
    }

    /// The same, which logs from this level on.
    pub(super) fn command_at(&mut self, level: &'static str) -> Command {
        self.level = level;
        let mut command = match self.is_testbed {
            true => Command::new(&self.world.testbed),
            false => {
                let mut command = Command::new(&self.world.daemon);
                command.arg("rpc");
                command
            }
        };
        command.args(["--profile", self.profile]);
        let format = *self.random.pick(&["text", "text", "json"]);
        command.args(["--log-level", level, "--log-format", format]);
        self.story.push(format!(
            "{} --profile {} --log-level {level} --log-format {format}",
            if self.is_testbed { "testbed" } else { "duet-rpc rpc" },
            self.profile
        ));
        command.env_remove("DUET_RPC_LOG").env_remove("RUST_BACKTRACE").env_remove("NO_COLOR");
        command.current_dir(&self.folder);
        command
    }

    /// The test bed, whose handlers say that they begin.
    pub(super) fn telling_testbed(&mut self) -> Command {
        self.is_testbed = true;
        let mut command = self.command();
        command.env("TESTBED_TELLS", "1");
        self.may_say.extend(["test.", "the last act begins"]);
        command
    }

    /// Starts it with pipes.
    pub(super) fn start(&mut self, command: Command) -> io::Result<Daemon> {
        self.start_on(command, [Channel::Pipe, Channel::Pipe, Channel::Pipe])
    }

    /// Starts it on these.
    pub(super) fn start_on(&mut self, command: Command, on: [Channel; 3]) -> io::Result<Daemon> {
        Daemon::start(command, Framing::of(self.profile), on)
    }

    /// A plain daemon with pipes.
    pub(super) fn daemon(&mut self) -> io::Result<Daemon> {
        let command = self.command();
        self.start(command)
    }

    /// A daemon that is started by a shell which does this first; `"$@"` is the command.
    pub(super) fn daemon_in_shell(&mut self, script: &str) -> io::Result<Daemon> {
        let command = self.command();
        self.tell(format_args!("sh -c '{script}'"));
        self.start(in_shell(script, &command))
    }

    /// Sends a request and waits for its answer, so that the daemon is up.
    pub(super) fn greet(&mut self, daemon: &mut Daemon) -> bool {
        let text = daemon.ledger.ask("version", &serde_json::json!([]), Expect::Anything);
        let frame = daemon.framing.frame(&text);
        daemon.send(&frame);
        self.await_answers(daemon);
        let is_up = daemon.ledger.is_settled();
        if !is_up {
            self.complain("it does not answer the first request");
            self.check_output(daemon, &Ending::code(0));
            self.check_words(daemon);
            self.tell_words(daemon);
        }
        is_up
    }

    /// Sends one request, and does not wait.
    pub(super) fn ask(
        &mut self,
        daemon: &mut Daemon,
        method: &str,
        params: &serde_json::Value,
        expect: Expect,
    ) {
        let text = daemon.ledger.ask(method, params, expect);
        let frame = daemon.framing.frame(&text);
        daemon.send(&frame);
    }

    /// Asks again and again until it ends: what is wrong with its output shows at the next answer. One alone
    /// may not be enough, as what another life has just started has our ends too for a moment.
    pub(super) fn ask_until_it_ends(&mut self, daemon: &mut Daemon) {
        for _ in 0..100 {
            self.ask(daemon, "version", &serde_json::json!([]), Expect::Anything);
            daemon.mark();
            if daemon.pump(Duration::from_millis(50), |daemon| daemon.ended.is_some()) {
                return;
            }
        }
    }

    /// Some messages at random, in pieces at random.
    pub(super) fn traffic(&mut self, daemon: &mut Daemon) {
        let most = *self.random.pick(&[1, 5, 5, 30, 30, 300]);
        let count = self.random.below(most + 1);
        self.tell(format_args!("{count} messages"));
        self.messages(daemon, count);
    }

    /// So many messages at random.
    pub(super) fn messages(&mut self, daemon: &mut Daemon, count: usize) {
        let is_patient = self.random.once_in(2);
        for _ in 0..count {
            let text =
                random_message(&mut self.random, &mut daemon.ledger, self.profile, self.is_testbed);
            let frame = daemon.framing.frame(&text);
            let cut = self.random.below(frame.len());
            let (begin, end) = frame.split_at(if self.random.once_in(4) { cut } else { 0 });
            daemon.send(begin);
            if !begin.is_empty() {
                daemon.pump(Duration::from_micros(300), |_| false);
            }
            daemon.send(end);
            if is_patient && self.random.once_in(3) {
                self.await_answers(daemon);
            }
        }
    }

    /// Waits a little, in which it goes on.
    pub(super) fn pause(&mut self, daemon: &mut Daemon) {
        let most = *self.random.pick(&[0, 200, 2_000, 20_000]);
        let time = Duration::from_micros(self.random.below(most + 1) as u64);
        daemon.pump(time, |_| false);
    }

    /// Waits until all is answered that is due.
    pub(super) fn settle(&mut self, daemon: &mut Daemon) {
        self.await_answers(daemon);
        if let Some(missing) = daemon.ledger.missing() {
            self.complain(format_args!("while it lives, {missing}"));
        }
    }

    /// Waits until all is answered, or nothing more can come of it.
    fn await_answers(&self, daemon: &mut Daemon) {
        daemon.pump(self.hang(), |daemon| {
            daemon.ledger.is_settled() || daemon.garbage.is_some() || daemon.ended.is_some()
        });
    }

    /// Sends all that is to be sent.
    pub(super) fn flush(&mut self, daemon: &mut Daemon) {
        let is_sent = daemon.pump(self.hang(), |daemon| daemon.is_sent() || daemon.ended.is_some());
        self.check(is_sent, "it does not read what it is sent");
    }

    /// Closes stdin, behind all that is to be sent.
    pub(super) fn close_stdin(&mut self, daemon: &mut Daemon) {
        self.flush(daemon);
        self.tell("stdin is closed");
        daemon.stdin = None;
        daemon.mark();
        daemon.counts_from_last_byte = true;
    }

    /// Sends a signal that it is to end by.
    pub(super) fn end_by(&mut self, daemon: &mut Daemon, signal: Signal) {
        self.tell(format_args!("signal {}", signal.as_raw()));
        daemon.mark();
        daemon.signal(signal);
    }

    /// A path in the folder of this life.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}
