//! The first line of a trace file.

use serde::{Deserialize, Serialize};

/// The version of the format, in the member `duet` of a header.
pub const VERSION: u32 = 1;

/// The first line of a trace file: which session this is.
///
/// The environment of the programs is never part of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Header {
    /// The version of the format: [`VERSION`].
    pub duet: u32,
    /// Identifies the session. All parts of a rotated trace have the same.
    #[serde(default)]
    pub session: String,
    /// Counts the files of a rotated trace, from 1.
    #[serde(default = "first_part", skip_serializing_if = "is_first")]
    pub part: u32,
    /// The time of day at which `at` is zero, in RFC 3339.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub start: String,
    /// The server's command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The address that the client connected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// The address of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<String>,
    /// The process id of the recorder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The program that wrote the file, and its version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The rules by which values were replaced in this file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<String>,
    /// The size above which bodies are cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_body: Option<u64>,
    /// The rules by which the tap made faults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// The seed of these faults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl Header {
    /// A header with only the name of a session.
    pub fn new(session: impl Into<String>) -> Self {
        Header { duet: VERSION, session: session.into(), part: 1, ..Header::default() }
    }

    /// Returns `true` if this program understands the format of the file.
    pub fn is_supported(&self) -> bool {
        self.duet == VERSION
    }
}

fn first_part() -> u32 {
    1
}

fn is_first(part: &u32) -> bool {
    *part <= 1
}
