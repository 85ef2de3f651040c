//! The bearer token for WebSocket and HTTP (T3).

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use duet_rpc::Parent;
use duet_rpc::threads;

use crate::exit::{Exit, Problem};

/// Maximum size of a token file.
const MAX_TOKEN_BYTES: u64 = 4096;

/// Interval between checks that the process to exit with still runs.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Reads the token from a file, without surrounding white space.
pub(crate) fn read(path: &Path) -> Result<String, Problem> {
    let complain = |why: &dyn std::fmt::Display| {
        // Quoted, because the path may hold a line end.
        Problem::failure(format!("cannot use the token file {path:?}: {why}"))
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| complain(&error))?;
    file.take(MAX_TOKEN_BYTES + 1).read_to_end(&mut bytes).map_err(|error| complain(&error))?;
    if bytes.len() as u64 > MAX_TOKEN_BYTES {
        return Err(complain(&format_args!("it holds more than {MAX_TOKEN_BYTES} bytes")));
    }
    // Bytes that are not UTF-8 become characters that no token has.
    let text = String::from_utf8_lossy(&bytes);
    let token = text.trim();
    if token.is_empty() {
        return Err(complain(&"it is empty"));
    }
    // A header cannot carry other characters, so no client could send such a token.
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(complain(&"a token is one word of visible ASCII characters"));
    }
    Ok(token.to_owned())
}

/// Reads a token, and gives up when `process` ends: the file may be a pipe without a writer (L10).
pub(super) fn read_beside(path: &Path, process: Option<u32>) -> Result<String, Problem> {
    let Some(process) = process.and_then(Parent::with_id) else { return read(path) };
    let (tell, told) = channel();
    let to_read = path.to_owned();
    let work = move || {
        let _ = tell.send(read(&to_read));
    };
    // Without a thread, wait for the file.
    if threads::spawn("duet-rpc token", work).is_err() {
        return read(path);
    }
    loop {
        if let Ok(token) = told.recv_timeout(POLL_INTERVAL) {
            return token;
        }
        if process.is_gone() {
            let message = "the parent process ended before the token file was read".to_owned();
            return Err(Problem { exit: Exit::Success, message });
        }
    }
}

/// Returns true if users outside of the file's group can read the token, or the group can change it. The
/// group may be intended as readers.
pub(super) fn is_exposed(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o027 != 0)
}
