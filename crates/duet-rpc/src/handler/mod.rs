//! Handlers: functions and closures that serve methods (P7).
//!
//! A handler is checked in four small steps, each with a trait and a compiler message of its own. If one trait
//! asked for everything, every mistake would give the same message.
//!
//! | step | trait | file |
//! |---|---|---|
//! | it is a function of up to five arguments | [`Handler`] | this one |
//! | each argument is the params or an extractor, and at most one is the params | `Arguments`, `AtMostOneParams` | `arguments` |
//! | it returns a value, or a future of one | `Returns` | `returns` |
//! | the value can be written as JSON, the error converts into a `Failure` | `Output`, `Writable`, `IntoFailure` | `returns` |
//!
//! `route` erases all these types, and runs the handler.

mod arguments;
mod inner;
mod returns;
mod route;
mod state;

use crate::router::Pace;

pub use self::arguments::{
    Argument, Arguments, AsExtractor, AsParams, AtMostOneParams, Binding, FromContext, Method,
    OfContext, OfMessage, OfRouter, Parts, Refusal,
};
pub(crate) use self::arguments::{Message, Scope};
pub(crate) use self::inner::{Inner, Reply};
pub use self::returns::{
    Asynchronous, Begun, Converts, Fallible, IntoFailure, Output, Plain, Returns, Synchronous,
    Writable,
};
pub(crate) use self::route::{Answer, Host, Outcome, Route, Slot, Typed, Waiting};
pub use self::state::State;

/// A handler of messages: any function or closure, `async` or not, of up to five arguments.
///
/// At most one argument is the params: any type that serde can read. A tuple takes them by position, a struct
/// by name, `Box<RawValue>` as they are. The others, in any order, are extractors: [`Context`](crate::Context),
/// [`State`], [`Method`], and types that implement [`FromContext`].
///
/// A handler returns a value that serde can write, or a `Result` whose error converts into a
/// [`Failure`](crate::Failure).
///
/// ```
/// use duet_rpc::{Context, Failure, Router, State};
///
/// struct App { greeting: String }
///
/// fn greet(app: State<App>, (name,): (String,)) -> String {
///     format!("{}, {name}!", app.greeting)
/// }
///
/// async fn divide((a, b): (i64, i64)) -> Result<i64, Failure> {
///     a.checked_div(b).ok_or_else(|| Failure::new(-32001, "Division by zero"))
/// }
///
/// let router = Router::with_state(App { greeting: "Hello".to_owned() })
///     .method("greet", greet)
///     .method("divide", divide)
///     .method("add", async |(a, b): (i64, i64)| a + b)
///     .method("id", |cx: Context| cx.id().map(ToString::to_string));
/// ```
///
/// Params own their data: `String`, not `&str`. For a borrowed type, the compiler reports that the implementation of
/// `Deserialize` is not general enough.
///
/// The future of a handler has to be `Send`, because it may run on another thread. A closure that uses
/// captured values in its future clones them first:
/// `move |params| { let db = db.clone(); async move { … } }`. A [`State`] argument needs no clone.
///
/// An error type that implements both `Serialize` and `Into<Failure>` makes the compiler ask for type
/// annotations, because such a `Result` could also be meant as a value. Convert the error yourself:
/// `result.map_err(Failure::from)`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "this cannot be registered as a method",
    note = "a handler is a function or closure, `async` or not, of up to five arguments",
    note = "an `async` closure cannot use captured values by reference: ask for a `State<S>`, or clone them \
            first: `move |params| {{ let db = db.clone(); async move {{ … }} }}`"
)]
pub trait Handler<S> {
    /// The arguments, as a tuple.
    type Arguments;
    /// The value or the future that it returns.
    type Return;

    /// Calls it.
    #[doc(hidden)]
    fn call(&self, arguments: Self::Arguments) -> Self::Return;

    /// The pace that the application has set.
    #[doc(hidden)]
    fn pace(&self) -> Speed {
        Speed::Measured
    }
}

/// The pace of a handler, as the application has set it.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub enum Speed {
    Measured,
    Quick,
    Blocking,
}

impl Speed {
    pub(crate) fn to_pace(self) -> Pace {
        match self {
            Speed::Measured => Pace::new(),
            Speed::Quick => Pace::always_quick(),
            Speed::Blocking => Pace::always_slow(),
        }
    }
}

macro_rules! impl_handler {
    ($($argument:ident $value:ident),*) => {
        impl<F, R, $($argument),*> Handler<fn($($argument),*)> for F
        where
            F: Fn($($argument),*) -> R,
        {
            type Arguments = ($($argument,)*);
            type Return = R;

            #[inline(always)]
            fn call(&self, ($($value,)*): Self::Arguments) -> R {
                self($($value),*)
            }
        }
    };
}

impl_handler!();
impl_handler!(A a);
impl_handler!(A a, B b);
impl_handler!(A a, B b, C c);
impl_handler!(A a, B b, C c, D d);
impl_handler!(A a, B b, C c, D d, E e);

/// A handler with a fixed pace; see [`quick`] and [`blocking`].
#[derive(Clone, Copy, Debug)]
pub struct Paced<H> {
    handler: H,
    speed: Speed,
}

#[diagnostic::do_not_recommend]
impl<S, H: Handler<S>> Handler<(S,)> for Paced<H> {
    type Arguments = H::Arguments;
    type Return = H::Return;

    #[inline(always)]
    fn call(&self, arguments: Self::Arguments) -> Self::Return {
        self.handler.call(arguments)
    }

    fn pace(&self) -> Speed {
        self.speed
    }
}

/// Marks a handler as quick: it never holds its thread for long, so it always runs on the thread that reads
/// and writes. Without a mark the pace is measured, and [`serve`](crate::serve()) runs the first call of a
/// method on a worker thread. The next message is handled when the handler has returned, or waits for the
/// first time.
///
/// ```
/// use duet_rpc::{Router, quick};
///
/// let router = Router::new().method("version", quick(|| "1.0"));
/// ```
pub fn quick<H>(handler: H) -> Paced<H> {
    Paced { handler, speed: Speed::Quick }
}

/// Marks a handler as blocking: it may hold its thread, because it blocks or computes for long. Under
/// [`serve`](crate::serve()) and [`Server`](crate::Server) it runs on a worker thread. On your own multi-thread
/// runtime it runs on one of up to 32 worker threads that all connections share. On your own current-thread
/// runtime it holds the only thread: use `tokio::task::spawn_blocking` in it.
///
/// Without a mark the pace is measured; a handler that was quick so far and then blocks keeps all messages of
/// its connection waiting, even a shutdown.
///
/// ```
/// use duet_rpc::{Failure, Router, blocking};
///
/// fn index((path,): (String,)) -> Result<usize, Failure> {
///     Ok(std::fs::read_dir(path)?.count())
/// }
///
/// let router = Router::new().method("index", blocking(index));
/// ```
pub fn blocking<H>(handler: H) -> Paced<H> {
    Paced { handler, speed: Speed::Blocking }
}
