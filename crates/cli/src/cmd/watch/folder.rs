//! The sessions of a folder: one for each trace, rotated files together.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use duet_rpc_trace::{Entry, Header, Reader, parts};
use serde::Serialize;

use super::methods::shorten;
use super::part::ReadAt;
use crate::sys::{files, processes};

/// Maximum number of files that are listed: the newest.
const MOST_FILES: usize = 2000;
/// Maximum length of a header.
const LONGEST_HEADER: u64 = 64 * 1024;
/// Number of last bytes that are searched for the end record.
const LAST_BYTES: u64 = 512;

/// What `watch` shows.
#[derive(Clone, Debug)]
pub(crate) enum WatchTarget {
    File(PathBuf),
    Folder(PathBuf),
}

impl WatchTarget {
    pub(super) fn path(&self) -> &Path {
        match self {
            WatchTarget::File(path) | WatchTarget::Folder(path) => path,
        }
    }
}

/// A session as the page lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct SessionInfo {
    /// Name of the first file.
    pub(super) key: String,
    title: String,
    program: String,
    command: Vec<String>,
    /// The address of the server, if the tap was between sockets.
    connect: Option<String>,
    /// RFC 3339.
    start: String,
    bytes: u64,
    pub(super) state: SessionState,
    #[serde(skip)]
    pub(super) paths: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SessionState {
    /// Its recorder is running.
    Running,
    /// Its trace has an end.
    Ended,
    /// Its recorder was killed, or the trace comes from another machine.
    Stopped,
    /// Its file was deleted while the page showed it.
    Deleted,
}

/// Lists the sessions, again and again.
#[derive(Debug)]
pub(super) struct Folder {
    target: WatchTarget,
    files: HashMap<PathBuf, TraceFile>,
    sessions: Vec<SessionInfo>,
}

/// A file of the folder, as last read.
#[derive(Clone, Debug)]
struct TraceFile {
    /// Device, inode, size and time of the last change.
    stamp: (u64, u64, u64, i64),
    /// `None` if the file is not a trace.
    header: Option<Header>,
    has_end: bool,
}

impl Folder {
    pub(super) fn new(target: WatchTarget) -> Self {
        Folder { target, files: HashMap::new(), sessions: Vec::new() }
    }

    pub(super) fn target(&self) -> &WatchTarget {
        &self.target
    }

    pub(super) fn sessions(&self) -> &[SessionInfo] {
        &self.sessions
    }

    /// Lists again. Returns true if something has changed. A session whose file was deleted stays while `is_open`.
    pub(super) fn update(&mut self, is_open: impl Fn(&str) -> bool) -> bool {
        let mut files = HashMap::new();
        for (path, stamp) in find_files(&self.target) {
            let known = self.files.remove(&path).filter(|it| same_file(it, stamp));
            files.insert(path.clone(), examine(&path, stamp, known));
        }
        self.files = files;
        let mut sessions = group(&self.files);
        for old in &self.sessions {
            if is_open(&old.key) && !sessions.iter().any(|new| new.key == old.key) {
                sessions.push(SessionInfo { state: SessionState::Deleted, ..old.clone() });
            }
        }
        sessions.sort_by(|a, b| rank(b).cmp(&rank(a)));
        let has_changed = sessions != self.sessions;
        self.sessions = sessions;
        has_changed
    }
}

/// Running sessions first, then the newest.
fn rank(session: &SessionInfo) -> (bool, &str, &str) {
    (session.state == SessionState::Running, &session.start, &session.key)
}

/// The regular files of a target, with their stamps.
fn find_files(target: &WatchTarget) -> Vec<(PathBuf, (u64, u64, u64, i64))> {
    let paths = match target {
        WatchTarget::File(path) => parts(path),
        WatchTarget::Folder(path) => {
            // A folder that does not exist yet has no sessions yet.
            let entries = fs::read_dir(path).into_iter().flatten();
            entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
        }
    };
    let stamp = |path: PathBuf| {
        let data = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let (device, inode) = files::identity(&path, &data);
        Some((path, (device, inode, data.len(), changed(&data))))
    };
    let mut found: Vec<_> = paths.into_iter().filter_map(stamp).collect();
    found.sort_by_key(|(_, stamp)| std::cmp::Reverse(stamp.3));
    found.truncate(MOST_FILES);
    found
}

/// The time of the last change, in seconds.
fn changed(data: &fs::Metadata) -> i64 {
    let since = data.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or_default()
}

/// Returns true if a file is the one that is known, perhaps longer.
fn same_file(known: &TraceFile, stamp: (u64, u64, u64, i64)) -> bool {
    let (device, inode, size, _) = known.stamp;
    (device, inode) == (stamp.0, stamp.1) && size <= stamp.2
}

fn examine(path: &Path, stamp: (u64, u64, u64, i64), known: Option<TraceFile>) -> TraceFile {
    match known {
        Some(known) if known.stamp == stamp && known.header.is_some() => known,
        known => {
            let header =
                known.and_then(|it| it.header).or_else(|| read_header(path).ok().flatten());
            let has_end = header.is_some() && reads_end(path, stamp.2).unwrap_or(false);
            TraceFile { stamp, header, has_end }
        }
    }
}

/// The header of a trace, if the file begins with one.
pub(super) fn read_header(path: &Path) -> io::Result<Option<Header>> {
    let mut reader = Reader::new(File::open(path)?.take(LONGEST_HEADER));
    Ok(match reader.next_entry()? {
        Some(Entry::Header(header)) => Some(header),
        _ => None,
    })
}

/// Returns true if the last record of a file is the end of the trace.
fn reads_end(path: &Path, size: u64) -> io::Result<bool> {
    let count = size.min(LAST_BYTES);
    let mut last = vec![0; usize::try_from(count).unwrap_or(0)];
    ReadAt { file: &File::open(path)?, position: size - count }.read_exact(&mut last)?;
    let line = last.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut reader = Reader::new(line.chain(&b"\n"[..]));
    let entry = reader.next_entry()?;
    Ok(matches!(entry, Some(Entry::Record(record)) if record.kind == duet_rpc_trace::Kind::End))
}

/// Puts the files of rotated traces together.
fn group(files: &HashMap<PathBuf, TraceFile>) -> Vec<SessionInfo> {
    let mut groups = HashMap::<String, Vec<(&PathBuf, &TraceFile, &Header)>>::new();
    for (path, file) in files {
        let Some(header) = &file.header else { continue };
        // Only parts of a rotated trace have the same session: copies of a file are sessions of their own.
        let name = match header.session.is_empty() || header.part <= 1 && !has_parts(files, header)
        {
            true => path.to_string_lossy().into_owned(),
            false => header.session.clone(),
        };
        groups.entry(name).or_default().push((path, file, header));
    }
    groups.into_values().filter_map(|parts| describe(parts)).collect()
}

fn has_parts(files: &HashMap<PathBuf, TraceFile>, first: &Header) -> bool {
    let headers = files.values().filter_map(|file| file.header.as_ref());
    headers.into_iter().any(|it| it.session == first.session && it.part > 1)
}

fn describe(mut parts: Vec<(&PathBuf, &TraceFile, &Header)>) -> Option<SessionInfo> {
    parts.sort_by_key(|(path, _, header)| (header.part, *path));
    let (first_path, _, header) = parts.first()?;
    let (_, last, last_header) = parts.last()?;
    let state = match (last.has_end, last_header.pid) {
        (true, _) => SessionState::Ended,
        (false, Some(pid)) if processes::is_running(pid) => SessionState::Running,
        _ => SessionState::Stopped,
    };
    let name = first_path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let address = header.connect.as_ref().or(header.listen.as_ref());
    let program = match (header.command.first(), address) {
        (Some(program), _) => program.rsplit(['/', '\\']).next().unwrap_or(program).to_owned(),
        (None, Some(address)) => address.clone(),
        (None, None) => name.clone(),
    };
    let words = std::iter::once(program.clone()).chain(header.command.iter().skip(1).cloned());
    Some(SessionInfo {
        title: shorten(&words.collect::<Vec<_>>().join(" "), 200).to_owned(),
        program: shorten(&program, 100).to_owned(),
        command: header.command.clone(),
        connect: header.connect.clone(),
        start: header.start.clone(),
        bytes: parts.iter().map(|(_, file, _)| file.stamp.2).sum(),
        state,
        paths: parts.iter().map(|(path, _, _)| (*path).clone()).collect(),
        key: name,
    })
}
