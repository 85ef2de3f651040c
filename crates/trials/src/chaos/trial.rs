//! One life: what it needs, what is done to it, and what is checked of every one.

use std::fmt::Display;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::Signal;

use super::World;
use super::daemon::{Channel, Daemon, in_shell};
use super::frames::Framing;
use super::ledger::{Expect, random_message};
use crate::random::Random;

/// Every end comes within this time of what causes it (L5).
pub(super) const BOUND: Duration = Duration::from_secs(2);

pub(super) const PROFILES: [&str; 3] = ["editor", "desktop", "agent"];

/// What never may be on stderr.
const PANIC: [&str; 5] = [
    "panicked at",
    "stack backtrace",
    "RUST_BACKTRACE",
    "fatal runtime error",
    "overflowed its stack",
];

/// One life, with a place of its own.
pub(super) struct Trial<'w> {
    pub(super) world: &'w World,
    pub(super) random: Random,
    /// The current folder of the daemon. What is in there afterwards is left over.
    pub(super) folder: PathBuf,
    pub(super) profile: &'static str,
    /// Whether it is the test bed, which has more methods.
    pub(super) is_testbed: bool,
    pub(super) complaints: Vec<String>,
    /// Why it was not tried.
    pub(super) skipped: Option<&'static str>,
    pub(super) took: Option<Duration>,
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

/// What a life may end with.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) codes: Vec<i32>,
    pub(super) signals: Vec<Signal>,
    /// Whether each request has to be answered.
    pub(super) answers_all: bool,
    /// Whether the last frame may be cut.
    pub(super) may_cut: bool,
    /// How much longer than the bound it may take.
    pub(super) extra: Duration,
}

impl Ending {
    /// With this exit code, whole frames, and no answer that has to be there.
    pub(super) fn code(code: i32) -> Self {
        let (codes, signals) = (vec![code], vec![]);
        Ending { codes, signals, answers_all: false, may_cut: false, extra: Duration::ZERO }
    }

    /// With 0 and all answers.
    pub(super) fn complete() -> Self {
        Ending { answers_all: true, ..Self::code(0) }
    }

    /// By this signal, in the middle of whatever it was doing.
    pub(super) fn killed(signal: Signal) -> Self {
        Ending { codes: vec![], signals: vec![signal], may_cut: true, ..Self::code(0) }
    }

    /// Or with this code.
    pub(super) fn or(mut self, code: i32) -> Self {
        self.codes.push(code);
        self
    }

    /// The last frame may be cut, as nobody can read it.
    pub(super) fn cut(mut self) -> Self {
        self.may_cut = true;
        self
    }

    fn holds(&self, status: ExitStatus) -> bool {
        let is_signal = |signal: &Signal| status.signal() == Some(signal.as_raw());
        status.code().is_some_and(|code| self.codes.contains(&code))
            || self.signals.iter().any(is_signal)
    }
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
            complaints: Vec::new(),
            skipped: None,
            took: None,
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
    pub(super) fn skip(&mut self, why: &'static str) -> io::Result<()> {
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
    pub(super) fn command_at(&mut self, level: &str) -> Command {
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

    /// Waits for the end, and checks all that has to hold at every end.
    pub(super) fn finish(&mut self, daemon: &mut Daemon, ending: &Ending) {
        let has_ended = daemon.pump(self.hang(), |daemon| daemon.ended.is_some());
        let Some((status, at)) = daemon.ended.filter(|_| has_ended) else {
            self.complain("it does not end");
            self.tell_words(daemon);
            daemon.signal_all(Signal::KILL);
            return;
        };
        // The rest of what it said.
        daemon.pump(Duration::from_millis(1), |_| false);
        let took = at.saturating_duration_since(daemon.trigger);
        self.took = Some(took);
        let bound = (BOUND + ending.extra).mul_f64(self.world.patience);
        self.check(
            took <= bound,
            format_args!("it took {took:?} to end, and {bound:?} are allowed"),
        );
        if !ending.holds(status) {
            let Ending { codes, signals, .. } = ending;
            self.complain(format_args!("{status}, and not one of {codes:?} {signals:?}"));
        }
        self.check_output(daemon, ending);
        self.check_words(daemon);
        self.check_traces(daemon);
        if !self.complaints.is_empty() {
            self.tell_words(daemon);
        }
    }

    fn check_output(&mut self, daemon: &Daemon, ending: &Ending) {
        if let Some(garbage) = &daemon.garbage {
            self.complain(format_args!("stdout holds what is no frame: {garbage}"));
        } else if !daemon.out.is_empty() && !ending.may_cut {
            let left = daemon.out.len();
            self.complain(format_args!("the last frame on stdout is cut after {left} bytes"));
        }
        self.complaints.extend(daemon.ledger.complaints(self.profile != "agent"));
        if ending.answers_all
            && let Some(missing) = daemon.ledger.missing()
        {
            self.complain(format_args!("at the end {missing}"));
        }
    }

    /// Records and nothing else, and no trace of a panic.
    fn check_words(&mut self, daemon: &Daemon) {
        let said = daemon.text();
        let is_excused = |line: &&str| self.excused.iter().any(|word| line.contains(word));
        let said = said.split('\n').filter(|line| !is_excused(line)).collect::<Vec<_>>().join("\n");
        for word in PANIC {
            self.check(!said.contains(word), format_args!("stderr has {word:?}"));
        }
        // The place of a panic is told, but only handlers of the test bed have any.
        let has_place = !self.is_testbed && said.contains(".rs:");
        self.check(!has_place, "stderr names a place in the source");
        // The last one may be cut where a signal or a limit has cut it.
        let mut lines: Vec<_> = said.split('\n').collect();
        lines.pop();
        let is_record = |line: &str| {
            let is_text = line.len() > 24 && line.as_bytes()[4] == b'-' && line.contains('Z');
            is_text || line.starts_with('{') && line.ends_with('}')
        };
        let may_say = |line: &str| {
            line.is_empty() && self.may_say_nothing
                || line.starts_with("duet-rpc: ")
                || self.may_say.iter().any(|word| line.contains(word))
        };
        let strays = lines.into_iter().filter(|line| !is_record(line) && !may_say(line));
        let strays: Vec<_> =
            strays.take(3).map(|line| format!("stderr has a stray line: {line}")).collect();
        self.complaints.extend(strays);
    }

    /// No process, no changed flag, no file is left of it.
    fn check_traces(&mut self, daemon: &Daemon) {
        if daemon.is_left() {
            self.complain("it has left a process behind");
            daemon.signal_all(Signal::KILL);
        }
        for name in daemon.changed_flags() {
            self.complain(format_args!("the flags of {name} were not put back"));
        }
        self.check_folder();
    }

    /// Complains of files that should not be there.
    pub(super) fn check_folder(&mut self) {
        for name in names_in(&self.folder) {
            let may_be = self.may_leave.iter().any(|known| name.starts_with(known));
            self.check(may_be, format_args!("it has left the file {name}"));
        }
    }

    /// Keeps what it said, for who reads of the failure.
    pub(super) fn tell_words(&mut self, daemon: &Daemon) {
        let said = daemon.text();
        let lines: Vec<_> = said.lines().collect();
        for line in &lines[lines.len().saturating_sub(12)..] {
            let line: String = line.chars().take(300).collect();
            self.story.push(format!("stderr: {line}"));
        }
    }

    /// A path in the folder of this life.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
