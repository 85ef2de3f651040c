//! W6: no process of the server is left behind, however the server or the tap ends.

use std::io::Read;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::support::folder::Folder;
use super::support::programs::DUET_RPC;
use super::{read_pids, records, tap_shell, wait_for_end_of};

/// Shell scripts that start processes, print all process ids, and wait. Each hides a process in one way.
const TREES: [(&str, &str); 5] = [
    ("a child", "sleep 1000 & echo $$ $!; wait"),
    ("a shell in a shell", "sh -c 'sleep 1000 & echo $$ $!; wait'; :"),
    ("a child that ignores signals", "(trap '' TERM HUP INT; exec sleep 1000) & echo $$ $!; wait"),
    ("another session", "setsid sleep 1000 & echo $$ $!; wait"),
    (
        "an orphan in another session",
        "pid=$(setsid sh -c 'sleep 1000 >/dev/null 2>&1 </dev/null & echo $!'); echo $$ $pid; read line",
    ),
];

fn guard_command(script: &str) -> Command {
    let mut command = Command::new(DUET_RPC);
    command.args(["tap", "--no-record", "--", "sh", "-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

#[test]
fn w6_tap_that_is_killed_leaves_no_process() {
    for (name, script) in TREES {
        let folder = Folder::new();
        for mut command in [tap_shell(&folder, script), guard_command(script)] {
            let mut process = command.spawn().expect("it starts");
            let pids = read_pids(process.stdout.as_mut().expect("a pipe"));
            assert!(pids.len() >= 2, "{name}: {pids:?}");
            kill_process(Pid::from_child(&process), Signal::KILL).expect("our child");
            process.wait().expect("our child");
            pids.into_iter().for_each(wait_for_end_of);
        }
    }
}

#[test]
fn w6_server_that_is_killed_leaves_no_process() {
    for (name, script) in TREES {
        let folder = Folder::new();
        for (mut command, is_recorded) in
            [(tap_shell(&folder, script), true), (guard_command(script), false)]
        {
            let mut process = command.spawn().expect("it starts");
            let pids = read_pids(process.stdout.as_mut().expect("a pipe"));
            kill_process(Pid::from_raw(pids[0]).expect("an id"), Signal::KILL).expect("it runs");
            process.wait().expect("our child");
            for pid in pids {
                // They are dead when the tap is.
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
                assert!(stat.is_err(), "{name}: {stat:?}");
            }
            if is_recorded && name == "a child" {
                let records = records(folder.path("trace.jsonl"));
                let exit = records.iter().find(|it| it["kind"] == "exit").expect("it ended");
                assert_eq!((&exit["signal"], &exit["left"]), (&9.into(), &1.into()));
            }
        }
    }
}

#[test]
fn w6_guard_that_is_killed_takes_the_server_along() {
    let folder = Folder::new();
    let mut process = tap_shell(&folder, TREES[0].1).spawn().expect("it starts");
    let pids = read_pids(process.stdout.as_mut().expect("a pipe"));
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pids[0])).expect("it runs");
    let guard = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)).expect("a parent");
    let guard = Pid::from_raw(guard.parse().expect("an id")).expect("an id");
    assert_ne!(guard, Pid::from_child(&process));
    kill_process(guard, Signal::KILL).expect("it runs");
    assert_eq!(process.wait().expect("our child").code(), Some(1));
    let mut said = String::new();
    process.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert_eq!(said, "duet-rpc: the process that guards the server was killed\n");
    pids.into_iter().for_each(wait_for_end_of);
}

#[test]
fn w6_signal_to_the_group_of_the_tap_leaves_no_process() {
    use std::os::unix::process::CommandExt;
    for signal in [Signal::KILL, Signal::TERM] {
        let folder = Folder::new();
        let mut process =
            tap_shell(&folder, TREES[0].1).process_group(0).spawn().expect("it starts");
        let pids = read_pids(process.stdout.as_mut().expect("a pipe"));
        rustix::process::kill_process_group(Pid::from_child(&process), signal).expect("our child");
        process.wait().expect("our child");
        pids.into_iter().for_each(wait_for_end_of);
    }
}
