//! All processes that a program started: found, signalled and killed together.
//!
//! | process | found by | signalled by |
//! |---|---|---|
//! | in the program's process group | the group's id | `kill` of the group, which no fork escapes |
//! | left the group (`setsid`, a shell's job control) | Linux: a marker in its environment | its pidfd |
//! | left the group, without the marker (`env -i`) | Linux: its parent, while that is a member | its pidfd |
//!
//! While the program is not reaped, no other group can get its group's id, so the program is reaped last.
//! A pidfd stays with its process, so a process that has reused a pid never gets the signal.
//!
//! The alternative for the second row is to make this process a *subreaper*, so that orphans become its children.
//! That changes the parent that every other child of the process sees, and this process would have to reap all
//! orphans. A library should not do that. A marker costs one variable.

use std::borrow::Borrow;
use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use super::process_table::{RunningProcess, ScanUser, VARIABLE};
use super::procfs;
pub(crate) use super::procfs::ProcessEntry;
use crate::random;
use crate::sync::lock;

/// The number of consecutive scans of all processes that must find no member.
const CLEAN_LOOKS: usize = 2;

/// The maximum number of scans for new processes, in case each scan finds more of them.
const LOOKS_AT_NEW: usize = 100;

/// A program and all processes that it started.
// Same name: `windows/tree.rs` has the same interface, with a job object.
pub(crate) struct Tree {
    marker: Marker,
    /// The start of the program; a process that started before is not a member.
    started: u64,
    scans: ScanUser,
    /// The program's pid and its group's id. `None` once the program is reaped, because another group may
    /// then get the number.
    group: Mutex<Option<Pid>>,
}

/// The mark of the processes of one tree.
// Same name: `windows/tree.rs` has the same interface, with a job object.
pub(crate) struct Marker(String);

impl Marker {
    /// Marks a program that is about to start, and makes it lead a process group of its own.
    pub(crate) fn put_on(command: &mut Command) -> Marker {
        let marker = Marker(format!(":{}-{:032x}", std::process::id(), random::seed()));
        let mut list = std::env::var_os(VARIABLE).unwrap_or_default();
        list.push(&marker.0);
        command.env(VARIABLE, list).process_group(0);
        marker
    }

    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Tree {
    /// The tree of a program that was just started, and that is not reaped.
    pub(crate) fn new(program: &Child, marker: Marker) -> io::Result<Self> {
        let program = program.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        // A program that has ended already may have left other processes behind.
        let started = program.and_then(procfs::entry).map_or(0, |entry| entry.started);
        Ok(Tree { marker, started, scans: ScanUser::new(), group: Mutex::new(program) })
    }

    /// The running members; `None` if the system does not show them.
    pub(crate) fn members(&self) -> Option<Vec<ProcessEntry>> {
        let before = procfs::last_pid();
        for _ in 0..CLEAN_LOOKS {
            let found = self.look()?;
            if !found.is_empty() {
                return Some(found);
            }
        }
        Some(self.look_at_new(before, |_| {}))
    }

    /// The known members that still run. Only if none does, it looks for others, because that takes a scan of all
    /// processes.
    pub(crate) fn members_or_known(
        &self,
        mut known: Vec<ProcessEntry>,
    ) -> Option<Vec<ProcessEntry>> {
        known.retain(|member| procfs::entry(member.pid).is_some_and(|now| now.is(member)));
        if known.is_empty() { self.members() } else { Some(known) }
    }

    /// Looks for running members, in a scan that other trees may share.
    fn look(&self) -> Option<Vec<ProcessEntry>> {
        self.scans.scan().map(|table| self.find_among(table.iter(), |_| {}))
    }

    /// Looks for running members, and calls `act` for each as soon as it is found.
    fn hunt(&self, act: impl FnMut(&ProcessEntry)) -> Option<Vec<ProcessEntry>> {
        procfs::entries(self.started)
            .map(|entries| self.find_among(entries.map(RunningProcess::new), act))
    }

    /// Checks only processes that were started since this pid was assigned, until it finds a member or no more are
    /// started. A scan of all processes takes longer than the life of a member that starts a successor and exits, so
    /// such members may all escape it.
    fn look_at_new(
        &self,
        mut last: Option<u32>,
        mut act: impl FnMut(&ProcessEntry),
    ) -> Vec<ProcessEntry> {
        for _ in 0..LOOKS_AT_NEW {
            let before = std::mem::replace(&mut last, procfs::last_pid());
            let (Some(before), Some(last)) = (before, last) else { break };
            let entries = procfs::entries_between(before, last);
            let found = self.find_among(entries.map(RunningProcess::new), &mut act);
            if before == last || !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    fn find_among<P: Borrow<RunningProcess>>(
        &self,
        processes: impl Iterator<Item = P>,
        mut act: impl FnMut(&ProcessEntry),
    ) -> Vec<ProcessEntry> {
        let group = *self.group();
        let (mut members, mut others) = (Vec::new(), Vec::new());
        for process in processes.filter(|it| it.borrow().entry.started >= self.started) {
            let RunningProcess { entry, .. } = process.borrow();
            let is_in_group = group.is_some() && entry.group == group;
            if is_in_group || process.borrow().has_marker(&self.marker.0) {
                act(entry);
                members.push(entry.clone());
            } else {
                others.push(process);
            }
        }
        // Then their children, the children of these, and so on.
        let mut parents = 0;
        while let Some(parent) = members.get(parents).map(|it: &ProcessEntry| it.pid) {
            let is_child = |it: &mut P| {
                let process: &RunningProcess = (*it).borrow();
                process.entry.parent == Some(parent)
            };
            let children = others.extract_if(.., is_child).map(|it| it.borrow().entry.clone());
            members.extend(children.inspect(|entry| act(entry)));
            parents += 1;
        }
        members
    }

    /// Asks these members, and the whole group, to end. Returns `true`, because this system supports it.
    pub(crate) fn terminate(&self, members: &[ProcessEntry]) -> bool {
        self.signal(members, Signal::TERM);
        // A stopped process, such as one that reads the terminal from the background, handles the signal
        // only when it continues.
        self.signal(members, Signal::CONT);
        true
    }

    /// Kills the whole group.
    pub(crate) fn kill_group(&self) {
        self.signal_group(Signal::KILL);
    }

    /// Kills all members, and processes that they start meanwhile, until none is left or the time is over. Returns
    /// the members that it found. They may take a moment to exit.
    pub(crate) fn kill(&self, until: Instant) -> Vec<ProcessEntry> {
        let mut killed: Vec<ProcessEntry> = Vec::new();
        let mut kill = |member: &ProcessEntry| {
            let is_new = !killed.iter().any(|it| it.is(member));
            if is_new {
                self.signal(std::slice::from_ref(member), Signal::KILL);
                killed.push(member.clone());
            }
            is_new
        };
        let (mut clean_looks, mut looks_with_new) = (0, 0);
        while clean_looks < CLEAN_LOOKS && Instant::now() < until {
            let (before, mut is_clean) = (procfs::last_pid(), true);
            let mut act = |member: &ProcessEntry| is_clean &= !kill(member);
            // Members that start others while they are killed must be killed as soon as they are found.
            let found = match looks_with_new {
                0 | 1 => self.look().inspect(|found| found.iter().for_each(&mut act)),
                _ => self.hunt(&mut act),
            };
            if found.is_none() {
                // `/proc` may show the pids of another namespace.
                break;
            }
            self.look_at_new(before, &mut act);
            (clean_looks, looks_with_new) =
                if is_clean { (clean_looks + 1, looks_with_new) } else { (0, looks_with_new + 1) };
        }
        // Not earlier, because the children of a killed parent can no longer be found by that parent.
        self.kill_group();
        killed
    }

    /// Must be called before the program is reaped.
    pub(crate) fn forget_group(&self) {
        *self.group() = None;
    }

    /// Sends a signal to the group, and to members outside it.
    fn signal(&self, members: &[ProcessEntry], signal: Signal) {
        let group = self.signal_group(signal);
        members.iter().for_each(|member| signal_one(member, group, signal));
    }

    /// Sends a signal to the group, and returns the group's id.
    fn signal_group(&self, signal: Signal) -> Option<Pid> {
        // Locked until it is sent, so that nobody reaps the program meanwhile.
        let group = self.group();
        if let Some(group) = *group {
            // It fails if no process is left.
            let _ = kill_process_group(group, signal);
        }
        *group
    }

    fn group(&self) -> MutexGuard<'_, Option<Pid>> {
        lock(&self.group)
    }
}

/// Sends a signal to this process unless it is in this group, and never to a later process with the same pid. It may have
/// left the group since it was seen.
#[cfg(target_os = "linux")]
fn signal_one(seen: &ProcessEntry, group: Option<Pid>, signal: Signal) {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

    let Ok(process) = pidfd_open(seen.pid, PidfdFlags::empty()) else { return };
    // If the pid still belongs to that process, so does the descriptor.
    let Some(now) = procfs::entry(seen.pid).filter(|now| now.is(seen)) else { return };
    if group.is_none() || now.group != group {
        let _ = pidfd_send_signal(process, signal);
    }
}

#[cfg(not(target_os = "linux"))]
fn signal_one(_: &ProcessEntry, _: Option<Pid>, _: Signal) {}
