//! Severity of log records (G2).

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer};
use serde::ser::Serializer;

use crate::choice;

/// Severity of a record, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub(crate) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    pub(crate) const ALL: [Level; 4] = [Level::Debug, Level::Info, Level::Warn, Level::Error];
    pub(crate) const NAMES: [&'static str; 4] =
        [Level::Debug.name(), Level::Info.name(), Level::Warn.name(), Level::Error.name()];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// Error for an unknown level name.
#[derive(Debug)]
pub(crate) struct UnknownLevel;

impl FromStr for Level {
    type Err = UnknownLevel;

    /// Ignores case.
    fn from_str(name: &str) -> Result<Level, UnknownLevel> {
        let level = Level::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(name));
        level.ok_or(UnknownLevel)
    }
}

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected one of {}", Level::NAMES.join(", "))
    }
}

impl std::error::Error for UnknownLevel {}

impl Serialize for Level {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Level {
    /// Ignores case.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Level, D::Error> {
        choice::deserialize(deserializer, &Level::NAMES, |name| name.parse().ok())
    }
}
