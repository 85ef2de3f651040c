//! Programs of this workspace, as cargo built them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// The command.
pub(crate) const DUET_RPC: &str = env!("CARGO_BIN_EXE_duet-rpc");

/// The folder of what cargo builds, such as `target/debug`.
pub(crate) fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("this test is a file");
    test.parent().and_then(Path::parent).expect("it is in target/…/deps").to_owned()
}

/// An example of a package. `cargo test` builds all of them, but not for a single test file.
pub(crate) fn example(package: &str, name: &str) -> PathBuf {
    static BUILDING: Mutex<()> = Mutex::new(());
    let (folder, _alone) = (folder(), BUILDING.lock());
    let program = folder.join("examples").join(name);
    if !program.exists() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", package, "--example", name]);
        cargo.args(folder.ends_with("release").then_some("--release"));
        assert!(cargo.status().expect("cargo runs").success());
    }
    program
}

/// The daemon with methods that misbehave on purpose.
pub(crate) fn testbed() -> PathBuf {
    example("duet-rpc-cli", "testbed")
}
