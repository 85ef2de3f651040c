//! The checks of the log: where it goes, and what it is made of (G1, G3, G4).

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Access, access};
use serde_json::Value;

use super::child::{Combination, Daemon, Ended, LOG_VARIABLE, Subject};
use super::report::Finding;

/// A check of the log of one daemon.
pub(super) type LogCheck = fn(&Subject, Combination, &Path) -> Result<(), Finding>;

/// All of them. Each has the name of a place that nobody else uses.
pub(super) const LOG_CHECKS: [(&str, LogCheck); 3] =
    [("to a file", to_a_file), ("as JSON", as_json), ("a file that cannot be opened", to_nowhere)];

/// With a file in the environment the log is appended to it, and is not on stderr.
fn to_a_file(subject: &Subject, it: Combination, place: &Path) -> Result<(), Finding> {
    const BEFORE: &str = "this line was there before\n";
    let ours = |error: io::Error| Finding::new(format!("no log file can be made for it: {error}"));
    fs::write(place, BEFORE).map_err(ours)?;
    let daemon = Daemon::start(subject, it, &[], Some(place))?;
    let pid = daemon.id().to_string();
    let ended = question_and_end(daemon)?;
    let text = fs::read(place).map_err(ours)?;
    let text = String::from_utf8_lossy(&text);
    let Some(records) = text.strip_prefix(BEFORE) else {
        return Err(Finding::new("what was in the file before is gone")
            .sent(SET_TO_A_FILE)
            .expected("records behind it"));
    };
    let version = subject.version.as_deref().unwrap_or_default();
    let parts = [("version", version), ("pid", &pid), ("profile", it.profile.name())];
    let has = |line: &str, part: &str| {
        let mut words = line.split(|c: char| !(c.is_alphanumeric() || ".-+".contains(c)));
        part.is_empty() || words.any(|word| word == part)
    };
    if !records.lines().any(|line| parts.iter().all(|(_, part)| has(line, part))) {
        let missing = parts.iter().filter(|(_, part)| !records.lines().any(|line| has(line, part)));
        let missing: Vec<_> = missing.map(|(name, _)| *name).collect();
        let saw = format!(
            "{} lines, and in none of them: {}",
            records.lines().count(),
            missing.join(", ")
        );
        return Err(Finding::new("the record of the start is not in the file")
            .sent(SET_TO_A_FILE)
            .expected("version, pid and profile in one line")
            .saw(&saw));
    }
    match ended.stderr.lines().find(|line| is_record(line)) {
        Some(line) => Err(Finding::new("there are records on stderr too")
            .sent(SET_TO_A_FILE)
            .expected("none")
            .saw(line)),
        None => Ok(()),
    }
}

const SET_TO_A_FILE: &str = "DUET_RPC_LOG set to a file";

/// As JSON, every line of stderr is an object with the names that a record has.
fn as_json(subject: &Subject, it: Combination, _: &Path) -> Result<(), Finding> {
    let options = ["--log-format", "json", "--log-level", "debug"];
    let mut daemon = Daemon::start(subject, it, &options, None)?;
    daemon.call("doctor.unknown", "null")?;
    let ended = question_and_end(daemon)?;
    let finding = |why: &str| {
        let finding = Finding::new(why).sent(&options.join(" "));
        finding.expected("objects with timestamp, severity and message")
    };
    if ended.stderr.is_empty() {
        return Err(finding("there is no record on stderr").saw("nothing"));
    }
    match ended.stderr.lines().find(|line| !is_json_record(line)) {
        Some(line) => Err(finding("a line of stderr is no such record").saw(line)),
        None => Ok(()),
    }
}

/// With a file that cannot be opened there is one warning, and all is served.
fn to_nowhere(subject: &Subject, it: Combination, place: &Path) -> Result<(), Finding> {
    let daemon = Daemon::start(subject, it, &[], Some(&place.join("in-no-folder")))?;
    let ended = question_and_end(daemon)?;
    let is_warning = |line: &&str| is_record(line) && line.split(' ').nth(1) == Some("WARN");
    let saw = match ended.stderr.lines().filter(is_warning).count() {
        1 => return Ok(()),
        0 => "no warning".to_owned(),
        count => format!("{count} warnings"),
    };
    Err(Finding::new("it is not told as it should be")
        .sent("DUET_RPC_LOG set to a file in no folder")
        .expected("one warning on stderr")
        .saw(&saw))
}

/// Has it answer, so that it is known to be up, and ends it.
fn question_and_end(mut daemon: Daemon) -> Result<Ended, Finding> {
    daemon.call("initialize", "{}")?;
    daemon.close();
    daemon.wait(Instant::now()).map_err(|finding| finding.sent("end of stdin").expected("its end"))
}

/// Whether a line begins as records do.
fn is_record(line: &str) -> bool {
    line.split(' ').next().is_some_and(is_timestamp)
}

pub(super) fn is_json_record(line: &str) -> bool {
    let Ok(Value::Object(record)) = serde_json::from_str(line) else { return false };
    let text = |name| record.get(name).and_then(Value::as_str);
    text("timestamp").is_some_and(is_timestamp)
        && text("severity").is_some_and(|it| ["debug", "info", "warn", "error"].contains(&it))
        && text("message").is_some()
}

/// Whether it is a time in UTC, such as `2026-01-02T03:04:05.678Z`.
pub(super) fn is_timestamp(text: &str) -> bool {
    let shape = text.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
    let shape: Vec<_> = shape.collect();
    let fraction = shape.strip_prefix(b"0000-00-00T00:00:00").and_then(|it| it.strip_suffix(b"Z"));
    fraction.is_some_and(|it| it.is_empty() || (it.len() > 1 && it[0] == b'.'))
}

/// Says what is to be expected of the user's own log file. Nothing is written to it, and if it is not
/// there it is not made.
pub(super) fn own_log() -> Result<String, Finding> {
    let Some(value) = std::env::var_os(LOG_VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(format!("{LOG_VARIABLE} is not set"));
    };
    let path = Path::new(&value);
    let opened = match fs::metadata(path) {
        // To open a pipe and close it again would end whoever reads it.
        Ok(it) if !it.is_file() && !it.is_dir() => {
            access(path, Access::WRITE_OK).map_err(io::Error::from)
        }
        Ok(_) => OpenOptions::new().append(true).open(path).map(drop),
        Err(error) if error.kind() == io::ErrorKind::NotFound => may_make(path),
        Err(error) => Err(error),
    };
    match opened {
        Ok(()) => Ok(format!("{LOG_VARIABLE} is set, and can be appended to")),
        Err(error) => {
            let finding = Finding::new(format!("what {LOG_VARIABLE} names cannot be opened"));
            Err(finding.expected("a file to append to").saw(&error.to_string()))
        }
    }
}

/// Whether a file that is not there could be made.
fn may_make(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// A folder for log files that is gone at the end.
pub(super) struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    pub(super) fn new() -> io::Result<Scratch> {
        let own = std::process::id();
        for attempt in 0..100 {
            let folder = std::env::temp_dir().join(format!("duet-rpc-doctor-{own}-{attempt}"));
            match DirBuilder::new().mode(0o700).create(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(Scratch { folder }),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// A place where nothing is yet.
    pub(super) fn place(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
