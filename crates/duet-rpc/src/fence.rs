//! A fence around handlers: a panic stays inside.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::pin::Pin;
use std::sync::Once;
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
    let _inside = Inside::enter();
    // What a handler has half done when it panics is its own; nothing of ours is shared with it.
    catch_unwind(AssertUnwindSafe(handler)).map_err(to_error)
}

/// Keeps panics inside a fence from being printed, for the whole process: their messages may hold
/// anything, and whoever does not read stderr would stop the thread. The [`Error`] has the
/// place in the source as its cause instead. Panics outside of a fence are printed as before.
pub fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if DEPTH.get() == 0 {
                return before(panic);
            }
            PLACE.with_borrow_mut(|place| *place = Some(Place::of(panic)));
        }));
    });
}

thread_local! {
    /// How many fences this thread is inside of.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Where the last panic inside of them was.
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// Counts a fence as long as it stands.
struct Inside;

impl Inside {
    fn enter() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Where in the source a handler panicked.
#[derive(Debug)]
struct Place(String);

impl Place {
    fn of(panic: &PanicHookInfo<'_>) -> Self {
        Place(panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}", self.0)
    }
}

impl std::error::Error for Place {}

/// A future that is fenced in: if a poll panics, it is ready with an [`Error`], and if its
/// destructor panics, that ends here too. Once it was ready it is never ready again.
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
        let output = match call(|| handler.as_mut().poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(error) => Err(error),
        };
        Poll::Ready(match (output, drop_fenced(self.0.take())) {
            (output, Ok(())) => output,
            (Err(error), Err(_)) => Err(error),
            (Ok(output), Err(error)) => {
                // The output of a handler that could not even be cleared away is not to be used.
                let _ = drop_fenced(output);
                Err(error)
            }
        })
    }
}

impl<F> Drop for Fenced<F> {
    fn drop(&mut self) {
        // There is nobody to tell: who drops a handler that waits does not want its answer.
        let _ = drop_fenced(self.0.take());
    }
}

fn drop_fenced<T>(value: T) -> Result<(), Error> {
    call(move || drop(value))
}

fn to_error(panic: Box<dyn Any + Send>) -> Error {
    let place = PLACE.with_borrow_mut(Option::take);
    // A panic's payload may itself panic when it is dropped; that one has nowhere left to go.
    if catch_unwind(AssertUnwindSafe(move || drop(panic))).is_err_and(|second| {
        std::mem::forget(second);
        true
    }) {
        return Error::new(ErrorKind::Panic).caused_by("and its payload panicked too");
    }
    match place {
        Some(place) => Error::new(ErrorKind::Panic).caused_by(place),
        None => Error::new(ErrorKind::Panic),
    }
}
