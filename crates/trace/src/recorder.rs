//! The thread that records a session.
//!
//! It may be slow, blocked or dead: the threads that forward bytes never wait for it (W3).

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::file::{FileOptions, TraceFile};
use crate::header::Header;
use crate::queue::{Event, EventFeed, Feed, Inlet, queue};
use crate::record::Dir;
use crate::session::{Options, Session};

/// The room of the queue to the recorder, in bytes.
pub const QUEUE_BYTES: usize = 64 * 1024 * 1024;

/// Events of a session that are not bytes.
#[derive(Clone, Debug)]
pub struct Events(EventFeed);

impl Events {
    /// A signal was passed on.
    pub fn signal(&self, signal: i32) {
        self.0.event(Event::Signal(signal));
    }

    /// The server ended: its exit code or its signal, and the number of processes that it left behind.
    pub fn exit(&self, code: Option<i32>, signal: Option<i32>, left: u64) {
        self.0.event(Event::Exit { code, signal, left });
    }
}

/// A running recorder.
#[derive(Debug)]
pub struct Recorder {
    events: Events,
    done: Receiver<Result<Report, io::Error>>,
}

/// The result of a recording.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// The first failure to write the trace.
    pub error: Option<io::Error>,
}

impl Recorder {
    /// Starts a recorder. Returns the feeds of the three directions: client to server, server to
    /// client, stderr.
    ///
    /// # Errors
    ///
    /// If no thread can be started. A file that cannot be written is not an error: see
    /// [`finish`](Recorder::finish).
    pub fn start(
        header: Header,
        options: Options,
        file: FileOptions,
        queue_bytes: usize,
    ) -> io::Result<([Feed; 3], Recorder)> {
        let (feeds, events, inlet) = queue(queue_bytes);
        let (tell, done) = channel();
        let record = move || {
            // A panic drops `tell`, which `finish` notices.
            let _ = tell.send(Ok(run(inlet, header, options, file)));
        };
        thread::Builder::new().name("recorder".to_owned()).spawn(record)?;
        Ok((feeds, Recorder { events: Events(events), done }))
    }

    /// Reports events that are not bytes.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Ends the recording: waits until the recorder has written what is in the queue, as long as it makes
    /// progress.
    ///
    /// # Errors
    ///
    /// If the recorder has failed, or made no progress for this time.
    pub fn finish(self, patience: Duration) -> io::Result<Report> {
        self.events.0.event(Event::End);
        let mut before = self.events.0.recorded();
        loop {
            match self.done.recv_timeout(patience) {
                Ok(report) => return report,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("the recorder failed"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let recorded = self.events.0.recorded();
            if recorded == before {
                let why = "the trace is written too slowly";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            before = recorded;
        }
    }
}

fn run(mut inlet: Inlet, header: Header, options: Options, file: FileOptions) -> Report {
    inlet.attach();
    // Here and not before: opening a named pipe waits for its reader.
    let mut session = Session::new(options, TraceFile::open(file, header));
    loop {
        while inlet.is_burst() {
            inlet.wait_for_tick();
        }
        let events = inlet.take();
        let is_idle = events.is_empty();
        for (at, event) in events {
            inlet.count_recorded();
            match event {
                Event::Bytes { dir, bytes, lost } => {
                    lose(&mut session, dir, at, lost);
                    session.handle_bytes(dir, at, &bytes);
                    inlet.recycle(dir, bytes);
                }
                Event::Eof { dir, lost, why } => {
                    lose(&mut session, dir, at, lost);
                    session.handle_eof(dir, at, why.as_deref());
                }
                Event::Fault(note) => {
                    session.handle_fault(&note);
                    inlet.forget_fault(&note);
                }
                Event::Signal(signal) => session.handle_signal(at, signal),
                Event::Exit { code, signal, left } => session.handle_exit(at, code, signal, left),
                Event::End => {
                    let mut file = session.handle_end(inlet.now());
                    file.flush();
                    return Report { error: file.take_error() };
                }
            }
        }
        if !is_idle {
            session.sink().flush();
        }
        inlet.wait(is_idle);
    }
}

fn lose(session: &mut Session<TraceFile>, dir: Dir, at: u64, lost: u64) {
    if lost > 0 {
        session.handle_loss(dir, at, lost);
    }
}
