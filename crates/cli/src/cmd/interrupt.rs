//! Signals that end a call or a check: no program that it started may outlive it.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;

use duet_rpc::is_signal_ignored;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a command, from here on received. A signal that is ignored stays ignored.
pub(super) struct Interruptions(Vec<(SignalKind, Signal)>);

impl Interruptions {
    pub(super) fn receive() -> io::Result<Self> {
        let all = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let heard = all.into_iter().filter(|kind| !is_signal_ignored(kind.as_raw_value()));
        let received = heard.map(|kind| signal(kind).map(|signal| (kind, signal)));
        received.collect::<io::Result<_>>().map(Interruptions)
    }

    /// What this comes to, or the signal that comes before.
    pub(super) async fn or<T>(&mut self, work: impl Future<Output = T>) -> Result<T, SignalKind> {
        let mut work = pin!(work);
        poll_fn(|cx| {
            for (kind, signal) in &mut self.0 {
                if let Poll::Ready(Some(())) = signal.poll_recv(cx) {
                    return Poll::Ready(Err(*kind));
                }
            }
            work.as_mut().poll(cx).map(Ok)
        })
        .await
    }
}

/// Ends this process as the signal would have done.
pub(super) fn die_of(kind: SignalKind) {
    // It comes back only if it cannot be.
    let _ = signal_hook::low_level::emulate_default_handler(kind.as_raw_value());
}
