//! The token that opens WebSocket and HTTP (T3).

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::exit::Problem;

/// No token is longer.
const LONGEST: u64 = 4096;

/// The token in a file, without the white space around it.
pub(crate) fn read(path: &Path) -> Result<String, Problem> {
    let complain = |why: &dyn std::fmt::Display| {
        // Quoted, because the path may hold a line end.
        Problem::failure(format!("cannot use the token file {path:?}: {why}"))
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| complain(&error))?;
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|error| complain(&error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(complain(&format_args!("it holds more than {LONGEST} bytes")));
    }
    // Bytes that are not UTF-8 become characters that no token has.
    let text = String::from_utf8_lossy(&bytes);
    let token = text.trim();
    if token.is_empty() {
        return Err(complain(&"it is empty"));
    }
    // A header cannot carry anything else, so no client could ever send it.
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(complain(&"a token is one word of visible ASCII characters"));
    }
    Ok(token.to_owned())
}

/// Whether users of this machine whom nobody meant can read the token, or change it. A group may have been
/// meant.
pub(super) fn is_exposed(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o027 != 0)
}
