//! The checks at the end of every life: exit status and time, output, and leftovers.

use std::os::unix::process::ExitStatusExt;

use super::prelude::*;
use super::tapped::Tap;

/// Maximum time from the cause of an end to the end (L5).
pub(super) const BOUND: Duration = Duration::from_secs(2);

/// Words that must never appear on stderr.
const PANIC: [&str; 5] = [
    "panicked at",
    "stack backtrace",
    "RUST_BACKTRACE",
    "fatal runtime error",
    "overflowed its stack",
];

/// Allowed end of a life, and the output required by then.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) codes: Vec<i32>,
    pub(super) signals: Vec<Signal>,
    /// True if every request must be answered.
    pub(super) answers_all: bool,
    /// True if the last frame may be cut.
    pub(super) may_cut: bool,
}

/// Exit code 0, with all answers.
pub(super) fn complete() -> Ending {
    Ending { answers_all: true, ..Ending::code(0) }
}

impl Ending {
    /// This exit code, with whole frames. Answers may be missing.
    pub(super) fn code(code: i32) -> Self {
        Ending { codes: vec![code], signals: vec![], answers_all: false, may_cut: false }
    }

    /// This signal, at any point of the output.
    pub(super) fn killed(signal: Signal) -> Self {
        Ending { codes: vec![], signals: vec![signal], answers_all: false, may_cut: true }
    }

    /// Also allows this exit code.
    pub(super) fn or(mut self, code: i32) -> Self {
        self.codes.push(code);
        self
    }

    /// Also allows these signals.
    pub(super) fn or_by(mut self, signals: &[Signal]) -> Self {
        self.signals.extend(signals);
        self
    }

    /// Allows a cut last frame, because the reader is gone.
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

impl Trial<'_> {
    /// Waits for the end, and makes the checks that apply to every end.
    pub(super) fn finish(&mut self, ending: Ending) -> Lived {
        self.wait(PipedDaemon::has_ended);
        let Some((status, at)) = self.daemon().process.ended else {
            self.complain("it does not end");
            self.tell_stderr();
            self.daemon().process.kill_group();
            return Ok(());
        };
        // Read the rest of the output.
        self.run_for(1);
        let trigger = self.daemon().trigger;
        self.check_time(trigger, at);
        let Ending { codes, signals, .. } = &ending;
        let what =
            format!("{status}, but only codes {codes:?} and signals {signals:?} are allowed");
        self.check(ending.holds(status), what);
        self.check_output(&ending);
        self.check_stderr();
        self.check_traces();
        self.check_tree();
        self.keep_end(status, &ending);
        if !self.life.complaints.is_empty() {
            self.tell_stderr();
        }
        Ok(())
    }

    /// Checks the time from the cause of the end to the end. The machine's own lag does not count.
    pub(super) fn check_time(&mut self, trigger: Instant, end: Instant) {
        let took = end.saturating_duration_since(trigger);
        let late = self.world.lag.late_between(trigger, end);
        (self.life.took, self.life.late) = (Some(took), late);
        let delay = self.tap.as_ref().map_or(Duration::ZERO, Tap::delay);
        let bound = (BOUND + delay).mul_f64(self.world.patience) + late;
        self.check(took <= bound, format_args!("it took {took:?} to end, and may take {bound:?}"));
    }

    /// Checks stdout: whole frames, right answers, and all of them if required.
    pub(super) fn check_output(&mut self, ending: &Ending) {
        let daemon = self.daemon();
        let mut complaints = std::mem::take(&mut daemon.wrong);
        let left = daemon.link.inbound.rest().len();
        if let Some(garbage) = &daemon.garbage {
            complaints.push(format!("stdout holds bytes outside of frames: {garbage}"));
        } else if left > 0 && !ending.may_cut {
            complaints.push(format!("the last frame on stdout is cut after {left} bytes"));
        }
        if ending.answers_all && !daemon.is_settled() {
            complaints.push(format!("at the end, {}", daemon.link.ledger.missing()));
        }
        self.life.complaints.extend(complaints);
    }

    /// Checks that stderr holds only log records, and no trace of a panic.
    pub(super) fn check_stderr(&mut self) {
        let said = self.daemon().text();
        let is_excused = |line: &&str| self.excused.iter().any(|word| line.contains(word));
        let mut lines: Vec<_> = said.split('\n').filter(|line| !is_excused(line)).collect();
        let has = |word: &str| lines.iter().any(|line| line.contains(word));
        let panics = PANIC.into_iter().filter(|word| has(word));
        let mut complaints: Vec<_> = panics.map(|word| format!("stderr has {word:?}")).collect();
        // A panic is logged with its source location, but only handlers of the test bed panic.
        if !self.is_testbed && has(".rs:") {
            complaints.push("stderr names a source location".to_owned());
        }
        // A signal or a limit may have cut the last line.
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
        complaints.extend(strays.take(3).map(|line| format!("stderr has a stray line: {line}")));
        self.life.complaints.extend(complaints);
    }

    /// Checks that the records of start and end appear exactly if the log level shows them. The record of the
    /// end contains one of these words.
    pub(super) fn check_records(&mut self, words: &[&str]) -> Lived {
        let is_due = self.level != "warn";
        let has_begun = self.daemon().has_said("duet-rpc started");
        self.check(has_begun == is_due, "the record of its start is missing or unexpected");
        let has_ended = words.iter().any(|word| self.daemon().has_said(word));
        self.conclude(has_ended == is_due, "the record of why it ends is missing or unexpected")
    }

    /// Checks that a record on stderr gives the reason for a failure. A plain line of the command may give it
    /// instead.
    pub(super) fn check_reason(&mut self, may_be_plain: bool) -> Lived {
        let words = [" ERROR ", "\"error\"", if may_be_plain { "duet-rpc: " } else { " ERROR " }];
        let is_told = words.iter().any(|word| self.daemon().has_said(word));
        self.conclude(is_told, "no record gives the reason")
    }

    /// Checks that a daemon without some resource either served or gave the reason. A daemon killed by a
    /// signal had no chance to.
    pub(super) fn check_served_or_told(&mut self) -> Lived {
        let daemon = self.daemon();
        let holds = match daemon.process.ended.map(|(status, _)| status.code()) {
            Some(Some(0)) => daemon.is_settled(),
            Some(Some(_)) => !daemon.said.is_empty(),
            _ => true,
        };
        self.conclude(holds, "it neither serves nor gives the reason")
    }

    /// Checks for leftovers: processes, changed descriptor flags, files.
    fn check_traces(&mut self) {
        if self.daemon().process.is_left() {
            self.complain("it has left a process behind");
            self.daemon().process.kill_group();
        }
        for name in self.daemon().process.changed_flags() {
            self.complain(format_args!("the flags of {name} were not restored"));
        }
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let may_be = self.may_leave.iter().any(|known| name.starts_with(known));
            self.check(may_be, format_args!("it has left the file {name}"));
        }
    }

    /// Adds the end of stderr to the story of a failure.
    pub(super) fn tell_stderr(&mut self) {
        let said = self.daemon().text();
        let lines: Vec<_> = said.lines().collect();
        for line in &lines[lines.len().saturating_sub(12)..] {
            let line: String = line.chars().take(300).collect();
            self.tell(format_args!("stderr: {line}"));
        }
    }
}
