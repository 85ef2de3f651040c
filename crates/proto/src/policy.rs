//! What a connection does where the specification leaves a choice, and the presets.

use std::time::Duration;

use crate::frame::{Framing, FramingChoice};
use crate::limits::Limits;
use crate::message::Code;

/// Whether an array of messages is served: [M6](crate::specification#m6) of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchRule {
    /// Any array is an invalid request.
    Reject,
    /// Arrays are served, as JSON-RPC 2.0 says in its section 6.
    Allow,
}

/// In which order incoming messages are worked on: [L2](crate::specification#l2) of the specification. Responses
/// to our own calls, and cancellations, are never held up by any of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Order {
    /// One message is finished and answered before the next begins.
    Sequential,
    /// Requests run side by side, but a notification is finished before any later message starts:
    /// a change is always seen by the requests after it.
    Barrier,
    /// No order.
    Concurrent,
    /// Messages of the same key in order, others side by side. The key is a function of the
    /// method and its params, such as the URI of a document.
    ByKey,
}

/// How we cancel our calls, and whether a request that the remote cancelled is answered.
///
/// A cancellation, and progress, that comes in is understood in the words of both dialects, whatever
/// this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// `$/cancelRequest` with `id`, as editors do (LSP). A cancelled request is answered with −32800.
    Dollar,
    /// `notifications/cancelled` with `requestId`, as agents and their tools do (MCP). A cancelled
    /// request gets no answer.
    Notifications,
    /// We send nothing. A cancelled request is answered with −32800.
    None,
}

impl Dialect {
    /// Whether a request that the remote cancelled is answered.
    pub fn answers_cancelled(self) -> bool {
        match self {
            Dialect::Dollar | Dialect::None => true,
            Dialect::Notifications => false,
        }
    }
}

/// What the ids of our calls look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdStyle {
    /// 1, 2, 3 …
    Counter,
    /// Random UUIDs, as strings.
    Uuid,
}

/// All settings of a connection. The specification has [a table](crate::specification#4-command-line) of the
/// three profiles.
///
/// Take a preset, and change what you need: the settings that users change most often have a method each,
/// and [`with`](Profile::with) reaches every field.
///
/// ```
/// use std::time::Duration;
/// use duet_rpc_proto::{Profile, frame::Framing, policy::BatchRule};
///
/// let profile = Profile::agent().framing(Framing::Lsp).call_timeout(Duration::from_secs(1));
/// assert_eq!(profile.batch, BatchRule::Allow);
///
/// let profile = profile.with(|it| it.limits.batch_entries = 10);
/// assert_eq!(profile.limits.batch_entries, 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// How messages are cut out of the stream.
    pub framing: FramingChoice,
    /// In which order messages are worked on.
    pub order: Order,
    /// Whether batches are served.
    pub batch: BatchRule,
    /// How requests are cancelled.
    pub dialect: Dialect,
    /// The error code that says that a capacity limit is reached.
    pub busy_code: Code,
    /// What the ids of our calls look like.
    pub ids: IdStyle,
    /// How long a frame may take from its first byte to its last; `None` for ever.
    pub read_timeout: Option<Duration>,
    /// How long a call waits for its answer, unless it says otherwise; `None` for ever.
    pub call_timeout: Option<Duration>,
    /// How long a connection that is closing waits for its running requests, and for the remote
    /// to take their answers.
    pub drain_timeout: Duration,
    /// Whether the log shows what your own `Deserialize` implementations say of a parameter that they
    /// refuse, such as the reason why a date is none. Their text may quote what the remote sent, so this is
    /// off unless you turn it on. The remote is never told.
    pub log_details: bool,
    /// What bounds memory and work.
    pub limits: Limits,
}

impl Default for Profile {
    /// The profile of agents, as every builder has it.
    fn default() -> Self {
        Profile::agent()
    }
}

impl Profile {
    /// For an editor that starts a backend: `Content-Length` headers, one message after the
    /// other, strict.
    pub fn editor() -> Profile {
        Profile {
            framing: Framing::Lsp.into(),
            order: Order::Sequential,
            batch: BatchRule::Reject,
            dialect: Dialect::Dollar,
            busy_code: Code::SERVER_BUSY,
            ids: IdStyle::Counter,
            read_timeout: Some(Duration::from_secs(30)),
            call_timeout: Some(Duration::from_secs(30)),
            // Clients kill after two seconds, so there must be some time left to leave.
            drain_timeout: Duration::from_millis(1750),
            log_details: false,
            limits: Limits { message_bytes: 10 * 1024 * 1024, in_flight: 1, ..Limits::default() },
        }
    }

    /// For a desktop shell that starts its core: a length prefix, one message after the other.
    pub fn desktop() -> Profile {
        Profile {
            framing: Framing::Length.into(),
            batch: BatchRule::Allow,
            limits: Limits { in_flight: 1, ..Limits::default() },
            ..Self::editor()
        }
    }

    /// For an agent and its tools: a message a line, requests side by side, in both directions.
    pub fn agent() -> Profile {
        Profile {
            framing: Framing::Ndjson.into(),
            order: Order::Barrier,
            limits: Limits::default(),
            ..Self::desktop()
        }
    }

    /// For a server or client of the Model Context Protocol: as [`Profile::agent`], in MCP's dialect.
    ///
    /// A capacity limit is told with [`Code::INTERNAL_ERROR`] and the reason `overloaded`: MCP assigns no
    /// new meanings from −32000 to −32019, keeps the rest of that range for itself, and its clients take
    /// −32000 for a closed connection.
    pub fn mcp() -> Profile {
        Profile {
            dialect: Dialect::Notifications,
            busy_code: Code::INTERNAL_ERROR,
            ..Self::agent()
        }
    }

    /// The same profile with a change, as one expression.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Profile)) -> Profile {
        change(&mut self);
        self
    }

    /// Sets the framing: how messages are cut out of the stream.
    #[must_use]
    pub fn framing(self, framing: impl Into<FramingChoice>) -> Profile {
        Profile { framing: framing.into(), ..self }
    }

    /// Sets the order in which messages are worked on.
    #[must_use]
    pub fn order(self, order: Order) -> Profile {
        Profile { order, ..self }
    }

    /// Sets the rule for batches.
    #[must_use]
    pub fn batch(self, batch: BatchRule) -> Profile {
        Profile { batch, ..self }
    }

    /// Sets the dialect: how requests are cancelled.
    #[must_use]
    pub fn dialect(self, dialect: Dialect) -> Profile {
        Profile { dialect, ..self }
    }

    /// Sets the style of the ids of our calls.
    #[must_use]
    pub fn ids(self, ids: IdStyle) -> Profile {
        Profile { ids, ..self }
    }

    /// Sets the time that a frame may take from its first byte to its last; `None` for ever.
    #[must_use]
    pub fn read_timeout(self, timeout: impl Into<Option<Duration>>) -> Profile {
        Profile { read_timeout: timeout.into(), ..self }
    }

    /// Sets the time that a call waits for its answer, unless it says otherwise; `None` for ever.
    #[must_use]
    pub fn call_timeout(self, timeout: impl Into<Option<Duration>>) -> Profile {
        Profile { call_timeout: timeout.into(), ..self }
    }

    /// Sets the time that a closing connection waits for its running requests, and for the remote to take
    /// their answers. On stdio more than about 1.8 s has no effect: the process exits within 2 s.
    #[must_use]
    pub fn drain_timeout(self, timeout: Duration) -> Profile {
        Profile { drain_timeout: timeout, ..self }
    }

    /// Sets the length of the longest message, in bytes of JSON: [`Limits::message_bytes`].
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Profile {
        self.limits.message_bytes = bytes;
        self
    }

    /// Sets the bound of our calls that wait for an answer: [`Limits::pending_calls`].
    #[must_use]
    pub fn max_pending_calls(mut self, calls: usize) -> Profile {
        self.limits.pending_calls = calls;
        self
    }

    /// Sets the bound of bytes that wait to be sent: [`Limits::outgoing_bytes`].
    #[must_use]
    pub fn max_outgoing_bytes(mut self, bytes: usize) -> Profile {
        self.limits.outgoing_bytes = bytes;
        self
    }

    /// Sets the bound of requests in flight: [`Limits::in_flight`]. More than one at a time turns
    /// sequential order into barrier order, because under sequential order one runs, whatever the bound is.
    #[must_use]
    pub fn max_in_flight(mut self, in_flight: usize) -> Profile {
        self.limits.in_flight = in_flight;
        if in_flight > 1 && self.order == Order::Sequential {
            self.order = Order::Barrier;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BatchRule, Dialect, IdStyle, Order, Profile};
    use crate::frame::Framing;
    use crate::message::Code;

    #[test]
    fn c3_the_profiles_are_as_the_table_says() {
        let (sequential, barrier) = (Order::Sequential, Order::Barrier);
        let (reject, allow) = (BatchRule::Reject, BatchRule::Allow);
        let rows = [
            (Profile::editor(), Framing::Lsp, sequential, reject, 10_485_760, 1),
            (Profile::desktop(), Framing::Length, sequential, allow, 1_048_576, 1),
            (Profile::agent(), Framing::Ndjson, barrier, allow, 1_048_576, 1024),
        ];
        for (profile, framing, order, batch, message_bytes, in_flight) in rows {
            assert_eq!(profile.framing, framing.into());
            assert_eq!((profile.order, profile.batch), (order, batch), "{framing:?}");
            assert_eq!(profile.limits.message_bytes, message_bytes, "{framing:?}");
            assert_eq!(profile.limits.in_flight, in_flight, "{framing:?}");
            // The same in all of them.
            assert_eq!(profile.limits.header_bytes, 8192);
            assert_eq!((profile.limits.depth, profile.limits.batch_entries), (128, 1000));
            assert_eq!(profile.limits.answered_faults, 1000);
            assert_eq!(profile.read_timeout, Some(Duration::from_secs(30)));
            assert_eq!(profile.call_timeout, Some(Duration::from_secs(30)));
            assert!(profile.drain_timeout < Duration::from_millis(1900));
            assert_eq!((profile.dialect, profile.ids), (Dialect::Dollar, IdStyle::Counter));
            assert_eq!((profile.busy_code, profile.log_details), (Code::SERVER_BUSY, false));
        }
    }

    #[test]
    fn c3_each_setter_changes_its_own_setting_alone() {
        let second = Duration::from_secs(1);
        type Row = (fn(Profile) -> Profile, fn(&mut Profile));
        let rows: [Row; 12] = [
            (|it| it.framing(Framing::Lsp), |it| it.framing = Framing::Lsp.into()),
            (|it| it.order(Order::Concurrent), |it| it.order = Order::Concurrent),
            (|it| it.batch(BatchRule::Reject), |it| it.batch = BatchRule::Reject),
            (|it| it.dialect(Dialect::None), |it| it.dialect = Dialect::None),
            (|it| it.ids(IdStyle::Uuid), |it| it.ids = IdStyle::Uuid),
            (|it| it.read_timeout(None), |it| it.read_timeout = None),
            (|it| it.call_timeout(None), |it| it.call_timeout = None),
            (|it| it.drain_timeout(Duration::ZERO), |it| it.drain_timeout = Duration::ZERO),
            (|it| it.max_message_bytes(7), |it| it.limits.message_bytes = 7),
            (|it| it.max_pending_calls(7), |it| it.limits.pending_calls = 7),
            (|it| it.max_outgoing_bytes(7), |it| it.limits.outgoing_bytes = 7),
            (|it| it.max_in_flight(7), |it| it.limits.in_flight = 7),
        ];
        for (number, (set, change)) in rows.into_iter().enumerate() {
            let changed = set(Profile::agent());
            assert_eq!(changed, Profile::agent().with(change), "{number}");
            assert_ne!(changed, Profile::agent(), "{number}");
        }
        assert_eq!(Profile::agent().call_timeout(second).call_timeout, Some(second));
        assert_eq!(Profile::agent().read_timeout(second).read_timeout, Some(second));
    }

    #[test]
    fn p3_p4_the_profile_for_mcp_is_that_for_agents_but_for_its_dialect_and_busy_code() {
        let mcp = Profile::mcp();
        assert_eq!((mcp.dialect, mcp.busy_code), (Dialect::Notifications, Code::INTERNAL_ERROR));
        let Profile { dialect, busy_code, .. } = Profile::agent();
        assert_eq!(Profile { dialect, busy_code, ..mcp }, Profile::agent());
    }

    #[test]
    fn c3_more_than_one_in_flight_turns_sequential_order_into_barrier() {
        let by_key = Profile { order: Order::ByKey, ..Profile::agent() };
        let rows = [
            (Profile::editor(), 0, Order::Sequential),
            (Profile::editor(), 1, Order::Sequential),
            (Profile::editor(), 2, Order::Barrier),
            (Profile::desktop(), 7, Order::Barrier),
            (Profile::agent(), 1, Order::Barrier),
            (by_key, 1, Order::ByKey),
            (by_key, 7, Order::ByKey),
        ];
        for (before, in_flight, order) in rows {
            let profile = before.max_in_flight(in_flight);
            assert_eq!(profile.order, order, "{:?} {in_flight}", before.order);
            assert_eq!(profile.limits.in_flight, in_flight);
        }
    }
}
