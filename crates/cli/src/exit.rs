//! The exit codes and their meanings.

use std::process::ExitCode;

/// Exit code of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded.
    Success = 0,
    /// The command failed.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The answer to a call is an error.
    ErrorAnswer = 3,
    /// A call or a replay timed out.
    Timeout = 4,
    /// The server of a call or a replay could not be started or reached.
    NotStarted = 5,
    /// The server of a call or a replay ended without an answer, or sent one that cannot be used.
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

    /// Meaning of the exit code, for the manual page.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Exit::Success => "success; for a daemon, an orderly shutdown",
            Exit::Failed => {
                "failure: cannot write the output, cannot use a file or descriptor, a check failed, or two \
                 sessions differ"
            }
            Exit::Usage => "wrong command line",
            Exit::ErrorAnswer => "call: the server answered with an error",
            Exit::Timeout => "call, replay: no answer in time",
            Exit::NotStarted => "call, replay: the server could not be started or reached",
            Exit::BrokenProtocol => {
                "call, replay: the server ended without an answer, or sent one that cannot be used"
            }
        }
    }
}

/// A failed command: the error message and the exit code.
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

    /// A listener that other machines could reach, which the user has not allowed.
    pub(crate) fn remote(address: &impl std::fmt::Display) -> Self {
        Problem::usage(format!(
            "other machines could connect to {address}: listen on 127.0.0.1 or [::1], \
             or allow it with --allow-remote"
        ))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
