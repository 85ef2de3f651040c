//! A fence around handlers: a panic stays inside (E2).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::{Error, ErrorKind};

/// Calls a handler. If it panics, the panic ends here, as an [`Error`].
///
/// The panic's message stays out of the error, as it may hold anything; the process's panic hook
/// has seen it already.
///
/// ```
/// use duet_rpc::{ErrorKind, fence};
///
/// assert_eq!(fence::call(|| 1 + 1).expect("nothing panics"), 2);
/// let error = fence::call(|| panic!("secret")).expect_err("it panics");
/// assert_eq!(error.kind(), ErrorKind::Panic);
/// assert!(!format!("{error:?}").contains("secret"));
/// ```
pub fn call<T>(handler: impl FnOnce() -> T) -> Result<T, Error> {
    // What a handler has half done when it panics is its own; nothing of ours is shared with it.
    catch_unwind(AssertUnwindSafe(handler)).map_err(to_error)
}

/// A future that is fenced in: if a poll panics, it is ready with an [`Error`].
#[derive(Debug)]
pub struct Fenced<F>(Option<Pin<Box<F>>>);

/// Fences a future in.
pub fn future<F: Future>(handler: F) -> Fenced<F> {
    Fenced(Some(Box::pin(handler)))
}

impl<F: Future> Future for Fenced<F> {
    type Output = Result<F::Output, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(handler) = self.0.as_mut() else {
            // Polled again after it was ready: a mistake of the caller's, and no reason to panic.
            return Poll::Pending;
        };
        let polled = call(|| handler.as_mut().poll(cx));
        if !matches!(polled, Ok(Poll::Pending)) {
            // Its destructor may panic too.
            let handler = self.0.take();
            if let Err(error) = call(move || drop(handler)) {
                return Poll::Ready(polled.and(Err(error)));
            }
        }
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

fn to_error(panic: Box<dyn Any + Send>) -> Error {
    // A panic's payload may itself panic when it is dropped; that one has nowhere left to go.
    if catch_unwind(AssertUnwindSafe(move || drop(panic))).is_err_and(|second| {
        std::mem::forget(second);
        true
    }) {
        return Error::new(ErrorKind::Panic).caused_by("and its payload panicked too");
    }
    Error::new(ErrorKind::Panic)
}
