//! `Router::layer`: layers of the `tower` crates as wrappers.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context as TaskContext, Poll, Waker};

use duet_rpc_proto::message::ErrorObject;
use serde::Serialize;
use serde_json::value::RawValue;
use tower_layer::Layer;
use tower_service::Service;

use super::{Request, Router};
use crate::error::{BoxError, Failure};
use crate::sync::lock;

/// The handler inside a `tower` layer: a service that is always ready. See [`Router::layer`].
#[derive(Clone, Debug)]
pub struct HandlerService(());

impl Service<Request> for HandlerService {
    type Response = Box<RawValue>;
    type Error = HandlerError;
    type Future = Pin<Box<dyn Future<Output = Result<Box<RawValue>, HandlerError>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), HandlerError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        Box::pin(async move {
            match request.next.take() {
                Some(next) => next.run(request).await.map_err(HandlerError),
                None => {
                    let cause = "a tower layer called its service with a request of another layer";
                    Err(HandlerError(Failure::internal(cause)))
                }
            }
        })
    }
}

/// The failure of a handler, as `tower` layers see it. A layer may box it; the library unboxes it again.
#[derive(Debug)]
pub struct HandlerError(Failure);

impl HandlerError {
    /// The failure of the handler.
    pub fn failure(&self) -> &Failure {
        &self.0
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.object().fmt(f)
    }
}

impl StdError for HandlerError {}

impl Router {
    /// Wraps each handler in a `tower` layer, in the same way as [`wrap`](Router::wrap).
    ///
    /// One service serves all methods and connections of this router. The library clones it for each message. If the
    /// service is not ready, the message gets the answer `Server busy`, because waiting inside a server can deadlock
    /// it. An error of the layer itself becomes an internal error.
    #[must_use]
    #[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
    pub fn layer<L>(self, layer: L) -> Self
    where
        L: Layer<HandlerService>,
        L::Service: Service<Request, Response: Serialize, Error: Into<BoxError>, Future: Send + 'static>
            + Clone
            + Send
            + 'static,
    {
        // A mutex, because not every service is `Sync`.
        let service = Mutex::new(layer.layer(HandlerService(())));
        self.wrap(move |mut request, next| {
            let mut service = lock(&service).clone();
            let busy = busy(&request);
            let called = match service.poll_ready(&mut TaskContext::from_waker(Waker::noop())) {
                Poll::Pending => Err(busy),
                Poll::Ready(Err(error)) => Err(into_failure(error)),
                Poll::Ready(Ok(())) => {
                    request.next = Some(next);
                    Ok(service.call(request))
                }
            };
            async move {
                match called {
                    Ok(future) => future.await.map_err(into_failure),
                    Err(failure) => Err(failure),
                }
            }
        })
    }
}

/// The answer to a message for which the service is not ready.
fn busy(request: &Request) -> Failure {
    let profile = &request.context().peer().shared().profile;
    ErrorObject::server_busy(profile.busy_code, profile.limits.in_flight as u64).into()
}

fn into_failure(error: impl Into<BoxError>) -> Failure {
    match error.into().downcast::<HandlerError>() {
        Ok(error) => error.0,
        Err(error) => Failure::internal(error),
    }
}
