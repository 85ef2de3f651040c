//! Inner routes: handlers that a wrapper calls any number of times. Each call costs at most one box.

use std::any::Any;
use std::pin::{Pin, pin};
use std::task::Poll;

use serde_json::value::{RawValue, to_raw_value};

use super::Handler;
use super::arguments::{Arguments, Parts, Refusal};
use super::returns::{Begun, IntoFailure, Output, Returns, Writable};
use super::route::{Route, Typed};
use crate::error::Failure;
use crate::panic_guard::{self, drop_quietly};
use crate::router::{Request, to_params};

/// The result of a handler inside a wrapper. A handler that is not `async` needs no box.
pub(crate) enum Reply {
    Ready(Settled),
    Later(Pin<Box<dyn Future<Output = Settled> + Send>>),
}

type Settled = Result<Box<RawValue>, Failure>;

/// A route that a wrapper can call any number of times.
pub(crate) trait Inner: Route {
    fn call(&self, request: &mut Request) -> Reply;
}

impl<H, S, A, R, O, E> Inner for Typed<H, S, A, R, O, E>
where
    S: 'static,
    R: 'static,
    O: 'static,
    E: 'static,
    H: Handler<
            S,
            Arguments: Arguments<A> + Send + 'static,
            Return: Returns<
                R,
                Future: Send + 'static,
                Output: Output<O, Value: Writable, Error: IntoFailure<E>>,
            >,
        > + Send
        + Sync
        + 'static,
{
    fn call(&self, request: &mut Request) -> Reply {
        let begun = panic_guard::catch(|| {
            let raw = request.take_params();
            let params = to_params(raw.as_deref());
            let parts = &mut Parts { params: &params, message: request };
            let arguments = Arguments::extract(&self.bound, parts)?;
            Ok::<_, Refusal>(self.handler.call(arguments).begin())
        });
        let future = match begun {
            Ok(Ok(Begun::Later(future))) => future,
            Ok(Ok(Begun::Ready(output))) => return Reply::Ready(to_reply(output)),
            Ok(Err(refusal)) => return Reply::Ready(Err(refusal.into_failure())),
            Err(panic) => return Reply::Ready(Err(panic.into())),
        };
        Reply::Later(Box::pin(async move {
            let mut place = pin!(Some(future));
            let polled = std::future::poll_fn(|cx| {
                let polled = panic_guard::catch(|| match place.as_mut().as_pin_mut() {
                    Some(future) => future.poll(cx),
                    None => Poll::Pending,
                });
                match polled {
                    Ok(Poll::Pending) => Poll::Pending,
                    Ok(Poll::Ready(output)) => Poll::Ready(to_reply(output)),
                    Err(panic) => Poll::Ready(Err(panic.into())),
                }
            });
            let reply = polled.await;
            // A handler whose destructor panics has failed, whatever its output is.
            match panic_guard::catch(|| place.set(None)) {
                Ok(()) => reply,
                Err(panic) => Err(panic.into()),
            }
        }))
    }
}

/// The output of a handler inside a wrapper.
fn to_reply<O, E, T>(output: T) -> Settled
where
    T: Output<O, Value: Writable + 'static, Error: IntoFailure<E>>,
{
    let mut value = Some(panic_guard::catch(|| output.into_result().map_err(Into::into))??);
    // Raw JSON, such as the result of a further wrapper, is not copied.
    let raw = (&mut value as &mut dyn Any).downcast_mut::<Option<Box<RawValue>>>();
    if let Some(raw) = raw.and_then(Option::take) {
        return Ok(raw);
    }
    let written = panic_guard::catch(|| to_raw_value(&value));
    drop_quietly(value);
    Ok(written??)
}
