//! Tests of the calls of Windows, some in a process of their own.

use std::process::{Command, Output};

use super::{Parent, calls, program, standard};

const ROLE: &str = "DUET_RPC_TEST_ROLE";

fn as_a_process(role: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "sys::windows::tests::helper", "--ignored", "--nocapture"]);
    command.env(ROLE, role).output().unwrap()
}

#[test]
fn l9_prints_of_rust_and_of_c_go_to_stderr() {
    let Output { stdout, stderr, .. } = as_a_process("print");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    for text in ["printed by Rust", "printed by C"] {
        assert!(stderr.contains(text) && !stdout.contains(text), "{stdout:?} {stderr:?}");
    }
}

#[test]
fn l10_the_parent_is_the_process_that_started_this_one() {
    assert_eq!(as_a_process("parent").status.code(), Some(0));
}

#[test]
fn l10_a_process_that_has_ended_is_gone() {
    let mut ended = Command::new("cmd").args(["/c", "exit 3"]).spawn().unwrap();
    let parent = Parent::with_id(ended.id()).unwrap();
    ended.wait().unwrap();
    assert!(parent.is_gone());
}

#[test]
fn t1_a_name_without_an_ending_is_searched_with_every_ending() {
    let folder = std::env::temp_dir().join(format!("duet-rpc-endings-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("tool.cmd"), "exit 0").unwrap();
    for (name, expect) in [("tool", true), ("tool.cmd", false), ("nothing", false)] {
        let mut command = tokio::process::Command::new(folder.join(name));
        command.arg("an argument").env("A", "b");
        let found = program::with_file_found(&command);
        assert_eq!(found.is_some(), expect, "{name}");
        if let Some(found) = found {
            let found = found.as_std();
            assert_eq!(found.get_program(), folder.join("tool.cmd").as_os_str());
            assert!(found.get_args().eq(["an argument"]) && found.get_envs().count() == 1);
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
#[ignore = "the tests above run this in another process"]
#[allow(clippy::print_stdout)]
fn helper() {
    match std::env::var(ROLE).unwrap_or_default().as_str() {
        "print" => {
            standard::redirect().unwrap();
            // Not captured by the harness, as a print of another thread is not either.
            std::io::Write::write_all(&mut std::io::stdout(), b"printed by Rust\n").unwrap();
            assert!(calls::print_from_c("printed by C\n"));
        }
        "parent" => {
            let parent = Parent::find().unwrap();
            assert!(!parent.is_gone());
        }
        _ => {}
    }
}
