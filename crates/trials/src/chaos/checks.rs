//! What is checked of every life when it ends: how, when, what came out, and what is left.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::daemon::Daemon;
use super::ending::Ending;
use super::trial::Trial;

/// Every end comes within this time of what causes it (L5).
pub(super) const BOUND: Duration = Duration::from_secs(2);

/// What never may be on stderr.
const PANIC: [&str; 5] = [
    "panicked at",
    "stack backtrace",
    "RUST_BACKTRACE",
    "fatal runtime error",
    "overflowed its stack",
];

impl Trial<'_> {
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
        self.check_time(daemon.trigger, at);
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

    /// From what causes the end until it comes. The time that the machine was late by itself is not counted.
    pub(super) fn check_time(&mut self, trigger: Instant, end: Instant) {
        let took = end.saturating_duration_since(trigger);
        let late = self.world.scheduler_lag.late_between(trigger, end);
        (self.took, self.late) = (Some(took), late);
        let bound = BOUND.mul_f64(self.world.patience) + late;
        self.check(
            took <= bound,
            format_args!("it took {took:?} to end, and {bound:?} are allowed"),
        );
    }

    pub(super) fn check_output(&mut self, daemon: &Daemon, ending: &Ending) {
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
    pub(super) fn check_words(&mut self, daemon: &Daemon) {
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

    /// The records of its start and its end are there if its level shows them, and only then; the one of the
    /// end has one of these words.
    pub(super) fn check_records(&mut self, daemon: &Daemon, words: &[&str]) {
        let is_due = self.level != "warn";
        let has_begun = daemon.has_said("duet-rpc started");
        self.check(has_begun == is_due, "the record of its start is missing, or should be");
        let has_ended = words.iter().any(|word| daemon.has_said(word));
        self.check(has_ended == is_due, "the record of why it ends is missing, or should be");
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
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
