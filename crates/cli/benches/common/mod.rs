//! Parts of several benchmarks: the released command, and the time of turns that others disturb.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Builds the command with the release settings, and returns its path. The environment variable `DUET_RPC` names another
/// program instead.
pub(crate) fn build_released() -> PathBuf {
    if let Some(program) = std::env::var_os("DUET_RPC") {
        return program.into();
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--quiet", "-p", "duet-rpc-cli"]);
    assert!(cargo.status().expect("cargo runs").success());
    // A benchmark is target/release/deps/NAME-….
    let here = std::env::current_exe().expect("this is a file");
    let folder =
        here.parent().and_then(Path::parent).expect("the benchmark is in a folder of cargo");
    folder.join("duet-rpc")
}

/// The time that a quarter of the turns stay below, in seconds: those that other programs disturb least.
pub(crate) fn quartile(times: &[Duration]) -> f64 {
    let mut times: Vec<_> = times.iter().map(Duration::as_secs_f64).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 4]
}
