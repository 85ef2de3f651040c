//! The programs of this workspace, as cargo built them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// The command.
pub fn duet_rpc() -> PathBuf {
    built("duet-rpc", &["--bin", "duet-rpc"])
}

/// The daemon with methods that misbehave on purpose.
pub fn testbed() -> PathBuf {
    built("examples/testbed", &["--example", "testbed"])
}

/// What stands between a client and a server, and spoils one thing that passes.
pub fn saboteur() -> PathBuf {
    built("examples/saboteur", &["--example", "saboteur"])
}

/// A program of the command's package, beside this one; built if it is not there.
fn built(name: &str, what: &[&str]) -> PathBuf {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _alone = BUILDING.lock();
    let folder = folder();
    let program = folder.join(name);
    if !program.exists() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "duet-rpc-cli"]).args(what);
        cargo.args(folder.ends_with("release").then_some("--release"));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(cargo.status().is_ok_and(|status| status.success()), "{name} cannot be built");
    }
    program
}

/// The folder of what cargo builds, such as `target/debug`; a test is in `deps` below it.
fn folder() -> PathBuf {
    let this = std::env::current_exe().expect("this program is a file");
    let folder = this.parent().expect("it is in a folder");
    if folder.ends_with("deps") {
        folder.parent().unwrap_or(Path::new("/")).to_owned()
    } else {
        folder.to_owned()
    }
}
