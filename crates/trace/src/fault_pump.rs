//! Forwards the messages of one direction through fault rules: the pump of `tap --fault`.
//!
//! Only this pump parses what passes; without rules, `pump.rs` forwards bytes as they are.
//!
//! | step of the rules | action |
//! |---|---|
//! | write | write these bytes; then the recorder gets them, as bytes that passed |
//! | wait | until input, the time of the next step, a step for the other direction, or the end of the output |
//! | half-close, cut, end | return; the caller closes the streams |
//! | kill | ask the owner of the server |
//!
//! While too many bytes wait, nothing is read: the sender waits too.

use std::io::{self, ErrorKind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::fault::{FaultStep, Faults};
use crate::pump::{Stop, is_passing, write_all};
use crate::queue::{BUFFER, Feed};
use crate::record::Dir;
use crate::sys::{self, ByteStream, Wake, Watched};

/// A read while rules may answer requests: small requests may get large answers.
const SMALL_READ: usize = 4 * 1024;

/// The reason why a pump with faults ended.
#[derive(Debug)]
pub enum FaultEnd {
    /// An end as without faults.
    Usual(Stop),
    /// A rule closes this direction: the receiver sees its end, the sender notices nothing.
    HalfClosed,
    /// A rule ends both directions.
    Cut,
}

/// The fault rules of a session, shared by the pumps of its two directions.
pub struct FaultLink {
    faults: Mutex<Faults>,
    start: Instant,
    /// For each direction: what wakes it.
    wakes: [Wake; 2],
    kill: Box<dyn Fn(i32) + Send + Sync>,
}

impl std::fmt::Debug for FaultLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultLink").field("faults", &self.faults).finish_non_exhaustive()
    }
}

impl FaultLink {
    /// Rules for a session. Times are those of the recorder, if there is one. `kill` sends a signal to the
    /// server.
    ///
    /// # Errors
    ///
    /// If this process has too many files open.
    pub fn new(
        faults: Faults,
        feed: Option<&Feed>,
        kill: impl Fn(i32) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Ok(FaultLink {
            faults: Mutex::new(faults),
            start: feed.map_or_else(Instant::now, Feed::start),
            wakes: [Wake::new()?, Wake::new()?],
            kill: Box::new(kill),
        })
    }

    /// For each rule, the number of messages that matched it, and of those that got its fault.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        self.lock().counts()
    }

    fn lock(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX - 1)
    }

    fn wake(&self, dir: Dir) -> &Wake {
        &self.wakes[usize::from(dir == Dir::S2c)]
    }
}

/// Forwards messages until the input ends, the output is closed, or a rule ends the direction.
///
/// ```
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
///
/// use duet_rpc_trace::{Dir, FaultEnd, FaultLink, Faults, Stop, fault_pump};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (mut client, input) = UnixStream::pair()?;
/// let (output, mut server) = UnixStream::pair()?;
/// client.write_all(b"{\"method\":\"hi\"}\n")?;
/// drop(client);
///
/// let faults = Faults::new(vec!["dup method:hi".parse()?], 0);
/// let link = FaultLink::new(faults, None, |_signal| {})?;
/// let end = fault_pump(Dir::C2s, input, output, &link, None);
/// assert!(matches!(end, FaultEnd::Usual(Stop::Eof)));
///
/// let mut received = String::new();
/// server.read_to_string(&mut received)?;
/// assert_eq!(received, "{\"method\":\"hi\"}\n".repeat(2));
/// assert_eq!(link.counts(), [(1, 1)]);
/// # Ok(())
/// # }
/// ```
pub fn fault_pump(
    dir: Dir,
    input: impl ByteStream,
    output: impl ByteStream,
    link: &FaultLink,
    mut feed: Option<&mut Feed>,
) -> FaultEnd {
    let read_size = if link.lock().may_answer() { SMALL_READ } else { BUFFER };
    let end = match Watched::new(input, output, link.wake(dir), read_size) {
        Ok(ends) => {
            let feed = feed.as_deref_mut();
            FaultPump { dir, ends, link, feed, read_size, has_ended: false }.run()
        }
        Err(error) => FaultEnd::Usual(Stop::Failed(error)),
    };
    link.lock().handle_closed(dir);
    link.wake(other(dir)).wake();
    let why = match &end {
        FaultEnd::Usual(stop) => stop.why(),
        FaultEnd::HalfClosed => Some("a fault rule closed the stream".to_owned()),
        FaultEnd::Cut => Some("a fault rule cut the connection".to_owned()),
    };
    if let Some(feed) = feed {
        feed.end(why);
    }
    end
}

/// Reads and discards what a sender still writes, until its end.
pub fn discard(input: impl ByteStream) {
    let mut buffer = Vec::with_capacity(BUFFER);
    loop {
        buffer.clear();
        match sys::read(&input, &mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = sys::wait_for_bytes(&input);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

struct FaultPump<'a, I: ByteStream, O: ByteStream> {
    dir: Dir,
    ends: Watched<'a, I, O>,
    link: &'a FaultLink,
    feed: Option<&'a mut Feed>,
    read_size: usize,
    /// The input has ended; its last bytes may still wait.
    has_ended: bool,
}

impl<I: ByteStream, O: ByteStream> FaultPump<'_, I, O> {
    fn run(&mut self) -> FaultEnd {
        loop {
            let (step, wakes_other) = {
                let mut faults = self.link.lock();
                let step = faults.poll(self.dir, self.link.now());
                (step, faults.take_wake(other(self.dir)))
            };
            if wakes_other {
                self.wake_other();
            }
            let done = match step {
                FaultStep::Write(bytes) => self.write(bytes),
                FaultStep::Wait(until) => self.wait(until),
                FaultStep::Kill(signal) => {
                    (self.link.kill)(signal);
                    Ok(())
                }
                FaultStep::HalfClose => return FaultEnd::HalfClosed,
                FaultStep::Cut => return FaultEnd::Cut,
                FaultStep::End => return FaultEnd::Usual(Stop::Eof),
            };
            if let Err(error) = done {
                return FaultEnd::Usual(Stop::from_error(error));
            }
        }
    }

    fn write(&mut self, mut bytes: Vec<u8>) -> io::Result<()> {
        let at = self.feed.as_ref().map(|feed| feed.announce());
        let written = write_all(&self.ends.output, &bytes);
        if let (Some(feed), Some(at)) = (&mut self.feed, at) {
            // Bytes that could not be forwarded did not pass.
            bytes.truncate(written.as_ref().map_or_else(|(count, _)| *count, |()| bytes.len()));
            feed.pass(at, &mut bytes);
        }
        written.map_err(|(_, error)| error)
    }

    /// Waits until there is something to do, and reads what has arrived.
    fn wait(&mut self, until: Option<u64>) -> io::Result<()> {
        let may_read = !self.has_ended && self.link.lock().may_read(self.dir);
        let time = until.map(|until| until.saturating_sub(self.link.now()));
        match self.ends.wait(may_read, time)? {
            true => self.read(),
            false => Ok(()),
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let mut buffer = Vec::with_capacity(self.read_size);
        match self.ends.read(&mut buffer) {
            Ok(0) => {
                self.end();
                return Ok(());
            }
            Ok(_) => {}
            Err(error) if is_passing(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        self.tell(|faults, dir, at| faults.handle_bytes(dir, at, &buffer));
        Ok(())
    }

    fn end(&mut self) {
        self.has_ended = true;
        self.tell(Faults::handle_eof);
    }

    /// Tells the rules what happened, and records the faults that they made.
    fn tell(&mut self, tell: impl FnOnce(&mut Faults, Dir, u64)) {
        // The record of a fault must not come after that of an answer to it.
        let at = self.feed.as_ref().map_or_else(|| self.link.now(), |feed| feed.announce());
        let (notes, wakes_other) = {
            let mut faults = self.link.lock();
            tell(&mut faults, self.dir, at);
            (faults.take_notes(), faults.take_wake(other(self.dir)))
        };
        if let Some(feed) = &mut self.feed {
            notes.into_iter().for_each(|note| feed.fault(note));
            feed.withdraw();
        }
        if wakes_other {
            self.wake_other();
        }
    }

    fn wake_other(&self) {
        self.link.wake(other(self.dir)).wake();
    }
}

fn other(dir: Dir) -> Dir {
    match dir {
        Dir::C2s => Dir::S2c,
        _ => Dir::C2s,
    }
}
