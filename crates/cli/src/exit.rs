//! Every exit code, and what it means.

use std::process::ExitCode;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what it was asked to.
    Success = 0,
    /// It did not.
    Failed = 1,
    /// The command line was not understood.
    Usage = 2,
    /// A call was answered with an error.
    ErrorAnswer = 3,
    /// A call was not answered in time.
    Timeout = 4,
    /// The server of a call could not be started or reached.
    NotStarted = 5,
    /// The server of a call ended without an answer, or sent one that cannot be used.
    BrokenProtocol = 6,
}

impl Exit {
    pub(crate) const ALL: [Exit; 7] = [
        Exit::Success,
        Exit::Failed,
        Exit::Usage,
        Exit::ErrorAnswer,
        Exit::Timeout,
        Exit::NotStarted,
        Exit::BrokenProtocol,
    ];

    /// What it means, for the manual.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Exit::Success => "success; a daemon that was asked to end",
            Exit::Failed => {
                "failure: output, a file or a descriptor cannot be used, or a check failed"
            }
            Exit::Usage => "wrong command line",
            Exit::ErrorAnswer => "call: the server answered with an error",
            Exit::Timeout => "call: no answer in time",
            Exit::NotStarted => "call: the server could not be started or reached",
            Exit::BrokenProtocol => {
                "call: the server ended without an answer, or sent one that cannot be used"
            }
        }
    }
}

/// Why a command cannot do what it was asked to, and how it ends.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Problem { exit: Exit::Usage, message: message.into() }
    }

    pub(crate) fn failure(message: impl Into<String>) -> Self {
        Problem { exit: Exit::Failed, message: message.into() }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
