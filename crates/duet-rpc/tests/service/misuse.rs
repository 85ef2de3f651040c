//! Misuse of the macros: the compiler reports each mistake at its position, with a suggestion.
//!
//! A case is a file in `misuse/`, or a module of such a file: the compiler runs once for each file. The expected messages
//! are in a `.stderr` file. After a change of a message,
//! `TRYBUILD=overwrite cargo test -p duet-rpc --all-features --test service misuse` updates these files.

use std::process::Command;

use trybuild::TestCases;

const FOLDER: &str = "tests/service/misuse";

/// The compiler version of the messages for the cases in `types`. These messages come from the compiler, and change
/// with its version.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn d6_p7_misuse_is_reported_with_a_suggestion() {
    let cases = TestCases::new();
    for folder in ["service", "rpc_error", "debug_handler"] {
        cases.compile_fail(format!("{FOLDER}/{folder}/*.rs"));
    }
    let version = Command::new("rustc").arg("--version").output().expect("the compiler runs");
    if String::from_utf8_lossy(&version.stdout).starts_with(COMPILER) {
        cases.compile_fail(format!("{FOLDER}/types/*.rs"));
        // A case of a feature that is on otherwise.
        if !cfg!(feature = "openrpc") {
            cases.compile_fail(format!("{FOLDER}/without_openrpc/*.rs"));
        }
    }
    cases.pass(format!("{FOLDER}/pass/*.rs"));
}
