//! Signals that end a call or a check. No process that the command started may outlive it.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;

use duet_rpc::is_signal_ignored;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The event that ended a command.
pub(crate) type Interruption = SignalKind;

/// Receivers for the signals that end a command. An ignored signal stays ignored.
pub(crate) struct Interruptions(Vec<(SignalKind, Signal)>);

impl Interruptions {
    pub(crate) fn receive() -> io::Result<Self> {
        let all = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let heard = all.into_iter().filter(|kind| !is_signal_ignored(kind.as_raw_value()));
        let received = heard.map(|kind| signal(kind).map(|signal| (kind, signal)));
        received.collect::<io::Result<_>>().map(Interruptions)
    }

    /// Runs `work`. Returns its output, or the signal that arrived first.
    pub(crate) async fn or<T>(&mut self, work: impl Future<Output = T>) -> Result<T, SignalKind> {
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

/// Ends this process the way the signal would have.
pub(crate) fn die_of(kind: SignalKind) {
    // Returns only if that fails.
    let _ = signal_hook::low_level::emulate_default_handler(kind.as_raw_value());
}
