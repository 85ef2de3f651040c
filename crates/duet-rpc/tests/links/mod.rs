//! Helpers that the tests of whole peers share.

#![allow(dead_code, unreachable_pub, reason = "no test uses all of it")]

use std::time::Duration;

use duet_rpc::transport::{Stream, memory};
use duet_rpc::{Failure, Peer, Profile, Router, Stats};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;

/// The time after which a test counts as hanging. A test that works takes far less, on any machine.
pub const HANGS: Duration = Duration::from_secs(30);

/// The link between two peers.
#[derive(Clone, Copy, Debug)]
pub enum Link {
    /// Whole messages.
    Memory,
    /// Bytes, of which this many fit at a time.
    Pipe(usize),
}

impl Link {
    /// Two peers with the same profile.
    pub fn join(self, profile: &Profile, one: Router, two: Router) -> (Peer, Peer) {
        match self {
            Link::Memory => {
                let (here, there) = memory::pair();
                (
                    Peer::builder(here).profile(*profile).router(one).spawn(),
                    Peer::builder(there).profile(*profile).router(two).spawn(),
                )
            }
            Link::Pipe(room) => {
                let (here, there) = tokio::io::duplex(room);
                let here =
                    Peer::builder(Stream::from_io(here)).profile(*profile).router(one).spawn();
                (here, Peer::builder(Stream::from_io(there)).profile(*profile).router(two).spawn())
            }
        }
    }
}

/// A client over [`Link::Memory`], and the server of these methods.
pub fn client_of(router: Router) -> (Peer, Peer) {
    Link::Memory.join(&Profile::agent(), Router::new(), router)
}

/// Adds a method that waits for a permit, and then answers like this.
pub fn gated<P, R>(router: Router, method: &str, answer: fn(P) -> R) -> (Router, Arc<Semaphore>)
where
    P: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
{
    let opener = Arc::new(Semaphore::new(0));
    let permits = Arc::clone(&opener);
    let router = router.method(method, move |params: P| {
        let permits = Arc::clone(&permits);
        async move {
            permits.acquire().await.map_err(|_| Failure::internal("closed"))?.forget();
            Ok::<_, Failure>(answer(params))
        }
    });
    (router, opener)
}

pub fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// A runtime whose clock moves only when nothing else is left to do.
pub fn stopped_clock() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
}

pub fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(3).enable_all().build().expect("a runtime")
}

/// Runs a scenario on both kinds of runtime, over both kinds of link, and fails if it hangs.
pub fn everywhere<F>(scenario: impl Fn(Link) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for link in [Link::Memory, Link::Pipe(64 * 1024)] {
        on_both_runtimes(&format!("{link:?}"), || scenario(link));
    }
}

/// Runs a scenario on both kinds of runtime, and fails if it hangs.
pub fn on_both_runtimes<F>(place: &str, scenario: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for (kind, runtime) in [("one thread", current_thread()), ("threads", multi_thread())] {
        // Runs on a thread of the runtime, like the peers.
        let running = runtime.spawn(scenario());
        // The timeout runs outside the runtime, because a task that never yields stops the runtime's clock.
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _ = tell.send(runtime.block_on(running));
            runtime.shutdown_background();
        });
        match told.recv_timeout(HANGS) {
            Err(_) => panic!("the scenario hangs ({place}, {kind})"),
            Ok(Err(error)) => panic!("the scenario failed ({place}, {kind}): {error}"),
            Ok(Ok(())) => {}
        }
    }
}

/// Waits until the condition holds. Other tasks run meanwhile.
pub async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}

/// Returns `true` if no call, handler or message is pending.
pub fn is_quiet(peer: &Peer) -> bool {
    let Stats { pending_calls, running, waiting, .. } = peer.stats();
    pending_calls + running + waiting == 0
}

pub fn alive_tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}
