//! The examples print the output that their first comments promise.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::process::example;

/// The command in an example's first comment, and the output that it promises.
pub(crate) fn promise(name: &str) -> (String, Vec<String>) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(format!("{name}.rs"));
    let source = std::fs::read_to_string(source).expect("the file exists");
    let comment = source.lines().map_while(|line| line.strip_prefix("//!"));
    let mut block = comment
        .map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned())
        .skip_while(|line| !line.starts_with("$ "))
        .take_while(|line| *line != "```");
    (block.next().expect("the comment shows a command"), block.collect())
}

#[test]
fn examples_print_the_output_in_their_comments() {
    for name in ["hello", "both_ways", "cancel", "custom_transport"] {
        let (command, promised) = promise(name);
        // The text between the quotes of an `echo` is its input.
        let input = command.strip_prefix("$ echo '").and_then(|rest| rest.split('\'').next());
        let mut process = Command::new(example(name))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the example is built");
        let mut stdin = process.stdin.take().expect("a pipe");
        // An example that reads nothing may have ended already.
        if let Some(input) = input {
            writeln!(stdin, "{input}").expect("the process reads stdin");
        }
        drop(stdin);
        let output = process.wait_with_output().expect("our child");
        assert!(output.status.success(), "{name}");
        let printed = String::from_utf8(output.stdout).expect("text");
        assert_eq!(printed.lines().collect::<Vec<_>>(), promised, "{name}");
    }
}
