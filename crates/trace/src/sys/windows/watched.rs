//! The two ends of a pump with fault rules. A thread reads the input one buffer ahead, and a condition variable stands for
//! the `poll` of other systems. The thread keeps a duplicate of the input open until its read returns.

use std::io::{self, Read};
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::ByteStream;

/// The longest wait; then the caller looks again.
const LONG: Duration = Duration::from_secs(3600);

/// Wakes a pump.
// Same name: the interface of `unix/watched.rs`.
pub(crate) struct Wake(Arc<WakeShared>);

#[derive(Default)]
struct WakeShared {
    state: Mutex<WakeState>,
    news: Condvar,
}

#[derive(Default)]
struct WakeState {
    is_woken: bool,
    /// The bytes of the last read; none at the end of the input.
    arrived: Option<io::Result<Vec<u8>>>,
    /// The pump has ended, so nobody takes what arrives.
    is_over: bool,
}

impl Wake {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Wake(Arc::default()))
    }

    pub(crate) fn wake(&self) {
        self.0.lock().is_woken = true;
        self.0.news.notify_all();
    }
}

impl WakeShared {
    fn lock(&self) -> MutexGuard<'_, WakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The input and the output of a pump.
// Same name: the interface of `unix/watched.rs`.
pub(crate) struct Watched<'a, I, O> {
    shared: Arc<WakeShared>,
    pub(crate) output: O,
    /// The thread has a duplicate of the input, and the link of the pumps this handle.
    from: PhantomData<(I, &'a Wake)>,
}

impl<'a, I: ByteStream, O: ByteStream> Watched<'a, I, O> {
    pub(crate) fn new(input: I, output: O, wake: &'a Wake, read_size: usize) -> io::Result<Self> {
        let (shared, input) = (Arc::clone(&wake.0), input.duplicate()?);
        let reader = move || read_ahead(input, read_size, &shared);
        thread::Builder::new().name("input".to_owned()).spawn(reader)?;
        Ok(Watched { shared: Arc::clone(&wake.0), output, from: PhantomData })
    }

    /// Waits for the input if it may be read, until woken, or for this many microseconds. Returns `true` if the input can be
    /// read.
    pub(crate) fn wait(&mut self, may_read: bool, time: Option<u64>) -> io::Result<bool> {
        let until = Instant::now() + time.map_or(LONG, Duration::from_micros).min(LONG);
        let mut state = self.shared.lock();
        loop {
            let has_input = may_read && state.arrived.is_some();
            let is_woken = std::mem::take(&mut state.is_woken);
            let left = until.saturating_duration_since(Instant::now());
            if has_input || is_woken || left.is_zero() {
                return Ok(has_input);
            }
            let waited = self.shared.news.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes what was read, after `wait`.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let arrived = self.shared.lock().arrived.take();
        self.shared.news.notify_all();
        match arrived {
            Some(Ok(bytes)) => {
                *buffer = bytes;
                Ok(buffer.len())
            }
            Some(Err(error)) => Err(error),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl<I, O> Drop for Watched<'_, I, O> {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.news.notify_all();
    }
}

/// Reads until the end of the input, and waits after each read until its bytes are taken.
fn read_ahead(mut input: Box<dyn Read + Send>, size: usize, shared: &WakeShared) {
    loop {
        let mut bytes = vec![0; size];
        let read = match input.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read,
        };
        let is_last = !matches!(read, Ok(1..));
        let is_taken = |state: &mut WakeState| state.arrived.is_some() && !state.is_over;
        let mut state = shared.lock();
        state.arrived = Some(read.map(|count| {
            bytes.truncate(count);
            bytes
        }));
        shared.news.notify_all();
        let waited = shared.news.wait_while(state, is_taken);
        if is_last || waited.unwrap_or_else(PoisonError::into_inner).is_over {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::windows::io::OwnedHandle;

    use super::*;

    fn pipe() -> (File, File) {
        let (rx, tx) = io::pipe().expect("a pipe");
        (File::from(OwnedHandle::from(rx)), File::from(OwnedHandle::from(tx)))
    }

    #[test]
    fn a_pump_with_rules_sees_bytes_their_end_and_its_wake() {
        let ((input, mut to_input), (_from_output, output)) = (pipe(), pipe());
        let wake = Wake::new().expect("no resource is needed");
        let mut watched = Watched::new(&input, &output, &wake, 4).expect("a thread");

        wake.wake();
        assert!(!watched.wait(true, None).expect("woken"));
        assert!(!watched.wait(true, Some(1)).expect("the time is over"));

        to_input.write_all(b"abcdef").expect("there is a reader");
        for expected in [&b"abcd"[..], b"ef"] {
            assert!(watched.wait(true, None).expect("bytes"));
            let mut bytes = Vec::new();
            assert_eq!(watched.read(&mut bytes).expect("bytes"), expected.len());
            assert_eq!(bytes, expected);
        }
        drop(to_input);
        assert!(watched.wait(true, None).expect("the end"));
        assert_eq!(watched.read(&mut Vec::new()).expect("the end"), 0);
    }
}
