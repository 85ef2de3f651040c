//! The examples print what their first comments say.
#![cfg(unix)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test is a file");
    let folder = test.parent().and_then(Path::parent).expect("it is in target/…/deps");
    let program = folder.join("examples").join(name);
    if !program.exists() {
        // `cargo test` builds them, but not for a single test file.
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "duet-rpc", "--example", name]);
        cargo.args(folder.ends_with("release").then_some("--release"));
        assert!(cargo.status().expect("cargo runs").success());
    }
    program
}

#[test]
fn examples_print_what_they_say() {
    for name in ["hello", "both_ways", "cancel", "custom_transport"] {
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(format!("{name}.rs"));
        let source = std::fs::read_to_string(source).expect("it is there");
        let comment = source.lines().map_while(|line| line.strip_prefix("//!"));
        let block: Vec<_> = comment
            .map(|line| line.strip_prefix(' ').unwrap_or(line))
            .skip_while(|line| !line.starts_with("$ "))
            .take_while(|line| *line != "```")
            .collect();
        let (command, promised) = block.split_first().expect("it shows a command");
        // What stands between the quotes of an `echo` is its input.
        let input = command.strip_prefix("$ echo '").and_then(|rest| rest.split('\'').next());
        let mut process = Command::new(example(name))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it is built");
        let mut stdin = process.stdin.take().expect("a pipe");
        // One that reads nothing may be gone already.
        if let Some(input) = input {
            writeln!(stdin, "{input}").expect("it reads");
        }
        drop(stdin);
        let output = process.wait_with_output().expect("our child");
        assert!(output.status.success(), "{name}");
        let printed = String::from_utf8(output.stdout).expect("text");
        assert_eq!(printed.lines().collect::<Vec<_>>(), promised, "{name}");
    }
}
