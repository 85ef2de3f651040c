//! The folder of traces: names of files, access modes, and the number of files that are kept.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::sys;
use crate::time::Timestamp;

/// The end of the name of a trace file.
pub const EXTENSION: &str = "jsonl";

/// The folder of traces: `duet-rpc/traces` in the user's state directory, on Windows in `LOCALAPPDATA`. `None` if there is
/// no home directory.
pub fn default_folder() -> Option<PathBuf> {
    sys::state_folder().map(|state| state.join("duet-rpc").join("traces"))
}

/// The name of a session: its start, the name of its program and the process id of the recorder.
pub fn session_name(start: Timestamp, program: &str, pid: u32) -> String {
    let compact: String = start.to_string().chars().filter(|it| !"-:".contains(*it)).collect();
    let time = compact.split('.').next().unwrap_or_default();
    let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let is_plain = |it: &char| it.is_ascii_alphanumeric() || "-_.".contains(*it);
    let program: String = program.chars().filter(is_plain).take(32).collect();
    let program = program.trim_start_matches('.');
    format!("{time}Z-{}-{pid}", if program.is_empty() { "session" } else { program })
}

/// Returns `true` for the name of a file that [`session_name`] named, or a part of it.
fn is_session(name: &str) -> bool {
    let bytes = name.as_bytes();
    let is_time = |place: usize, byte: u8| match place {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    let begins = bytes.len() > 16 && (0..16).all(|place| is_time(place, bytes[place]));
    begins && name.ends_with(&format!(".{EXTENSION}"))
}

/// The session of a file that [`session_name`] named: its name without the number of a part.
fn session_of(name: &str) -> &str {
    let stem = name.strip_suffix(EXTENSION).and_then(|it| it.strip_suffix('.')).unwrap_or(name);
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
    match stem.rsplit_once('.') {
        Some((session, part)) if is_number(part) => session,
        _ => stem,
    }
}

/// Creates a folder, and the folders above it, for this user only, whatever the umask is.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        create_folder(above)?;
    }
    match sys::create_folder(folder) {
        // Another tap was faster.
        Err(_) if folder.is_dir() => Ok(()),
        created => created,
    }
}

/// Removes the oldest traces of a folder, each with all of its parts. Other files stay.
pub(crate) fn keep_newest(folder: &Path, keep: usize) -> io::Result<()> {
    let mut found: BTreeMap<String, (Option<SystemTime>, Vec<String>)> = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_session(name)) else { continue };
        // The time of the last change, so that a long session that still runs counts as new.
        let changed = entry.metadata().and_then(|it| it.modified());
        let (newest, parts) = found.entry(session_of(name).to_owned()).or_default();
        *newest = (*newest).max(changed.ok());
        parts.push(name.to_owned());
    }
    let mut found: Vec<_> = found.into_values().collect();
    found.sort();
    let surplus = found.len().saturating_sub(keep);
    for name in found.into_iter().take(surplus).flat_map(|(_, parts)| parts) {
        // Another tap may have removed it.
        let _ = fs::remove_file(folder.join(name));
    }
    Ok(())
}

/// The path of a part of a rotated trace.
pub(crate) fn part_path(first: &Path, part: u32) -> PathBuf {
    if part <= 1 {
        return first.to_owned();
    }
    match first.extension() {
        Some(extension) => {
            let extension = extension.to_string_lossy();
            first.with_extension(format!("{part}.{extension}"))
        }
        None => first.with_extension(part.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn sessions_are_named_by_time_and_program() {
        let start = Timestamp::from(UNIX_EPOCH + Duration::from_millis(1_767_323_045_678));
        for (program, name) in [
            ("clangd", "20260102T030405Z-clangd-7"),
            ("/usr/bin/rust analyzer", "20260102T030405Z-rustanalyzer-7"),
            ("../..", "20260102T030405Z-session-7"),
            ("", "20260102T030405Z-session-7"),
        ] {
            assert_eq!(session_name(start, program, 7), name);
            for file in [format!("{name}.jsonl"), format!("{name}.2.jsonl")] {
                assert!(is_session(&file) && session_of(&file) == name, "{file}");
            }
        }
        for other in ["notes.jsonl", "20260102T030405Z-a.txt", "20260102T030405Zü", ""] {
            assert!(!is_session(other), "{other}");
        }
    }

    #[test]
    fn parts_are_numbered_before_the_extension() {
        for (first, part, path) in
            [("a.jsonl", 1, "a.jsonl"), ("d/a.jsonl", 2, "d/a.2.jsonl"), ("a", 10, "a.10")]
        {
            assert_eq!(part_path(Path::new(first), part), Path::new(path));
        }
    }
}
