//! The state that the handles of a connection share with its task.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use duet_rpc_proto::Profile;
use duet_rpc_proto::message::ErrorObject;
use duet_rpc_proto::policy::IdStyle;
use duet_rpc_proto::session::{Ids, Key};
use tokio::sync::SetOnce;

use super::events::Streams;
use super::inline_sender::InlineSender;
use super::mailbox::Mailbox;
use super::memory::Budget;
use super::send_queue::WaitForRoom;
use super::state::PublishedState;
use super::subscriptions::Subscriptions;
use super::{UnusableAnswer, log, now};
use crate::context::Flag;
use crate::error::ConnectionState;
use crate::error::{Error, ErrorKind, RemoteError};
use crate::extensions::Extensions;
use crate::peer::Registry;
use crate::random;
use crate::remote::Remote;
use crate::transport::TransportKind;

pub(crate) struct Shared {
    pub(crate) profile: Profile,
    /// The span of the connection, for the log.
    pub(crate) span: tracing::Span,
    pub(super) kind: TransportKind,
    pub(crate) remote: Remote,
    /// The connections of the server to which this one belongs; `None` without a server.
    pub(crate) registry: Option<Arc<Registry>>,
    pub(crate) ids: Ids,
    pub(crate) state: PublishedState,
    pub(crate) mailbox: Mailbox,
    pub(super) budget: Arc<Budget>,
    pub(super) streams: Streams,
    pub(super) subscriptions: Subscriptions,
    pub(crate) counts: ConnectionCounts,
    /// `true` if the answers to batches have reached their limit. Then no further request of a batch may begin.
    pub(super) is_full_of_batches: AtomicBool,
    /// The first error response with `id: null`.
    pub(crate) uncorrelated_error: SetOnce<RemoteError>,
    /// The first answer that cannot be used.
    pub(crate) unusable: SetOnce<UnusableAnswer>,
    /// Called immediately, on any thread, when the connection is to be closed.
    pub(crate) on_close: OnceLock<OnClose>,
    /// Set when the connection ends, before its handlers are stopped.
    pub(crate) gone: Flag,
    /// `true` if an exchange is over, so that it needs no close command.
    pub(crate) has_ended: AtomicBool,
    /// Values that the application keeps with the connection.
    pub(crate) extensions: Extensions,
    /// Set if callers send their calls themselves.
    pub(super) inline_sender: OnceLock<InlineSender>,
}

/// Callback for a close. Its argument is the message that asked for the close, if there was one.
pub(crate) type OnClose = Box<dyn Fn(Option<Key>) + Send + Sync>;

/// Figures of a connection, for [`Peer::stats`](crate::Peer::stats).
#[derive(Default)]
pub(crate) struct ConnectionCounts {
    pub(crate) pending_calls: AtomicUsize,
    pub(crate) running: AtomicUsize,
    pub(crate) waiting: AtomicUsize,
    pub(crate) unmatched: AtomicUsize,
    pub(crate) messages: AtomicU64,
    pub(crate) faults: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) bytes_sent: AtomicU64,
}

/// Adds to a figure. Only the connection's task writes it, so this needs no atomic operation.
#[inline]
pub(super) fn add(figure: &AtomicU64, count: u64) {
    figure.store(figure.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

impl Shared {
    /// The state of a new connection. Without a shared budget, the connection gets its own.
    pub(crate) fn new(profile: &Profile, kind: TransportKind, budget: Option<Arc<Budget>>) -> Self {
        let profile = profile.with(|it| it.limits = it.limits.usable());
        let limits = &profile.limits;
        let budget = budget.unwrap_or_else(|| Budget::of_connection(limits.outgoing_bytes));
        let seed = if profile.ids == IdStyle::Uuid { random::seed() } else { 0 };
        Shared {
            profile,
            span: log::connection(),
            kind,
            remote: Remote::new(),
            registry: None,
            ids: Ids::new(profile.ids, seed),
            state: PublishedState::new(kind),
            mailbox: Mailbox::new(limits, Arc::clone(&budget)),
            budget,
            streams: Streams::default(),
            subscriptions: Subscriptions::default(),
            counts: ConnectionCounts::default(),
            is_full_of_batches: AtomicBool::new(false),
            uncorrelated_error: SetOnce::new(),
            unusable: SetOnce::new(),
            on_close: OnceLock::new(),
            gone: Flag::new(),
            has_ended: AtomicBool::new(false),
            extensions: Extensions::default(),
            inline_sender: OnceLock::new(),
        }
    }

    /// Sends a notification. Without room it waits in the send queue, and this returns the wait.
    pub(crate) fn notify(self: &Arc<Self>, message: Vec<u8>) -> Result<Option<WaitForRoom>, Error> {
        self.check_notifiable()?;
        // A deadline beyond the range of the clock counts as none.
        let deadline = || self.profile.call_timeout.and_then(|time| now().checked_add(time));
        let waits = self.mailbox.notify(message, deadline).map_err(|kind| self.rejection(kind))?;
        let shared = Arc::clone(self);
        Ok(waits.map(|(ticket, sent)| WaitForRoom { shared, ticket, sent }))
    }

    /// Sends a notification only if there is room for it now; `None` if nothing can be sent at all, because
    /// the connection is gone or carries only answers.
    pub(crate) fn try_notify(&self, message: &[u8]) -> Option<bool> {
        self.check_two_way()
            .and_then(|()| self.mailbox.try_notify(message).map_err(Error::new))
            .ok()
    }

    /// Fails on a transport that carries one message and the messages that are sent back for it.
    pub(crate) fn check_two_way(&self) -> Result<(), Error> {
        if self.kind.is_two_way() { Ok(()) } else { Err(self.closed_error()) }
    }

    /// Fails on a transport that carries only answers.
    pub(super) fn check_notifiable(&self) -> Result<(), Error> {
        if self.kind == TransportKind::Exchange { Err(self.closed_error()) } else { Ok(()) }
    }

    /// Fails if the connection is gone, or carries only answers.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.gone.initialized() { Err(self.closed_error()) } else { self.check_notifiable() }
    }

    /// The error of a message that the mailbox did not take.
    pub(crate) fn rejection(&self, kind: ErrorKind) -> Error {
        match kind {
            ErrorKind::Disconnected => self.closed_error(),
            kind => Error::new(kind),
        }
    }

    /// The error of an operation that came too late.
    pub(crate) fn closed_error(&self) -> Error {
        match self.state.get() {
            ConnectionState::Disconnected(disconnect) => disconnect.to_error(),
            _ if !self.kind.is_two_way() => Error::new(ErrorKind::OneWay),
            _ => Error::new(ErrorKind::Disconnected).caused_by("it is closing"),
        }
    }

    /// The error for a batch request that has not begun, if the answers to batches hold too many bytes.
    pub(super) fn refusal_of_batch(&self) -> Option<ErrorObject> {
        let most = self.profile.limits.batch_bytes as u64;
        let is_full =
            self.is_full_of_batches.load(Ordering::Relaxed) || self.budget.is_full_of_batches();
        is_full.then(|| ErrorObject::server_busy(self.profile.busy_code, most))
    }
}
