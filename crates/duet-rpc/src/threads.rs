//! Threads of the library. If memory is limited, a thread starts only if there is enough memory for it and a
//! reserve. Otherwise the standard library could abort the process, because a new thread finds no memory for
//! its signal stack.

use std::io;
use std::thread::{Builder, JoinHandle};

use crate::sys::limits::memory_left;

/// The stack of a thread that [`spawn`] starts, the same as the standard library's.
const STACK: usize = 2 * 1024 * 1024;

/// Reserve of memory for the rest of the process.
const TO_SPARE: usize = 1024 * 1024;

/// Starts a thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    builder(name, STACK)?.spawn(work)
}

/// Returns a builder for a thread with this name and stack, if there is enough memory now.
pub fn builder(name: &str, stack: usize) -> io::Result<Builder> {
    match memory_left() {
        Some(left) if left < stack + TO_SPARE => Err(io::ErrorKind::OutOfMemory.into()),
        _ => Ok(Builder::new().name(name.to_owned()).stack_size(stack)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l7_a_thread_has_its_name() {
        let thread = spawn("named", || std::thread::current().name().map(str::to_owned));
        let name = thread.expect("there is memory").join().expect("the thread does not panic");
        assert_eq!(name.as_deref(), Some("named"));
    }
}
