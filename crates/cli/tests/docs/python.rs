//! Runs the Python blocks of the pages about Python.

use std::path::Path;
use std::process::Command;

use super::check;
use super::support::folder::Folder;
use super::support::programs::{DUET_RPC, root};
use super::support::{has, skip};

/// Returns true if the blocks of this page are run.
pub(crate) fn is_run(page: &str) -> bool {
    matches!(page, "clients/python/README.md" | "docs/generated-clients.md")
}

#[test]
fn a8_python_is_run_with_the_package_and_a_generated_client() {
    if !has("python3") {
        return skip("Python", "it is not installed");
    }
    let folder = Folder::new();
    let generated = Command::new(DUET_RPC)
        .args(["api", "gen", "python", "--out"])
        .arg(folder.path(""))
        .output();
    assert!(generated.is_ok_and(|it| it.status.success()));
    let programs = Path::new(DUET_RPC).parent().expect("a folder").display();
    let path = std::env::var("PATH").unwrap_or_default();
    check(&["python"], |_, block| {
        let script = folder.write("block.py", &block.text);
        let mut command = Command::new("python3");
        command.args(["-B", "-W", "error", &script]).env("PATH", format!("{programs}:{path}"));
        command.env("PYTHONPATH", root().join("clients/python/src"));
        let output = command.output().map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    });
}
