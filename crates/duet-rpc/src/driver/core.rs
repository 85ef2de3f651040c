//! The session, its handlers and what is to be sent: everything of a driver but the input.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use duet_rpc_proto::fault::Fault;
use duet_rpc_proto::frame::Framing;
use duet_rpc_proto::message::{Batch, Id, Incoming, Subject};
use duet_rpc_proto::notice::Notice;
#[cfg(unix)]
use duet_rpc_proto::session::Phase;
use duet_rpc_proto::session::{BatchKey, Handled, Session};
use duet_rpc_proto::text::Text;
use tokio::runtime::RuntimeFlavor;

use super::in_place::settle;
use super::records;
use super::tasks::{Tasks, Threads};
use super::uncorrelated::Uncorrelated;
use crate::budget::STALLED;
use crate::extensions::Extensions;
use crate::handler::Shelf;
use crate::peer::Handle;
use crate::router::{Entry, Router};
use crate::send_queue::Ticket;
use crate::shared::{Caller, Post, Shared};
use crate::state::{ConnectionState, Disconnect};
use crate::transport::{Outbox, Transport, TransportKind};

/// What the refusal of a request takes, at most. As long as an answer that we need may stand behind
/// what comes, requests are refused and not left unread, however much waits to be sent; so what
/// waits may grow by a refusal for each call that a remote with our limits can have pending. One
/// that goes beyond is not read any more, whatever stands behind.
///
/// Only refusals count, as they alone are caused by reading. Were the results of handlers counted
/// too, then two peers that have much to tell each other would both stop to read, and for ever.
const REFUSAL: usize = 128;

/// A turn that takes longer than this may have a handler in it that is not quick.
const LONG_TURN: Duration = Duration::from_millis(1);

/// For so many turns after one that took long, every handler is watched.
const WATCHFUL: u8 = 255;

pub(super) struct Core {
    pub(super) transport: Box<dyn Transport>,
    pub(super) outbox: Outbox,
    pub(super) session: Session<Caller>,
    pub(super) shared: Arc<Shared>,
    /// The input has ended: there is nothing more to read.
    pub(super) input_ended: bool,
    /// How the remote has ended its output, if it has.
    pub(super) remote_end: Option<Disconnect>,
    /// Whether all has left that was to be sent, also from a buffer that the transport may have.
    pub(super) has_sent_all: bool,
    /// Whether the transport leaves all that is said to us.
    pub(super) carries_bytes: bool,
    /// Whether the transport waits to hear whether there will be an answer.
    pub(super) is_exchange: bool,
    /// What handlers keep for the request that an exchange is about; see [`Core::begin_exchange`].
    pub(super) request: Option<Arc<Extensions>>,
    /// Whether the framing is still to be found out.
    pub(super) framing_is_open: bool,
    pub(super) router: Router,
    /// The method that was called last.
    pub(super) latest: Option<Arc<Entry>>,
    /// What each handler keeps here, by its index.
    pub(super) shelves: Vec<Shelf>,
    pub(super) handle: Weak<Handle>,
    pub(super) tasks: Tasks,
    pub(super) threads: Threads,
    pub(super) posts: Vec<Post>,
    /// The pending calls whose messages still wait for room.
    pub(super) unsent_calls: HashMap<Id, Ticket>,
    /// Which call an error response with `id: null` may be about.
    pub(super) uncorrelated: Uncorrelated,
    /// How many bytes of refusals were added since there was room the last time.
    pub(super) refusals: usize,
    /// Past so many bytes of refusals nothing is read.
    pub(super) most_refusals: usize,
    /// How many bytes of answers to batches the budget has counted.
    pub(super) batch_bytes: usize,
    /// Whether events wait in a stream.
    pub(super) has_events: bool,
    /// Whether events went before messages when both waited for room the last time.
    pub(super) events_go_first: bool,
    /// Which stream of events is next.
    pub(super) next_stream: usize,
    /// Since when the remote has read nothing, if something waits and others wait for that memory.
    pub(super) stall: Option<Stall>,
    pub(super) has_begun: bool,
    pub(super) tally: Tally,
    /// For so many turns every handler that runs in place is watched, and not only the first.
    pub(super) watchful: u8,
    /// A method runs for the first time, on another thread. Until its first poll is over, or this
    /// time has come, nothing more is begun: a burst of a method that turns out to be quick would
    /// fill the pool, and what is beyond the in-flight limit would be refused.
    pub(super) trial: Option<Instant>,
}

/// A remote that takes nothing of what waits to be sent.
pub(super) struct Stall {
    /// The signs of reading that there were.
    signs: u64,
    /// When to look again.
    pub(super) until: Instant,
}

/// What has passed so far.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) messages: u64,
    /// Faults, and messages that are none.
    pub(super) faults: u64,
    pub(super) bytes_received: u64,
}

impl Core {
    pub(super) fn new(
        transport: Box<dyn Transport>,
        router: Router,
        shared: Arc<Shared>,
        handle: Weak<Handle>,
        framing: Option<Framing>,
    ) -> Self {
        let mut session = Session::new(&shared.profile);
        if let Some(lane_of) = router.lane_of() {
            session.set_lanes(lane_of);
        }
        let routes = router.clone();
        session.set_closing(Arc::new(move |method| routes.closes(method)));
        if shared.budget.is_shared() {
            let budget = Arc::clone(&shared.budget);
            session.set_others_fill_batches(Arc::new(move || budget.is_full_of_batches()));
        }
        // One that makes no calls must read all the same.
        let most_refusals = shared.profile.limits.pending_calls.max(1).saturating_mul(REFUSAL);
        let carries_bytes = transport.kind() == TransportKind::Bytes;
        let framing_is_open = carries_bytes && framing.is_none();
        let outbox = match transport.kind() {
            TransportKind::WebSocket(role) => Outbox::for_web_socket(role),
            // A message that is sent before the framing is detected is understood by most clients
            // with headers.
            TransportKind::Bytes => Outbox::new(Some(framing.unwrap_or(Framing::Lsp))),
            TransportKind::Messages => Outbox::new(None),
        };
        let is_exchange = !transport.has_way_back();
        Core {
            transport,
            outbox,
            session,
            shared,
            input_ended: false,
            remote_end: None,
            has_sent_all: true,
            carries_bytes,
            is_exchange,
            request: None,
            framing_is_open,
            router,
            latest: None,
            shelves: Vec::new(),
            handle,
            tasks: Tasks::default(),
            threads: Threads::None,
            posts: Vec::new(),
            unsent_calls: HashMap::new(),
            uncorrelated: Uncorrelated::default(),
            refusals: 0,
            most_refusals,
            batch_bytes: 0,
            has_events: false,
            events_go_first: false,
            next_stream: 0,
            stall: None,
            has_begun: false,
            tally: Tally::default(),
            watchful: 0,
            trial: None,
        }
    }

    pub(super) fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            let runtime = tokio::runtime::Handle::current();
            if self.threads.is_none() && runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
                self.threads = Threads::OfProcess;
            }
            self.shared.state.send_replace(ConnectionState::Connected);
        }
    }

    /// A turn took so long. If that was a handler, it is to be found out the next time, whatever
    /// stands before it.
    pub(super) fn note_turn(&mut self, took: Duration) {
        self.watchful = match took >= LONG_TURN {
            true => WATCHFUL,
            false => self.watchful.saturating_sub(1),
        };
    }

    #[cfg(unix)]
    pub(super) fn is_calm(&self) -> bool {
        self.session.phase() == Phase::Open
            && self.session.running() + self.session.waiting() == 0
            && self.tasks.is_empty()
            && self.outbox.is_empty()
            && self.has_sent_all
            && !self.input_ended
            && self.takes_messages()
    }

    // ---- what comes in

    /// Whether another message can be handled now.
    #[inline]
    pub(super) fn takes_messages(&self) -> bool {
        self.session.wants_input() && self.refusals < self.most_refusals && self.trial.is_none()
    }

    /// Whether no further request may begin for now.
    #[inline]
    fn must_hold(&self) -> bool {
        self.is_crowded() || self.trial.is_some()
    }

    /// Whether no more should be sent than must be.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        let outgoing = self.outbox.len();
        outgoing >= self.shared.profile.limits.outgoing_bytes
            || (outgoing > 0 && self.shared.budget.is_spent_by_many())
    }

    /// Something was refused, perhaps, when so much waited to be sent before.
    #[inline]
    fn note_refusal(&mut self, before: usize) {
        if before >= self.shared.profile.limits.outgoing_bytes {
            self.refusals += self.outbox.len().saturating_sub(before);
        }
    }

    pub(super) fn handle_fault(&mut self, fault: &Fault<'_>, now: Instant) {
        self.tally.faults += 1;
        self.note_unusable_bytes(fault);
        let before = self.outbox.len();
        let handled = self.session.handle_fault(fault, now, &mut self.outbox);
        self.note_refusal(before);
        match handled {
            Handled::Refused(_) => records::fault(fault),
            Handled::Notice(notice) => records::notice(notice, &Subject::default()),
            _ => {}
        }
    }

    pub(super) fn handle_batch(
        &mut self,
        mut entries: Batch<'_>,
        cx: &mut TaskContext<'_>,
        now: Instant,
    ) {
        let batch = self.session.begin_batch();
        while let Some((text, message)) = entries.next_entry() {
            self.handle(message, &text, Some(batch), cx, now);
        }
        let before = self.outbox.len();
        self.session.end_batch(batch, &mut self.outbox);
        self.note_refusal(before);
    }

    #[inline]
    pub(super) fn handle(
        &mut self,
        message: Incoming<'_>,
        text: &Text<'_>,
        batch: Option<BatchKey>,
        cx: &mut TaskContext<'_>,
        now: Instant,
    ) {
        self.tally.messages += 1;
        if matches!(message, Incoming::Invalid(_) | Incoming::Stray(_)) {
            self.tally.faults += 1;
            self.note_unusable(&message, text);
        }
        if let Incoming::Response(response) = &message
            && response.id.is_null()
            && let Some(error) = response.settled.error()
        {
            self.handle_uncorrelated(error);
        }
        self.session.hold(self.must_hold());
        let before = self.outbox.len();
        let handled = self.session.handle(message, batch, now, &mut self.outbox);
        self.note_refusal(before);
        match handled {
            Handled::Start { job, method, params } => self.start(job, &method, &params, cx),
            Handled::Waits { key, method } => {
                if self.router.closes(&method) {
                    self.close(key);
                }
            }
            Handled::Done => {}
            Handled::Refused(reply) => records::refused(&reply.error, &Subject::of(text)),
            Handled::Settled { id, caller, settled } => settle(&id, caller, settled),
            Handled::Stop(key) => {
                let (origin, id) = (self.tasks.stop(key), self.session.id_of(key));
                let dialect = self.shared.profile.dialect;
                records::cancelled(origin.map(|origin| &*origin.entry.name), id, dialect);
            }
            Handled::Cancelled(id) => {
                records::cancelled(None, id.as_ref(), self.shared.profile.dialect);
            }
            Handled::Notice(notice @ Notice::Muted(_)) => {
                records::notice(notice, &Subject::default());
            }
            Handled::Notice(notice) => records::notice(notice, &Subject::of(text)),
        }
        // A cancellation may have let others through.
        self.begin_ready(cx);
    }

    /// Begins the messages whose turn has come.
    pub(super) fn begin_ready(&mut self, cx: &mut TaskContext<'_>) {
        while let Some((job, message)) = self.session.next_ready(&mut self.outbox) {
            self.start(job, message.method(), &message.params(), cx);
            self.session.hold(self.must_hold());
        }
    }

    /// Gives back what is kept only to be quick, for a connection that has gone quiet.
    #[cold]
    pub(super) fn rest(&mut self) {
        self.outbox.shrink();
        self.shelves = Vec::new();
        self.posts = Vec::new();
    }

    // ---- what goes out

    /// Tells the transport, if it wants to know, that nothing more will be answered.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.is_exchange
            && self.outbox.is_empty()
            && self.session.is_idle()
            && !self.shared.has_mail()
        {
            self.end_exchange();
            self.transport.handle_settled();
            self.has_sent_all = false;
        }
    }

    /// Sends what waits.
    pub(super) fn flush(&mut self, cx: &mut TaskContext<'_>, now: Instant) -> std::io::Result<()> {
        if !self.outbox.is_empty() || !self.has_sent_all {
            self.send(cx, now)?;
        }
        self.session.hold(self.must_hold());
        if !self.is_crowded() {
            self.refusals = 0;
        }
        Ok(())
    }

    /// Hands to the transport what it takes.
    pub(super) fn send(&mut self, cx: &mut TaskContext<'_>, now: Instant) -> std::io::Result<()> {
        let signs = self.outbox.signs();
        let sent = self.transport.poll_send(cx, &mut self.outbox);
        self.has_sent_all = sent.is_ready();
        if self.outbox.signs() != signs {
            self.session.handle_progress(now);
        }
        match sent {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }

    /// The end of a connection whose remote has read nothing for a while, if others wait for the memory
    /// that this takes.
    pub(super) fn check_stall(&mut self, now: Instant) -> Option<io::Error> {
        if self.outbox.is_empty() {
            self.stall = None;
            return None;
        }
        if !self.shared.budget.is_shared() {
            return None;
        }
        let signs = self.outbox.signs();
        match &mut self.stall {
            Some(stall) if stall.signs == signs && stall.until > now => {}
            Some(stall) if stall.signs == signs && self.shared.budget.is_spent_by_many() => {
                let bytes = self.outbox.len();
                records::stalled(bytes, STALLED);
                return Some(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the remote reads nothing, and the memory for answers is used up",
                ));
            }
            stall => *stall = Some(Stall { signs, until: now + STALLED }),
        }
        None
    }
}
