//! The log (G1–G6): records as lines on stderr or in a file, and as events for subscribers.
//!
//! ```text
//! tracing ──> subscriber ──> record ──> sink ──(its thread)──> file or stderr
//!                               └─────> streams of events
//! ```

mod level;
mod record;
mod sink;
mod subscriber;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use duet_rpc::{EventStream, Priority};
use serde_json::value::RawValue;

pub(crate) use level::Level;
pub(crate) use sink::{LossMessages, Sink};

use crate::args::Global;
use crate::console;
use crate::sys::files;
use record::{Record, Style};
use subscriber::{Filter, Recorder};

/// Time to write the remaining log at the end (L6).
const LAST_FLUSH: Duration = Duration::from_millis(490);

/// The log of this process. It lives as long as the process.
pub(crate) struct Log {
    filter: Filter,
    style: Style,
    sink: Sink,
    destination: Destination,
    /// Warning to write before all other records.
    startup_warning: Mutex<Option<Record>>,
    listeners: Mutex<Vec<Weak<EventStream>>>,
    has_listeners: AtomicBool,
}

/// Destination of the log.
enum Destination {
    Stderr,
    File(PathBuf),
}

impl Log {
    /// Starts the log, at level `default` unless the command line sets another.
    pub(crate) fn start(
        global: &Global,
        default: Level,
        traffic: Level,
    ) -> io::Result<&'static Log> {
        files::survive_size_limit()?;
        let (file, destination, failure) = match open_file() {
            Some((path, Ok(file))) => (file, Destination::File(path), None),
            Some((path, Err(error))) => {
                (files::stderr()?, Destination::Stderr, Some((path, error)))
            }
            None => (files::stderr()?, Destination::Stderr, None),
        };
        let is_file = matches!(destination, Destination::File(_));
        let in_color = !is_file && console::may_color(&io::stderr(), global.no_color);
        let style = Style { format: global.log_format, in_color };
        let messages = LossMessages {
            dropped: Box::new(move |count| {
                warning(style, format!("{count} log records were dropped"))
            }),
            broken: Box::new(move |error| {
                let style = Style { in_color: false, ..style };
                warning(style, format!("the log file cannot be written, records are lost: {error}"))
            }),
        };
        let sink = Sink::start(file, is_file.then(files::stderr).transpose()?, messages)?;
        let startup_warning = failure.map(|(path, error)| {
            // Written at any level: a user who looks for the file must learn why it is missing.
            let (path, on) = (path.display(), "logging to stderr instead");
            let message = format!("the log file {path} cannot be opened: {error}; {on}");
            Record::plain(Level::Warn, message)
        });
        let log: &'static Log = Box::leak(Box::new(Log {
            filter: Filter::new(global.log_level.unwrap_or(default), traffic),
            style,
            sink,
            destination,
            startup_warning: Mutex::new(startup_warning),
            listeners: Mutex::default(),
            has_listeners: AtomicBool::new(false),
        }));
        let recorder = Recorder { filter: &log.filter, take: |record| log.write(&record) };
        tracing::subscriber::set_global_default(recorder).map_err(io::Error::other)?;
        Ok(log)
    }

    /// Writes the warning that the log file cannot be used, if there is one. A caller that prints its own
    /// first line to stderr calls this afterwards.
    pub(crate) fn open(&self) {
        let startup_warning =
            self.startup_warning.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(record) = startup_warning {
            self.write(&record);
        }
    }

    /// The minimum level of records.
    pub(crate) fn level(&self) -> Level {
        self.filter.least()
    }

    /// Sets the minimum level, from the next record on.
    pub(crate) fn set_level(&self, level: Level) {
        self.filter.set(level);
    }

    /// Adds the connection number to records, from the next connection on.
    pub(crate) fn show_connections(&self) {
        self.filter.show_connections();
    }

    /// Name of the destination, for the log itself.
    pub(crate) fn destination(&self) -> String {
        match &self.destination {
            Destination::Stderr => "stderr".to_owned(),
            Destination::File(path) => path.display().to_string(),
        }
    }

    /// Also sends records to this stream, as long as it exists.
    pub(crate) fn add_listener(&self, stream: &Arc<EventStream>) {
        let mut listeners = self.listeners();
        // Removes dropped streams here too, because the next record may be far off.
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(stream));
        self.has_listeners.store(true, Ordering::Release);
    }

    /// Waits until all records are written, for a bounded time.
    pub(crate) fn flush(&self) {
        self.sink.flush(LAST_FLUSH);
    }

    fn write(&self, record: &Record) {
        self.sink.push(&record.to_line(self.style));
        if self.has_listeners.load(Ordering::Acquire) {
            self.notify_listeners(record);
        }
    }

    fn notify_listeners(&self, record: &Record) {
        let Ok(data) = RawValue::from_string(record.to_json()) else { return };
        let priority = match record.severity {
            Level::Debug | Level::Info => Priority::Low,
            Level::Warn | Level::Error => Priority::High,
        };
        let mut listeners = self.listeners();
        listeners.retain(|listener| match listener.upgrade() {
            // Valid JSON can always be sent.
            Some(stream) => stream.send(priority, &data).is_ok(),
            None => false,
        });
        self.has_listeners.store(!listeners.is_empty(), Ordering::Release);
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Weak<EventStream>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn warning(style: Style, message: String) -> String {
    Record::plain(Level::Warn, message).to_line(style)
}

/// Opens the log file that the environment names, if any (G1).
fn open_file() -> Option<(PathBuf, io::Result<File>)> {
    let path: OsString = std::env::var_os("DUET_RPC_LOG").filter(|path| !path.is_empty())?;
    let path = PathBuf::from(path);
    let opened = files::open_log(&path);
    Some((path, opened))
}
