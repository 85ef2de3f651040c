//! Ends all descendants of this process.
//!
//! This process is the subreaper of its descendants: the kernel makes a process whose parent has died a
//! child of this one, even after a double fork or `setsid`. So every descendant is found through its
//! parent, and killing one never hides its children. Without `/proc`, only the server's process group and
//! the children that the kernel reports are found.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, wait};

/// The time that descendants have to end by themselves after the server, before they are asked to.
const ALONE: Duration = Duration::from_millis(100);

/// The time that they have after SIGTERM.
const ASKED: Duration = Duration::from_millis(500);

/// The time after which a process that does not die of SIGKILL is left to the kernel: it waits for a disk
/// or for the network.
const KILLED: Duration = Duration::from_secs(5);

/// Makes this process the subreaper of its descendants.
pub(super) fn adopt_descendants() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(getpid()));
}

/// Reaps every child that has ended. Returns the status of the server, if it is among them; `gone` is
/// true if there are no children at all.
pub(super) fn reap(server: Option<Pid>) -> (Option<rustix::process::WaitStatus>, bool) {
    let mut status = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, ended))) if Some(pid) == server => status = Some(ended),
            Ok(Some(_)) => {}
            Ok(None) => return (status, false),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return (status, true),
        }
    }
}

/// Ends the descendants that the server left behind: waits, asks, kills. Returns their number.
pub(super) fn end_gently(server: Option<Pid>, pause: &mut dyn FnMut(Duration)) -> u64 {
    if reap(server).1 {
        return 0;
    }
    let left = descendants().len() as u64;
    if wait_until_gone(server, ALONE, pause) {
        return left;
    }
    for pid in descendants() {
        let _ = kill_process(pid, Signal::TERM);
    }
    if !wait_until_gone(server, ASKED, pause) {
        kill_all(server, pause);
    }
    left
}

/// Kills the server and all descendants.
pub(super) fn kill_all(server: Option<Pid>, pause: &mut dyn FnMut(Duration)) {
    let until = Instant::now() + KILLED;
    // The group first: one call ends most of them before they can start others.
    if let Some(server) = server {
        let _ = kill_process_group(server, Signal::KILL);
    }
    loop {
        // Whatever starts between two rounds is a child of a killed process, and so found in the next.
        for pid in descendants() {
            let _ = kill_process(pid, Signal::KILL);
        }
        if reap(server).1 || Instant::now() >= until {
            return;
        }
        pause(Duration::from_millis(5));
    }
}

fn wait_until_gone(server: Option<Pid>, time: Duration, pause: &mut dyn FnMut(Duration)) -> bool {
    let until = Instant::now() + time;
    loop {
        if reap(server).1 {
            return true;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        pause(left);
    }
}

/// The descendants of this process that have not ended.
fn descendants() -> Vec<Pid> {
    let mut children = HashMap::<i32, Vec<i32>>::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![getpid().as_raw_nonzero().get()];
    let mut place = 0;
    while let Some(pid) = found.get(place) {
        let more = children.remove(pid).unwrap_or_default();
        found.extend(more);
        place += 1;
    }
    found.into_iter().skip(1).filter_map(Pid::from_raw).collect()
}

/// The parent of a process that has not ended.
fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in parentheses, and may contain any character.
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(parent)
}
