//! Panic guard: a panic in code of the application becomes an [`Error`].
//!
//! Handlers, their destructors, `Serialize` implementations and callbacks all run inside this guard. It is the
//! only place that catches panics.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll};

use crate::error::{Error, ErrorKind};

/// Calls a function of the application. A panic ends here, as an [`Error`].
///
/// The error leaves the panic's message out, because the message may quote anything. The panic hook of the
/// process has seen the message already.
///
/// ```
/// use duet_rpc::{ErrorKind, panic_guard};
///
/// assert_eq!(panic_guard::catch(|| 1 + 1).expect("nothing panics"), 2);
/// let error = panic_guard::catch(|| panic!("secret")).expect_err("it panics");
/// assert_eq!(error.kind(), ErrorKind::Panic);
/// assert!(!format!("{error:?}").contains("secret"));
/// ```
pub fn catch<T>(function: impl FnOnce() -> T) -> Result<T, Error> {
    DEPTH.set(DEPTH.get() + 1);
    // A function that panics may leave its own data half changed, but it shares none with us.
    let called = catch_unwind(AssertUnwindSafe(function));
    // Dropping the payload of a panic may panic too, so that happens inside the guard.
    let called = called.map_err(to_error);
    DEPTH.set(DEPTH.get() - 1);
    called
}

/// Drops a value of the application inside the guard. A panic is ignored, because the message is already
/// answered.
pub(crate) fn drop_quietly<T>(value: T) {
    if std::mem::needs_drop::<T>() {
        let _ = catch(move || drop(value));
    }
}

/// Keeps panics inside the guard from being printed, for the whole process. Their messages may quote
/// anything, and a stderr that nobody reads would block the thread. The [`Error`] has the panic's place in
/// the source as its cause instead. Panics outside the guard are printed as before.
pub fn silence_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if DEPTH.get() == 0 {
                return before(panic);
            }
            let location = panic.location().map(|location| format!("at {location}"));
            let location = location.unwrap_or_else(|| "at an unknown place".to_owned());
            LAST_PANIC.with_borrow_mut(|last| *last = Some(location));
        }));
    });
}

thread_local! {
    /// The depth of nested guards on this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The source location of the last panic inside them.
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A future whose panics are caught. A panic in `poll` or in its destructor makes it ready with an [`Error`].
/// After that it stays pending.
#[derive(Debug)]
pub struct Guarded<F>(Option<F>);

/// Guards a future.
pub fn catch_future<F: Future>(future: F) -> Guarded<Pin<Box<F>>> {
    Guarded::new(Box::pin(future))
}

impl<F: Future + Unpin> Guarded<F> {
    pub(crate) fn new(future: F) -> Self {
        Guarded(Some(future))
    }
}

impl<F: Future + Unpin> Future for Guarded<F> {
    type Output = Result<F::Output, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = self.0.as_mut() else { return Poll::Pending };
        let output = match catch(|| Pin::new(future).poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(error) => Err(error),
        };
        let future = self.0.take();
        Poll::Ready(match (output, catch(move || drop(future))) {
            (output, Ok(())) => output,
            (Err(error), Err(_)) => Err(error),
            (Ok(output), Err(error)) => {
                // A handler whose destructor panics has failed, whatever its output is.
                drop_quietly(output);
                Err(error)
            }
        })
    }
}

impl<F> Drop for Guarded<F> {
    fn drop(&mut self) {
        drop_quietly(self.0.take());
    }
}

fn to_error(panic: Box<dyn Any + Send>) -> Error {
    let location = LAST_PANIC.with_borrow_mut(Option::take);
    // Dropping a panic's payload may panic too, and that second payload is leaked.
    if catch_unwind(AssertUnwindSafe(move || drop(panic))).is_err_and(|second| {
        std::mem::forget(second);
        true
    }) {
        return Error::new(ErrorKind::Panic).caused_by("and its payload panicked too");
    }
    match location {
        Some(location) => Error::new(ErrorKind::Panic).caused_by(location),
        None => Error::new(ErrorKind::Panic),
    }
}
