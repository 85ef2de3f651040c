//! Settings of a connection where the specification leaves a choice, and the profiles that preset
//! them.

use std::time::Duration;

use crate::frame::{Framing, FramingChoice};
use crate::limits::Limits;
use crate::message::Code;

/// Rule for arrays of messages: [M6](crate::specification#m6) of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchRule {
    /// An array is an invalid request.
    Reject,
    /// An array is a batch, as in section 6 of JSON-RPC 2.0.
    Allow,
}

/// Order in which incoming messages are handled: [L2](crate::specification#l2) of the
/// specification. Responses to our calls, and cancellations, never wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Order {
    /// One message is finished and answered before the next begins.
    Sequential,
    /// Requests run concurrently, but a notification finishes before any later message starts. So a
    /// request sees every change that was announced before it.
    Barrier,
    /// No order.
    Concurrent,
    /// Messages of the same key run in order, others concurrently. The key is a function of the
    /// method and its params, for example the URI of a document.
    ByKey,
}

/// Words for cancelling a request, and the answer to a cancelled request.
///
/// Incoming cancellations and progress are understood in the words of both dialects, whichever is
/// set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// `$/cancelRequest` with `id`, used by editors (LSP). A cancelled request is answered with
    /// −32800.
    Dollar,
    /// `notifications/cancelled` with `requestId`, used by agents and their tools (MCP). A
    /// cancelled request gets no answer.
    Notifications,
    /// We send nothing. A cancelled request is answered with −32800.
    None,
}

impl Dialect {
    /// True if a request that the remote cancelled gets an answer.
    pub fn answers_cancelled(self) -> bool {
        match self {
            Dialect::Dollar | Dialect::None => true,
            Dialect::Notifications => false,
        }
    }
}

/// Form of the ids of our calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdStyle {
    /// 1, 2, 3 …
    Counter,
    /// Random UUIDs, written as strings.
    Uuid,
}

/// All settings of a connection.
///
/// There are four presets: [`agent`](Profile::agent), [`desktop`](Profile::desktop), [`editor`](Profile::editor) and
/// [`mcp`](Profile::mcp), which is `agent` in the words of MCP. The command line has the first three, and the
/// specification has [a table](crate::specification#4-command-line) of them.
///
/// Take a preset, and change what you need. The most common settings have a method each;
/// [`with`](Profile::with) reaches every field.
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
    /// The framing: the rule that cuts messages out of the stream.
    pub framing: FramingChoice,
    /// The order in which messages are handled.
    pub order: Order,
    /// The rule for batches.
    pub batch: BatchRule,
    /// The words for cancelling a request.
    pub dialect: Dialect,
    /// The error code of requests over a capacity limit.
    pub busy_code: Code,
    /// The form of the ids of our calls.
    pub ids: IdStyle,
    /// Maximum time from the first byte of a frame to its last. `None`: no limit.
    pub read_timeout: Option<Duration>,
    /// Maximum time that a call waits for its response, unless the call sets its own. `None`: no
    /// limit.
    pub call_timeout: Option<Duration>,
    /// Maximum time that a closing connection waits for its running requests, and for the remote to
    /// take their answers.
    pub drain_timeout: Duration,
    /// The log shows the error texts of your own `Deserialize` implementations, for example the
    /// reason why a date is invalid. The texts may quote what the remote sent, so the default is
    /// off. They are never sent to the remote.
    pub log_details: bool,
    /// The limits on memory and work.
    pub limits: Limits,
}

impl Default for Profile {
    /// The profile of agents, which is also the default of every builder.
    fn default() -> Self {
        Profile::agent()
    }
}

impl Profile {
    /// For an editor that starts a backend: `Content-Length` headers, one message at a time, no
    /// batches.
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
            // Clients kill after two seconds: this leaves some time to exit.
            drain_timeout: Duration::from_millis(1750),
            log_details: false,
            limits: Limits { message_bytes: 10 * 1024 * 1024, in_flight: 1, ..Limits::default() },
        }
    }

    /// For a desktop shell that starts its core: a length prefix, one message at a time.
    pub fn desktop() -> Profile {
        Profile {
            framing: Framing::Length.into(),
            batch: BatchRule::Allow,
            limits: Limits { in_flight: 1, ..Limits::default() },
            ..Self::editor()
        }
    }

    /// For an agent and its tools: one message per line, concurrent requests in both directions.
    pub fn agent() -> Profile {
        Profile {
            framing: Framing::Ndjson.into(),
            order: Order::Barrier,
            limits: Limits::default(),
            ..Self::desktop()
        }
    }

    /// For a server or client of the Model Context Protocol: [`Profile::agent`] in MCP's dialect.
    ///
    /// A capacity limit is answered with [`Code::INTERNAL_ERROR`] and the reason `overloaded`. MCP
    /// assigns no new meanings from −32000 to −32019, keeps the rest of that range for itself, and
    /// its clients take −32000 for a closed connection.
    pub fn mcp() -> Profile {
        Profile {
            dialect: Dialect::Notifications,
            busy_code: Code::INTERNAL_ERROR,
            ..Self::agent()
        }
    }

    /// This profile with a change, as one expression.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Profile)) -> Profile {
        change(&mut self);
        self
    }

    /// Sets the framing: the rule that cuts messages out of the stream.
    #[must_use]
    pub fn framing(self, framing: impl Into<FramingChoice>) -> Profile {
        Profile { framing: framing.into(), ..self }
    }

    /// Sets the order in which messages are handled. Another order than sequential raises a limit of
    /// one request in flight to the default of 1,024, because one request alone cannot be concurrent.
    #[must_use]
    pub fn order(mut self, order: Order) -> Profile {
        self.order = order;
        if order != Order::Sequential && self.limits.in_flight <= 1 {
            self.limits.in_flight = Limits::default().in_flight;
        }
        self
    }

    /// Sets the rule for batches.
    #[must_use]
    pub fn batch(self, batch: BatchRule) -> Profile {
        Profile { batch, ..self }
    }

    /// Sets the dialect: the words for cancelling a request.
    #[must_use]
    pub fn dialect(self, dialect: Dialect) -> Profile {
        Profile { dialect, ..self }
    }

    /// Sets the form of the ids of our calls.
    #[must_use]
    pub fn ids(self, ids: IdStyle) -> Profile {
        Profile { ids, ..self }
    }

    /// Sets the maximum time from the first byte of a frame to its last. `None`: no limit.
    #[must_use]
    pub fn read_timeout(self, timeout: impl Into<Option<Duration>>) -> Profile {
        Profile { read_timeout: timeout.into(), ..self }
    }

    /// Sets the maximum time that a call waits for its response, unless the call sets its own.
    /// `None`: no limit.
    #[must_use]
    pub fn call_timeout(self, timeout: impl Into<Option<Duration>>) -> Profile {
        Profile { call_timeout: timeout.into(), ..self }
    }

    /// Sets the maximum time that a closing connection waits for its running requests, and for the
    /// remote to take their answers. On stdio, more than about 1.8 s has no effect: the process
    /// exits within 2 s.
    #[must_use]
    pub fn drain_timeout(self, timeout: Duration) -> Profile {
        Profile { drain_timeout: timeout, ..self }
    }

    /// Sets the maximum length of a message, in bytes of JSON: [`Limits::message_bytes`].
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Profile {
        self.limits.message_bytes = bytes;
        self
    }

    /// Sets the maximum number of our pending calls: [`Limits::pending_calls`].
    #[must_use]
    pub fn max_pending_calls(mut self, calls: usize) -> Profile {
        self.limits.pending_calls = calls;
        self
    }

    /// Sets the maximum number of bytes that wait to be sent: [`Limits::outgoing_bytes`].
    #[must_use]
    pub fn max_outgoing_bytes(mut self, bytes: usize) -> Profile {
        self.limits.outgoing_bytes = bytes;
        self
    }

    /// Sets the maximum number of requests in flight: [`Limits::in_flight`]. More than one turns
    /// sequential order into barrier order, because sequential order always runs one request at a
    /// time.
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
    fn c3_profiles_match_the_table_of_the_specification() {
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
            // All profiles agree on these.
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
    fn p3_p4_the_mcp_profile_differs_from_agent_in_dialect_and_busy_code() {
        let mcp = Profile::mcp();
        assert_eq!((mcp.dialect, mcp.busy_code), (Dialect::Notifications, Code::INTERNAL_ERROR));
        let Profile { dialect, busy_code, .. } = Profile::agent();
        assert_eq!(Profile { dialect, busy_code, ..mcp }, Profile::agent());
    }

    #[test]
    fn c3_an_order_other_than_sequential_raises_a_limit_of_one_request() {
        let editor = Profile::editor();
        for order in [Order::Barrier, Order::ByKey, Order::Concurrent] {
            assert_eq!(editor.order(order).limits.in_flight, 1024, "{order:?}");
            assert_eq!(editor.max_in_flight(7).order(order).limits.in_flight, 7, "{order:?}");
            assert_eq!(editor.order(order).max_in_flight(1).limits.in_flight, 1, "{order:?}");
        }
        assert_eq!(editor.order(Order::Sequential).limits.in_flight, 1);
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
