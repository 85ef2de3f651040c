//! Writes the new session: to another file, or in place of the recording.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use duet_rpc_trace::parts;

use super::{ReplayResult, Setup};
use crate::cmd::recording::PlayedTrace;
use crate::cmd::stderr::Stderr;
use crate::cmd::trace::input::is_stdin;
use crate::exit::{Exit, Problem};
use crate::sys::files;

/// Checks that a file is named, before it is read.
pub(super) fn check_name(path: &Path) -> Result<(), Problem> {
    match is_stdin(path) {
        true => Err(Problem::usage("--update needs a file: stdin cannot be replaced")),
        false => Ok(()),
    }
}

/// Checks that the recording can be replaced, before anything is played.
pub(super) fn check(path: &Path, recording: &PlayedTrace) -> Result<(), Problem> {
    // A file is replaced through its folder, so its own mode would not protect it.
    if fs::metadata(path).is_ok_and(|file| file.permissions().readonly()) {
        return Err(Problem::failure(format!(
            "cannot update {}: the file is read-only; make it writable, or use --to FILE",
            path.display()
        )));
    }
    if parts(path).len() > 1 {
        return Err(Problem::failure(
            "--update needs a recording in one file, and this one has several parts: use --to FILE",
        ));
    }
    if recording.script.redacted() > 0 || !recording.header.redact.is_empty() {
        return Err(Problem::failure(
            "--update would write the redacted values to the file: use --to FILE, and then \
             `duet-rpc trace redact`",
        ));
    }
    Ok(())
}

/// Writes the new session where the command line says. A session that is not complete replaces nothing.
pub(super) fn store(
    setup: &Setup,
    verdict: &ReplayResult,
    bytes: Vec<u8>,
    exit: Exit,
    stderr: &Stderr,
) -> Exit {
    let mut exit = exit;
    if let Some(to) = &setup.args.to
        && let Err(error) = write(to, &bytes)
    {
        stderr.say(&format!("cannot write {}: {error}", to.display()));
        exit = Exit::Failed;
    }
    if !setup.args.update {
        return exit;
    }
    if verdict.trouble.is_some() {
        stderr.say("the recording stays as it is, because the session is not complete");
        return exit;
    }
    match write(&setup.args.file, &bytes) {
        Ok(()) => {
            stderr.say(&format!("{} is updated", setup.args.file.display()));
            Exit::Success
        }
        Err(error) => {
            stderr.say(&format!("cannot write {}: {error}", setup.args.file.display()));
            Exit::Failed
        }
    }
}

/// Writes a file as a whole: whoever reads it sees the old one or the new one.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A link stays a link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = write_new(&new, bytes).and_then(|()| {
        // The file has the mode of the one that it replaces.
        if let Ok(old) = fs::metadata(&path) {
            fs::set_permissions(&new, old.permissions())?;
        }
        fs::rename(&new, &path)
    });
    if written.is_err() {
        let _: io::Result<()> = fs::remove_file::<&PathBuf>(&new);
    }
    written
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = files::create_new_private(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
