//! The log (G1–G6): records of what happens, as lines on stderr or in a file, and as events for those
//! who have subscribed.
//!
//! ```text
//! tracing ──> subscriber ──> record ──> sink ──(its thread)──> file or stderr
//!                               └─────> streams of events
//! ```

mod clock;
mod level;
mod record;
mod sink;
mod subscriber;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use duet_rpc::{EventStream, Priority};
use rustix::fs::OFlags;
use serde_json::value::RawValue;
use signal_hook::consts::SIGXFSZ;

pub(crate) use level::Level;
pub(crate) use sink::{Sink, Words};

use crate::args::Global;
use crate::console;
use record::{Record, Style};
use subscriber::{Filter, Recorder};

/// How long the log may take to be written at the end (L6).
const LAST_FLUSH: Duration = Duration::from_millis(490);

/// The log of this process. It lives as long as that does.
pub(crate) struct Log {
    filter: Filter,
    style: Style,
    sink: Sink,
    place: Place,
    /// What is to be said before all else.
    foreword: Mutex<Option<Record>>,
    listeners: Mutex<Vec<Weak<EventStream>>>,
    has_listeners: AtomicBool,
}

/// Where the log goes.
enum Place {
    Stderr,
    File(PathBuf),
}

impl Log {
    /// Starts the log, from this level on if the command line says no other.
    pub(crate) fn start(
        global: &Global,
        default: Level,
        traffic: Level,
    ) -> io::Result<&'static Log> {
        // Beyond a limit on the size of files, a write first brings a signal that ends the process,
        // and fails only if somebody receives that.
        signal_hook::flag::register(SIGXFSZ, Arc::default())?;
        let stderr = || io::stderr().as_fd().try_clone_to_owned().map(File::from);
        let (file, place, failure) = match open_file() {
            Some((path, Ok(file))) => (file, Place::File(path), None),
            Some((path, Err(error))) => (stderr()?, Place::Stderr, Some((path, error))),
            None => (stderr()?, Place::Stderr, None),
        };
        let is_file = matches!(place, Place::File(_));
        let in_color = !is_file && console::may_color(&io::stderr(), global.no_color);
        let style = Style { format: global.log_format, in_color };
        let words = Words {
            dropped: Box::new(move |count| {
                warning(style, format!("{count} log records were dropped"))
            }),
            broken: Box::new(move |error| {
                let style = Style { in_color: false, ..style };
                warning(
                    style,
                    format!("the log file cannot be written, and records are lost: {error}"),
                )
            }),
        };
        let sink = Sink::start(file, is_file.then(stderr).transpose()?, words)?;
        let foreword = failure.map(|(path, error)| {
            // It is told whatever the level: who looks for the file must learn why it is not there.
            let (path, on) = (path.display(), "logging to stderr instead");
            let message = format!("the log file {path} cannot be opened: {error}; {on}");
            Record::plain(Level::Warn, message)
        });
        let log: &'static Log = Box::leak(Box::new(Log {
            filter: Filter::new(global.log_level.unwrap_or(default), traffic),
            style,
            sink,
            place,
            foreword: Mutex::new(foreword),
            listeners: Mutex::default(),
            has_listeners: AtomicBool::new(false),
        }));
        let recorder = Recorder { filter: &log.filter, take: |record| log.write(&record) };
        tracing::subscriber::set_global_default(recorder).map_err(io::Error::other)?;
        Ok(log)
    }

    /// Writes what is to be said before all else: that the log is not where it was wanted, if so. Who
    /// has to say something on stderr before the log does calls it afterwards.
    pub(crate) fn open(&self) {
        let foreword = self.foreword.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(record) = foreword {
            self.write(&record);
        }
    }

    /// From which level on records are made.
    pub(crate) fn level(&self) -> Level {
        self.filter.least()
    }

    /// Makes records from this level on. It is in force from the next record on.
    pub(crate) fn set_level(&self, level: Level) {
        self.filter.set(level);
    }

    /// Names the connection in records that are about one, from the next connection on.
    pub(crate) fn show_connections(&self) {
        self.filter.show_connections();
    }

    /// Where the log goes, for the log itself.
    pub(crate) fn place(&self) -> String {
        match &self.place {
            Place::Stderr => "stderr".to_owned(),
            Place::File(path) => path.display().to_string(),
        }
    }

    /// Sends records to this stream too, as long as there is one.
    pub(crate) fn tell(&self, stream: &Arc<EventStream>) {
        let mut listeners = self.listeners();
        // Those that are gone are forgotten here too, as there may be no record for long.
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(stream));
        self.has_listeners.store(true, Ordering::Release);
    }

    /// Waits until all is written, but not for long.
    pub(crate) fn flush(&self) {
        self.sink.flush(LAST_FLUSH);
    }

    fn write(&self, record: &Record) {
        self.sink.push(&record.to_line(self.style));
        if self.has_listeners.load(Ordering::Acquire) {
            self.tell_listeners(record);
        }
    }

    fn tell_listeners(&self, record: &Record) {
        let Ok(data) = RawValue::from_string(record.to_json()) else { return };
        let priority = match record.severity {
            Level::Debug | Level::Info => Priority::Low,
            Level::Warn | Level::Error => Priority::High,
        };
        let mut listeners = self.listeners();
        listeners.retain(|listener| match listener.upgrade() {
            // What is JSON can be sent.
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

/// The file that the environment names, if it names one (G1).
fn open_file() -> Option<(PathBuf, io::Result<File>)> {
    let path: OsString = std::env::var_os("DUET_RPC_LOG").filter(|path| !path.is_empty())?;
    let path = PathBuf::from(path);
    // To open a pipe that nobody reads would wait for a reader.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let opened = OpenOptions::new().append(true).create(true).custom_flags(flags).open(&path);
    let opened = opened.and_then(|file| {
        if is_ours(&file)? {
            return Err(io::Error::other("it is where messages come or go"));
        }
        let flags = rustix::fs::fcntl_getfl(&file)?;
        rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
        Ok(file)
    });
    Some((path, opened))
}

/// Whether a file is what this process has as stdin or stdout: no line of the log may get there, by
/// whatever name (L1). The device that forgets everything may be anything.
fn is_ours(file: &File) -> io::Result<bool> {
    let what = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino));
    let file = what(file.as_fd())?;
    let is_null = File::open("/dev/null").is_ok_and(|null| what(null.as_fd()) == Ok(file));
    let (stdin, stdout) = (what(io::stdin().as_fd()), what(io::stdout().as_fd()));
    Ok(!is_null && (stdin == Ok(file) || stdout == Ok(file)))
}
