//! Server on sockets.
//!
//! The runtime of the main thread accepts connections. There are as many connection threads as processors.
//! The thread with the fewest connections serves a new connection until its end. Each thread has a runtime of
//! its own, so no work passes between threads, and the cost of a connection does not depend on the number of
//! connections (S4).

use std::sync::Arc;
use std::thread;

use super::connection_threads::ConnectionThreads;
use super::shutdown::ShutdownWatch;
use super::watchdog::CountsFrom;
use super::{ConnectionSource, Server, cannot_start, watch_parent};
use crate::connection::closing::FORCED_EXIT;
use crate::connection::worker_pool::WorkerPool;
use crate::error::{Error, ErrorKind, Logged};
use crate::net::{Address, Hub, Listener, MOST_CONNECTIONS};
use crate::panic_guard;
use crate::stdio::set_stdio_aside;
use crate::sys::limits;

/// Descriptors that a thread with a runtime needs, and descriptors for everything else.
const PER_THREAD: usize = 4;
const RESERVE: usize = 32;

impl Server {
    pub(super) async fn run_listening(
        self,
        watch: &ShutdownWatch,
        workers: Option<Arc<WorkerPool>>,
    ) -> Result<(), Error> {
        let _stdout = set_stdio_aside().map_err(cannot_start)?;
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let pool = Arc::new(ConnectionThreads::new("duet-rpc connections", processors));
        let wanted = self.hub.most;
        let limit = wanted.unwrap_or(MOST_CONNECTIONS).min(possible_connections(processors));
        let threads = Arc::clone(&pool);
        let hub = self.hub.max_connections(limit);
        let hub = hub.on_threads(Arc::new(move || threads.find()), workers).build();
        let removers: Vec<_> = self.listeners.iter().filter_map(Listener::remover).collect();
        watch.clean_up_with(move || removers.iter().for_each(|remove| remove()));
        let to_stop = hub.clone();
        watch.close_with(move || to_stop.begin_stop());
        watch_parent(self.parent, watch);
        let addresses: Vec<Address> =
            self.listeners.iter().map(|listener| listener.address().clone()).collect();
        if let Some(tell) = self.on_listening {
            panic_guard::catch(|| tell(&addresses))?;
        }
        if wanted.is_some_and(|wanted| limit < wanted) {
            tracing::warn!(limit, "connection limit lowered: too few files may be open");
        }
        let serve = |listener| {
            let stops = StopOnDrop(hub.clone());
            let serving = hub.clone().serve(listener);
            tokio::spawn(async move {
                let _stops = stops;
                serving.await;
            })
        };
        let serving: Vec<_> = self.listeners.into_iter().map(serve).collect();
        let bring = |source: ConnectionSource| {
            let (stops, bringing) = (StopOnDrop(hub.clone()), source(hub.clone()));
            tokio::spawn(async move {
                let _stops = stops;
                bringing.await
            })
        };
        let sources: Vec<_> = self.sources.into_iter().map(bring).collect();
        hub.stopping().await;
        watch.alarm.arm(FORCED_EXIT, CountsFrom::Trigger, 0);
        watch.triggers.log();
        let mut ended = Ok(());
        // A listener removes its socket's file when it stops.
        for listener in serving {
            ended = ended.and(listener.await);
        }
        let mut failed = Ok(());
        for source in sources {
            match source.await {
                Ok(end) => failed = failed.and(end),
                Err(failure) => ended = ended.and(Err(failure)),
            }
        }
        hub.stop().await;
        pool.shut_down();
        ended.map_err(|failure| {
            tracing::error!("listener failed");
            Error::new(ErrorKind::Panic).caused_by(failure)
        })?;
        failed.inspect_err(|error| tracing::error!(error = %Logged(error), "server failed"))
    }
}

/// The number of connections for which there are enough descriptors. A connection that cannot be accepted
/// cannot be refused with a reason either.
fn possible_connections(processors: usize) -> usize {
    let reserve = processors.saturating_mul(PER_THREAD) + RESERVE;
    let descriptors = limits::raise();
    // With few descriptors, connections share fewer threads.
    descriptors.saturating_sub(reserve).max(descriptors / 2).max(1)
}

/// Stops the server when one of its listeners stops, for whatever reason.
struct StopOnDrop(Hub);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.begin_stop();
    }
}
