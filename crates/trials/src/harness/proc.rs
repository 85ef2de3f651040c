//! Facts about processes from `/proc`. Only Linux has them.

use crate::harness::prelude::*;

/// Returns a value from a file of `Name: value` lines.
pub(crate) fn field(path: impl AsRef<Path>, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next().map(str::to_owned)
}

/// Returns a number from a file of a process, such as `VmRSS` in `status`.
pub(crate) fn number(pid: u32, file: &str, name: &str) -> Option<u64> {
    field(format!("/proc/{pid}/{file}"), name)?.parse().ok()
}

/// Returns all processes, each with the contents of this file.
pub(crate) fn processes(file: &str) -> Vec<(Pid, Vec<u8>)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        Some((pid, fs::read(entry.path().join(file)).unwrap_or_default()))
    });
    found.collect()
}

/// Returns the processes whose working directory is this folder.
pub(crate) fn working_in(folder: &Path) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let works_there = fs::read_link(entry.path().join("cwd")).is_ok_and(|it| it == folder);
        works_there.then_some(pid)
    });
    found.collect()
}

/// Returns true if a process of this group is alive. A zombie does not count as alive, because on some systems
/// process 1 does not reap orphans.
pub(crate) fn is_group_alive(group: Pid) -> bool {
    let group = group.as_raw_nonzero().to_string();
    let all = processes("stat");
    let is_alive = |stat: &[u8]| {
        let stat = String::from_utf8_lossy(stat);
        // The state follows the program's name, which is in brackets and may contain any character.
        let mut words = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let (state, of_group) = (words.next(), words.nth(1));
        of_group == Some(&group) && !matches!(state, Some("Z" | "X"))
    };
    all.is_empty() || all.iter().any(|(_, stat)| is_alive(stat))
}
