//! Programs of this workspace, built by cargo.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, Once};

/// Path of the command.
pub(crate) const DUET_RPC: &str = env!("CARGO_BIN_EXE_duet-rpc");

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository exists")
}

/// Folder with cargo's build output, such as `target/debug`.
pub(crate) fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("this test is a file");
    test.parent().and_then(Path::parent).expect("the test is in target/…/deps").to_owned()
}

/// Path of an example. `cargo test` builds all examples, but not for a single test file.
pub(crate) fn example(package: &str, name: &str) -> PathBuf {
    static BUILDING: Mutex<()> = Mutex::new(());
    let (folder, _alone) = (folder(), BUILDING.lock());
    let program =
        folder.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    if !program.exists() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", package, "--all-features", "--example", name]);
        cargo.args(folder.ends_with("release").then_some("--release"));
        assert!(cargo.status().expect("cargo runs").success());
    }
    program
}

/// Builds the first server of docs/serving.md. `cargo test` builds only its tests, and an existing program
/// may be outdated. As part of the workspace, the build reuses existing files.
pub(crate) fn first_server() {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--workspace", "--all-features"]);
        cargo.args(["--example", "first_server"]);
        cargo.args(folder().ends_with("release").then_some("--release"));
        assert!(cargo.status().expect("cargo runs").success());
    });
}

/// Path of the daemon with methods that misbehave on purpose.
pub(crate) fn testbed() -> PathBuf {
    example("duet-rpc-cli", "testbed")
}
