//! Misuse of the macros: each case is refused where the mistake stands, with what to write instead.
//!
//! A case is a file in `misuse/`, and the messages stand beside it. After a change of a message,
//! `TRYBUILD=overwrite cargo test -p duet-rpc --test service misuse` writes them anew.

use std::process::Command;

use trybuild::TestCases;

const FOLDER: &str = "tests/service/misuse";

/// The compiler whose messages stand beside the cases in `types`: those words are its own, and change.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn p7_misuse_is_refused_with_what_to_write_instead() {
    let cases = TestCases::new();
    for folder in ["service", "rpc_error", "debug_handler"] {
        cases.compile_fail(format!("{FOLDER}/{folder}/*.rs"));
    }
    let version = Command::new("rustc").arg("--version").output().expect("the compiler runs");
    if String::from_utf8_lossy(&version.stdout).starts_with(COMPILER) {
        cases.compile_fail(format!("{FOLDER}/types/*.rs"));
    }
    cases.pass(format!("{FOLDER}/pass/*.rs"));
}
