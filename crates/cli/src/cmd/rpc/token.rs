//! The token file for WebSocket and HTTP (T3).

use std::fmt::Display;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use duet_rpc::Parent;
use duet_rpc::threads;
use duet_rpc::transport::TokenFile;

use crate::exit::{Exit, Problem};

/// Interval between checks that the process to exit with still runs.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Reads the token that a client sends: the only one of the file.
pub(crate) fn read(path: &Path) -> Result<String, Problem> {
    only(path, &open(path)?)
}

/// The only token of this file.
pub(super) fn only(path: &Path, tokens: &TokenFile) -> Result<String, Problem> {
    let several = "it contains several tokens: write yours into another file";
    tokens.only_token().ok_or_else(|| unusable(path, several))
}

fn open(path: &Path) -> Result<TokenFile, Problem> {
    TokenFile::open(path).map_err(|error| unusable(path, error))
}

fn unusable(path: &Path, why: impl Display) -> Problem {
    // Quoted, because the path may hold a line end.
    Problem::failure(format!("cannot use the token file {path:?}: {why}"))
}

/// Opens a token file, and gives up when `process` ends: the file may be a pipe without a writer (L10).
pub(crate) fn open_beside(path: &Path, process: Option<u32>) -> Result<TokenFile, Problem> {
    let Some(process) = process.and_then(Parent::with_id) else { return open(path) };
    let (tell, told) = channel();
    let to_read = path.to_owned();
    let work = move || {
        let _ = tell.send(open(&to_read));
    };
    // Without a thread, wait for the file.
    if threads::spawn("duet-rpc token", work).is_err() {
        return open(path);
    }
    loop {
        if let Ok(file) = told.recv_timeout(POLL_INTERVAL) {
            return file;
        }
        if process.is_gone() {
            let message = "the parent process ended before the token file was read".to_owned();
            return Err(Problem { exit: Exit::Success, message });
        }
    }
}
