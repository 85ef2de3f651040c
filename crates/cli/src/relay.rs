//! Lines to stderr that hold up nobody: a thread of its own writes them.
//!
//! Whoever reads our stderr may be slow, or not read at all. What comes past the bound is then left
//! out and counted, and at the end the rest is given a moment and no more.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How many bytes may wait to be written.
const MOST: usize = 1024 * 1024;

/// Takes lines, and writes them when it can. It is cheap to clone.
#[derive(Clone)]
pub(crate) struct Relay(Arc<Shared>);

#[derive(Default)]
struct Shared {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Default)]
struct Lines {
    /// What waits to be written, with its line ends.
    text: String,
    /// How many lines were left out since the last that was taken.
    left_out: usize,
    /// Whether something is being written.
    is_writing: bool,
}

impl Relay {
    /// Writes to stderr.
    pub(crate) fn to_stderr() -> io::Result<Relay> {
        Relay::to(io::stderr())
    }

    fn to(mut writer: impl Write + Send + 'static) -> io::Result<Relay> {
        let relay = Relay(Arc::default());
        let shared = Arc::clone(&relay.0);
        let work = move || {
            loop {
                let text = shared.next();
                // If it fails there is nobody left to tell.
                let _ = writer.write_all(text.as_bytes()).and_then(|()| writer.flush());
                shared.lock().is_writing = false;
                shared.changed.notify_all();
            }
        };
        // It ends with the process.
        thread::Builder::new().name("duet-rpc stderr".to_owned()).spawn(work)?;
        Ok(relay)
    }

    /// Passes on a line of somebody else's, if there is room for it.
    pub(crate) fn pass_on(&self, line: &str) {
        let mut lines = self.0.lock();
        if lines.text.len() + line.len() >= MOST {
            lines.left_out += 1;
            return;
        }
        lines.tell_what_was_left_out();
        lines.push(line);
        self.0.changed.notify_all();
    }

    /// Says something of our own, of which there is little.
    pub(crate) fn say(&self, what: &str) {
        let mut lines = self.0.lock();
        lines.tell_what_was_left_out();
        for line in what.lines() {
            lines.push(line);
        }
        self.0.changed.notify_all();
    }

    /// Waits until all is written, but not for longer than this.
    pub(crate) fn flush(&self, patience: Duration) {
        let mut lines = self.0.lock();
        lines.tell_what_was_left_out();
        self.0.changed.notify_all();
        let is_busy = |lines: &mut Lines| lines.is_writing || !lines.text.is_empty();
        drop(self.0.changed.wait_timeout_while(lines, patience, is_busy));
    }
}

impl Shared {
    /// Nothing that panics is done under the lock.
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something to write.
    fn next(&self) -> String {
        let has_none = |lines: &mut Lines| lines.text.is_empty();
        let waited = self.changed.wait_while(self.lock(), has_none);
        let mut lines = waited.unwrap_or_else(PoisonError::into_inner);
        lines.is_writing = true;
        std::mem::take(&mut lines.text)
    }
}

impl Lines {
    fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn tell_what_was_left_out(&mut self) {
        if self.left_out > 0 {
            let count = std::mem::take(&mut self.left_out);
            self.push(&format!("duet-rpc: {count} lines were left out here: nobody read them"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::{MOST, Relay};

    /// Longer than any test takes that does not hang.
    const LONG: Duration = Duration::from_secs(30);

    /// Writes nothing before it is let through, and then tells what.
    struct Gate(Receiver<()>, Sender<String>);

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // When the test lets go of the other end, all goes through.
            let _ = self.0.recv();
            let _ = self.1.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn relay() -> (Relay, Sender<()>, Receiver<String>) {
        let ((gate, closed), (tell, told)) = (channel(), channel());
        (Relay::to(Gate(closed, tell)).unwrap(), gate, told)
    }

    #[test]
    fn all_is_written_in_order() {
        let (relay, gate, told) = relay();
        drop(gate);
        let lines: Vec<_> = (0..1000).map(|i| i.to_string()).collect();
        for line in &lines {
            relay.pass_on(line);
        }
        relay.say("two\nlines");
        relay.flush(LONG);
        let written: String = told.try_iter().collect();
        assert_eq!(written, format!("{}\ntwo\nlines\n", lines.join("\n")));
    }

    #[test]
    fn one_that_nobody_reads_holds_nobody_up_and_stays_in_bounds() {
        let (relay, gate, told) = relay();
        let line = "x".repeat(1024);
        for _ in 0..4 * MOST / line.len() {
            relay.pass_on(&line);
        }
        relay.say("the end");
        relay.flush(Duration::from_millis(1));
        assert!(relay.0.lock().text.len() < 2 * MOST);
        drop(gate);
        relay.flush(LONG);
        let written: String = told.try_iter().collect();
        assert!(written.len() < 3 * MOST);
        let last: Vec<_> = written.lines().rev().take(3).collect();
        assert_eq!((last[0], last[2]), ("the end", &*line));
        assert!(last[1].starts_with("duet-rpc: ") && last[1].contains("lines were left out"));
    }
}
