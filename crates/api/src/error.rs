//! The error of a document that cannot be used.

use std::fmt;

/// Error of a document that cannot be used, with the JSON pointer to the fault.
///
/// ```
/// let error = duet_rpc_api::Document::read(br#"{"openrpc": 1}"#).unwrap_err();
/// assert_eq!(error.pointer(), "/openrpc");
/// assert_eq!(error.to_string(), "at /openrpc: expected a string, found a number");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pointer: String,
    problem: String,
}

impl ApiError {
    pub(crate) fn new(pointer: impl Into<String>, problem: impl Into<String>) -> Self {
        ApiError { pointer: pointer.into(), problem: problem.into() }
    }

    /// The JSON pointer of the culprit; empty for the whole document.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// The message without the pointer.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => f.write_str(&self.problem),
            pointer => write!(f, "at {pointer}: {}", self.problem),
        }
    }
}

impl std::error::Error for ApiError {}
