//! The programs of this workspace, built by cargo.

use crate::harness::prelude::*;

/// Path of the command.
pub fn duet_rpc() -> PathBuf {
    built("duet-rpc", &["--bin", "duet-rpc"])
}

/// Path of the daemon with methods that misbehave on purpose.
pub fn testbed() -> PathBuf {
    built("examples/testbed", &["--example", "testbed"])
}

/// Returns a program of the command's package, beside this one. Builds it if it is missing.
fn built(name: &str, what: &[&str]) -> PathBuf {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _alone = super::lock(&BUILDING);
    let this = std::env::current_exe().expect("this program is a file");
    // A test is in `deps`, below the folder of the programs.
    let folder = this.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    let folder = folder.expect("it is in a folder");
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

/// Returns true if a tool is installed and can do its job here.
pub(crate) fn works(program: &str, words: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
