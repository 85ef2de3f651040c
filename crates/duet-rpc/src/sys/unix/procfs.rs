//! The processes of this machine, read from Linux's `/proc`. On other systems it finds none.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, getpid};

/// The longest environment that is searched. The system allows a few megabytes.
const ENVIRONMENT_BYTES: u64 = 8 * 1024 * 1024;

/// The time that a process may take for `exec`. It shows no environment meanwhile.
const EXEC_TIME: Duration = Duration::from_secs(1);

/// Number of newest pids to check.
const NEW_ONES: usize = 1000;

/// The flag of a kernel thread, which has no program.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// The state letters of a process that has ended and waits to be reaped.
const DEAD: [&str; 3] = ["Z", "X", "x"];

/// A running process.
#[derive(Clone, Debug, PartialEq, Eq)]
// Same name: `windows/tree.rs` has the same interface.
pub(crate) struct ProcessEntry {
    pub(crate) pid: Pid,
    pub(crate) parent: Option<Pid>,
    pub(crate) group: Option<Pid>,
    /// Its start, in clock ticks since the machine started. With the pid it identifies a process for
    /// good: no pid is used twice within a tick.
    pub(crate) started: u64,
    /// The address of its environment, which changes when the process starts another program; 0 if it is hidden.
    pub(crate) environment: u64,
    /// The name of its program, as the system keeps it: at most 15 bytes.
    pub(crate) program: String,
}

impl ProcessEntry {
    pub(crate) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns `true` if it is the same process, seen at another time.
    pub(crate) fn is(&self, other: &ProcessEntry) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }
}

/// All running processes that started at this tick or later, each read on demand; `None` if `/proc` does not show
/// them, or shows the processes of another pid namespace.
///
/// The newest processes come first, because a process that starts a successor and exits is gone a moment later.
pub(crate) fn entries(since: u64) -> Option<impl Iterator<Item = ProcessEntry>> {
    let own = getpid().as_raw_nonzero().to_string();
    if fs::read_link("/proc/self").ok()?.as_os_str() != OsStr::new(&own) {
        return None;
    }
    let names = fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.file_name());
    let mut pids: Vec<Pid> = names.filter_map(|name| to_pid(name.to_str()?)).collect();
    pids.sort_unstable_by_key(|pid| std::cmp::Reverse(pid.as_raw_nonzero()));
    Some(pids.into_iter().filter_map(entry).filter(move |entry| entry.started >= since))
}

/// The running processes whose pids were assigned after one pid and up to another, newest first. If the pids have
/// wrapped around, pids from before that are left out.
pub(crate) fn entries_between(before: u32, last: u32) -> impl Iterator<Item = ProcessEntry> {
    let first = if last >= before { before.saturating_add(1) } else { 1 };
    let pids = (first..=last).rev().take(NEW_ONES).filter(|&pid| leads_threads(pid));
    pids.filter_map(|pid| entry(to_pid(&pid.to_string())?))
}

/// Returns `true` if this is the pid of a process, and not only of one of its threads.
fn leads_threads(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    group.is_some_and(|group| group.trim().parse() == Ok(pid))
}

/// The most recently assigned pid, of a process or a thread. While it stays the same, no process or thread was
/// started.
pub(crate) fn last_pid() -> Option<u32> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    load.split_ascii_whitespace().next_back()?.parse().ok()
}

/// This process, if it runs.
pub(crate) fn entry(pid: Pid) -> Option<ProcessEntry> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    parse(pid, &stat)
}

/// Reads a variable from the environment that a process was started with, empty if it is not there; `None` if the
/// environment is empty or cannot be read.
pub(crate) fn environment_value(pid: Pid, variable: &str) -> Option<Vec<u8>> {
    let read = |name: &str| {
        let mut bytes = Vec::new();
        let file = File::open(format!("/proc/{}/{name}", pid.as_raw_nonzero()));
        let read = file.and_then(|file| file.take(ENVIRONMENT_BYTES).read_to_end(&mut bytes));
        // The environment of another user's process cannot be read.
        read.map(|_| bytes)
    };
    let begun = Instant::now();
    let mut had_words = false;
    while let Ok(environment) = read("environ") {
        if !environment.is_empty() {
            let value_of = |entry: &[u8]| {
                let rest = entry.strip_prefix(variable.as_bytes())?;
                rest.strip_prefix(b"=").map(<[u8]>::to_vec)
            };
            let value = environment.split(|&byte| byte == 0).find_map(value_of);
            return Some(value.unwrap_or_default());
        }
        // If `exec` had finished before this read, the environment is empty and stays empty.
        if had_words || entry(pid).is_none() || begun.elapsed() >= EXEC_TIME {
            return None;
        }
        had_words = read("cmdline").is_ok_and(|words| !words.is_empty());
        if !had_words {
            thread::sleep(Duration::from_micros(200));
        }
    }
    None
}

/// Parses a pid. A process that is about to end has the group −1.
fn to_pid(text: &str) -> Option<Pid> {
    text.parse().ok().filter(|&number: &i32| number > 0).and_then(Pid::from_raw)
}

/// Parses `pid (program) state parent group …`. A program's name may contain anything, even `) R 1`.
fn parse(pid: Pid, stat: &[u8]) -> Option<ProcessEntry> {
    let begin = stat.iter().position(|&byte| byte == b'(')? + 1;
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let program = String::from_utf8_lossy(stat.get(begin..end)?).into_owned();
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let pid_at = |place: usize| to_pid(fields.get(place)?);
    // The fields are numbered from 1 in proc(5), and the state is the third.
    let (parent, group, started) = (pid_at(1), pid_at(2), fields.get(19)?.parse().ok()?);
    let flags: u32 = fields.get(6)?.parse().ok()?;
    let runs = !DEAD.contains(fields.first()?) && flags & KERNEL_THREAD == 0;
    let environment = fields.get(47).and_then(|address| address.parse().ok()).unwrap_or_default();
    runs.then_some(ProcessEntry { pid, parent, group, started, environment, program })
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn stat_line_is_read_whatever_the_name_of_the_program() {
        let pid = |number| Pid::from_raw(number);
        let tail =
            "4 4 0 -1 4194304 90 0 0 0 0 0 0 0 20 0 1 0 777 2703360 233 18446744073709551615";
        let rows = [
            ("cat", "S 3", Some((pid(3), pid(4)))),
            ("a b) R 1 (c", "R 3", Some((pid(3), pid(4)))),
            ("", "T 0", Some((None, pid(4)))),
            ("dead", "Z 3", None),
            ("dead", "X 3", None),
        ];
        let ending = format!("5 (cat) R 3 {}", tail.replacen('4', "-1", 1));
        assert_eq!(parse(pid(5).unwrap(), ending.as_bytes()).unwrap().group, None);
        let kernel = format!("5 (kworker/0:1) I 2 {}", tail.replace("4194304", "69238880"));
        assert_eq!(parse(pid(5).unwrap(), kernel.as_bytes()), None);
        for (program, middle, expected) in rows {
            let text = format!("5 ({program}) {middle} {tail}\n");
            let entry = parse(pid(5).unwrap(), text.as_bytes());
            assert_eq!(entry.as_ref().map(|it| (it.parent, it.group)), expected, "{text}");
            assert!(entry.is_none_or(|it| it.started == 777 && it.program == program));
        }
        for text in ["", "5 (cat", "5 (cat) S 3", "5 )cat( S 3 4", "(\u{fffd}"] {
            assert_eq!(parse(pid(5).unwrap(), text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn own_process_is_found() {
        let own = entry(getpid()).unwrap();
        assert!(entries(own.started).unwrap().any(|it| it == own));
        assert!(entries(own.started + 1).unwrap().all(|it| it != own));
    }

    #[test]
    fn new_processes_are_found_by_their_pids_and_new_threads_are_not() {
        let before = last_pid().unwrap();
        let mut child = std::process::Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (tell, told) = channel::<()>();
        let thread = thread::spawn(move || told.recv());
        let last = last_pid().unwrap();
        let found: Vec<_> = entries_between(before, last).map(|entry| entry.id()).collect();
        assert!(found.contains(&child.id()), "{found:?}");
        assert!(!found.iter().any(|id| fs::exists(format!("/proc/self/task/{id}")).unwrap()));
        assert_eq!(entries_between(last, last).count(), 0);
        drop(tell);
        let _ = (child.kill(), child.wait(), thread.join());
    }

    #[test]
    fn environment_is_read() {
        let path = std::env::var("PATH").unwrap();
        assert_eq!(environment_value(getpid(), "PATH"), Some(path.into_bytes()));
        assert_eq!(environment_value(getpid(), "DUET_RPC_NO_SUCH_VARIABLE"), Some(Vec::new()));
        assert_ne!(entry(getpid()).unwrap().environment, 0);
    }
}
