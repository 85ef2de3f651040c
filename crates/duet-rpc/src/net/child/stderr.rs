//! Stderr of a child: read immediately, passed to a callback, and its last lines kept.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::PATIENCE;
use crate::panic_guard;
use crate::sync::lock;

/// Maximum number of kept lines.
const LINES: usize = 20;

/// Maximum number of kept bytes in all lines, and of bytes in one line.
const BYTES: usize = 8 * 1024;

pub(super) type LineListener = Box<dyn FnMut(&str) + Send>;

/// A task that reads stderr until its end, or until this is dropped.
#[derive(Debug)]
pub(super) struct Stderr {
    task: JoinHandle<()>,
    kept: Arc<Mutex<StderrLines>>,
}

impl Stderr {
    pub(super) fn drain(mut reader: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let kept = Arc::new(Mutex::new(StderrLines::default()));
        let heard = Arc::clone(&kept);
        let task = tokio::spawn(async move {
            let mut chunk = vec![0; BYTES];
            while let Ok(count @ 1..) = reader.read(&mut chunk).await {
                lock(&heard).hear(&chunk[..count]);
                // A program that never stops writing must not hold up timers and messages.
                tokio::task::yield_now().await;
            }
        });
        Stderr { task, kept }
    }

    pub(super) fn listen(&self, listener: LineListener) {
        lock(&self.kept).listen(listener);
    }

    /// The last lines, after the program has ended.
    pub(super) async fn last_stderr(mut self) -> Vec<String> {
        let _ = timeout(PATIENCE, &mut self.task).await;
        let mut lines = std::mem::take(&mut *lock(&self.kept));
        lines.end_line();
        lines.into_lines()
    }
}

impl Drop for Stderr {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The last lines. The callback runs inside the panic guard, so a panic does not poison the lock.
#[derive(Default)]
pub(super) struct StderrLines {
    lines: VecDeque<String>,
    /// The bytes of all lines.
    bytes: usize,
    /// The unfinished last line.
    begun: Vec<u8>,
    listener: Option<LineListener>,
}

impl StderrLines {
    fn listen(&mut self, mut listener: LineListener) {
        for line in &self.lines {
            let _ = panic_guard::catch(|| listener(line));
        }
        self.listener = Some(listener);
    }

    pub(super) fn hear(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = BYTES - self.begun.len();
            let end = bytes.iter().position(|&byte| byte == b'\n').filter(|&end| end <= room);
            let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len().min(room)));
            self.begun.extend_from_slice(line);
            bytes = match end {
                Some(_) => rest.get(1..).unwrap_or_default(),
                None => rest,
            };
            if end.is_some() {
                self.keep_line();
            } else if self.begun.len() == BYTES && !bytes.is_empty() {
                // Cut a line that is longer than the limit.
                self.keep_line();
            }
        }
    }

    /// Ends the unfinished line.
    pub(super) fn end_line(&mut self) {
        if !self.begun.is_empty() {
            self.keep_line();
        }
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }

    fn keep_line(&mut self) {
        let bytes = self.begun.strip_suffix(b"\r").unwrap_or(&self.begun);
        let mut line = String::from_utf8_lossy(bytes).into_owned();
        self.begun.clear();
        // The replacement character is longer than the byte that it stands for.
        while line.len() > BYTES {
            line.pop();
        }
        if let Some(listener) = &mut self.listener {
            let _ = panic_guard::catch(|| listener(&line));
        }
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.lines.len() > LINES || self.bytes > BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }
}

impl fmt::Debug for StderrLines {
    /// Shows the number of lines, and not their contents, because the program may print anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StderrLines").field("lines", &self.lines.len()).finish_non_exhaustive()
    }
}
