//! What the tests share.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod daemon;
pub(crate) mod folder;
pub(crate) mod log;
pub(crate) mod once;
pub(crate) mod terminal;
