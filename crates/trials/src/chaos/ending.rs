//! What a life may end with.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::Signal;

/// The codes or signals, and what has to have come out by then.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) codes: Vec<i32>,
    pub(super) signals: Vec<Signal>,
    /// Whether each request has to be answered.
    pub(super) answers_all: bool,
    /// Whether the last frame may be cut.
    pub(super) may_cut: bool,
}

impl Ending {
    /// With this exit code, whole frames, and no answer that has to be there.
    pub(super) fn code(code: i32) -> Self {
        let (codes, signals) = (vec![code], vec![]);
        Ending { codes, signals, answers_all: false, may_cut: false }
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

    pub(super) fn holds(&self, status: ExitStatus) -> bool {
        let is_signal = |signal: &Signal| status.signal() == Some(signal.as_raw());
        status.code().is_some_and(|code| self.codes.contains(&code))
            || self.signals.iter().any(is_signal)
    }
}
