//! Token file: accepted tokens with their names, read again while the server runs.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::credentials::Token;
use crate::sync::lock;

/// Maximum size of a token file.
const MAX_BYTES: u64 = 64 * 1024;

/// Time between two reads. A file is small, so reading it costs less than deciding reliably whether it changed.
const INTERVAL: Duration = Duration::from_secs(1);

/// A file with the tokens that a server accepts, one on each line: `name:token`, or a token alone.
///
/// The name is the [identity](crate::Identity) of the client. It is one word, and the first colon ends it; a token
/// that contains a colon needs a name. Empty lines, and lines that begin with `#`, are skipped. While a token is
/// replaced, two lines may have the same name, but never the same token.
///
/// A server reads the file again when a request comes, at most once per second. So a new token counts, and a removed
/// token is refused, without a restart; open WebSockets stay open. If the file is missing or has a mistake, the
/// server logs the error and keeps the old tokens. A pipe is read once.
///
/// ```
/// use duet_rpc::transport::{AccessPolicy, TokenFile};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("duet-rpc-tokens-{}", std::process::id()));
/// std::fs::write(&path, "# one line for each user\nada:k3qhx7\nbob:p9vw2m\n")?;
/// let access = AccessPolicy::default().token_file(TokenFile::open(&path)?);
/// # std::fs::remove_file(&path)?;
/// # drop(access);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TokenFile(Arc<WatchedFile>);

struct WatchedFile {
    path: PathBuf,
    /// `false` for a pipe, which would block a second read.
    is_readable_again: bool,
    state: Mutex<TokenFileState>,
}

struct TokenFileState {
    tokens: Arc<[Token]>,
    read_at: Instant,
    /// The last logged error, which is not logged again each second.
    problem: Option<String>,
}

impl TokenFile {
    /// Opens a token file and reads it. It has to contain a token.
    ///
    /// This blocks until the file is read. A pipe is read up to its end.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, TokenFileError> {
        let path = path.into();
        let tokens = read(&path)?;
        let is_readable_again = fs::metadata(&path).is_ok_and(|data| data.is_file());
        let state = TokenFileState { tokens, read_at: Instant::now(), problem: None };
        Ok(TokenFile(Arc::new(WatchedFile { path, is_readable_again, state: Mutex::new(state) })))
    }

    /// The token, if the file contains exactly one: for a client that shares the file with its server.
    pub fn only_token(&self) -> Option<String> {
        match &*lock(&self.0.state).tokens {
            [token] => Some(token.secret.clone()),
            _ => None,
        }
    }

    /// The accepted tokens at this time.
    pub(super) fn tokens(&self, now: Instant) -> Arc<[Token]> {
        let WatchedFile { path, is_readable_again, state } = &*self.0;
        {
            let mut state = lock(state);
            if !is_readable_again || now.duration_since(state.read_at) < INTERVAL {
                return Arc::clone(&state.tokens);
            }
            // Other threads go on with the old tokens while this one reads.
            state.read_at = now;
        }
        let outcome = match fs::metadata(path) {
            Ok(data) if !data.is_file() => Err(TokenFileError::from("it is not a regular file")),
            _ => read(path),
        };
        let mut state = lock(state);
        let problem = match outcome {
            Ok(tokens) => {
                if state.problem.is_some() || tokens != state.tokens {
                    tracing::info!(tokens = tokens.len(), "token file read again");
                    state.tokens = tokens;
                }
                None
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = problem.as_ref().filter(|_| problem != state.problem) {
            tracing::warn!(error, "cannot read the token file again: the old tokens stay");
        }
        state.problem = problem;
        Arc::clone(&state.tokens)
    }
}

fn read(path: &Path) -> Result<Arc<[Token]>, TokenFileError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| TokenFileError(TokenFileProblem::Io(error)))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err("it has more than 65536 bytes".into());
    }
    let text = str::from_utf8(&bytes).map_err(|_| "it is not UTF-8")?;
    parse(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn parse(text: &str) -> Result<Arc<[Token]>, TokenFileError> {
    let mut lines_of_tokens = HashMap::new();
    let mut tokens = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let error = |what| TokenFileError(TokenFileProblem::Line(number, what));
        let (name, secret) = match line.split_once(':') {
            Some((name, secret)) => (Some(name.trim()), secret.trim()),
            None => (None, line),
        };
        if let Some(name) = name {
            check_name(name).map_err(error)?;
        }
        // A header cannot carry other characters, so no client could send such a token.
        if secret.is_empty() || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(error("a token is one word of visible ASCII characters".to_owned()));
        }
        if let Some(first) = lines_of_tokens.insert(secret, number) {
            return Err(error(format!("the token of line {first} again")));
        }
        tokens.push(match name {
            Some(name) => Token::named(name, secret),
            None => Token::new(secret),
        });
    }
    if tokens.is_empty() { Err("it contains no token".into()) } else { Ok(tokens.into()) }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_word = |name: &str| !name.chars().any(|it| it.is_whitespace() || it.is_control());
    match name {
        "" => Err("the name before the colon is empty".to_owned()),
        name if !is_word(name) => Err("the name before the colon is not one word".to_owned()),
        _ => Ok(()),
    }
}

impl fmt::Debug for TokenFile {
    /// Shows the number of tokens, and not the tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TokenFile");
        shown.field("path", &self.0.path).field("tokens", &lock(&self.0.state).tokens.len());
        shown.finish_non_exhaustive()
    }
}

/// A token file cannot be used. The text never contains a token, nor the path of the file.
#[derive(Debug)]
pub struct TokenFileError(TokenFileProblem);

#[derive(Debug)]
enum TokenFileProblem {
    Io(io::Error),
    File(&'static str),
    /// A mistake on this line, counted from 1.
    Line(usize, String),
}

impl From<&'static str> for TokenFileError {
    fn from(what: &'static str) -> Self {
        TokenFileError(TokenFileProblem::File(what))
    }
}

impl fmt::Display for TokenFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            TokenFileProblem::Io(error) => error.fmt(f),
            TokenFileProblem::File(what) => f.write_str(what),
            TokenFileProblem::Line(number, what) => write!(f, "line {number}: {what}"),
        }
    }
}

impl Error for TokenFileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            TokenFileProblem::Io(error) => error.source(),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "token_file_tests.rs"]
mod tests;
