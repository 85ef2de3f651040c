//! Shared parts of the tests.
#![allow(dead_code, reason = "each test file uses its part")]

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

pub(crate) mod browser;
pub(crate) mod daemon;
pub(crate) mod folder;
pub(crate) mod listening;
pub(crate) mod log;
pub(crate) mod once;
pub(crate) mod programs;
pub(crate) mod terminal;
pub(crate) mod trace_file;

/// All pairs of two lists.
pub(crate) fn pairs<A: Clone, B>(
    these: impl IntoIterator<Item = A>,
    those: impl IntoIterator<Item = B> + Clone,
) -> Vec<(A, B)> {
    let with_each = |it: A| those.clone().into_iter().map(move |other| (it.clone(), other));
    these.into_iter().flat_map(with_each).collect()
}

/// Runs all checks concurrently, because each waits most of the time.
pub(crate) fn concurrently<C: Send>(cases: impl IntoIterator<Item = C>, check: impl Fn(C) + Sync) {
    let check = &check;
    thread::scope(|scope| {
        for case in cases {
            scope.spawn(move || check(case));
        }
    });
}

/// Reports a skipped test. It writes directly to stderr, because the test harness captures other output.
pub(crate) fn say_skipped(what: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}: {why}");
}

/// Returns true if this program can be run.
pub(crate) fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    let question = match program {
        "openssl" => "version",
        "nginx" => "-v",
        _ => "--version",
    };
    command.arg(question).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Skips a test because a foreign program is missing. Fails if foreign programs are required.
pub(crate) fn skip(what: &str, why: &str) {
    let is_required = std::env::var_os("REAL_CLIENTS").is_some_and(|value| value == "required");
    assert!(!is_required, "{what} is required here: {why}");
    say_skipped(what, why);
}
