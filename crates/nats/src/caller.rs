//! Transport of a caller: a connection to a service, whichever worker answers (N3 to N9).
//!
//! It is a transport like any other, so a [`Peer`](duet_rpc::Peer) on it calls, notifies, cancels and serves as on a
//! socket, and a bridge passes messages through it. `calls.rs` has the state of each call, and `callbacks.rs` the calls
//! of workers; this file sends and receives.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use async_nats::message::OutboundMessage;
use async_nats::{Client, HeaderMap, Message, StatusCode, Subject, Subscriber};
use bytes::Bytes;
use duet_rpc::proto::message::{ErrorObject, Reason};
use duet_rpc::proto::text::Text;
use duet_rpc::transport::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};
use duet_rpc::{Error, Id, Limits, Profile};
use futures_util::StreamExt;
use tokio::time::{Sleep, sleep, timeout};

use crate::broker::{Broker, broken};
use crate::callbacks::Callbacks;
use crate::calls::{CallFailure, Calls, Delivery, Ids, Reply, Step};
use crate::message::{self, Batch, Outgoing};
use crate::publisher::{Publisher, Unsent};
use crate::{callbacks, header, subject};

/// The time between two checks for silent workers.
const CHECK: Duration = Duration::from_millis(100);

/// Messages that one turn receives.
const TURN: usize = 64;

/// Subjects of methods that are remembered.
const SUBJECTS: usize = 1024;

/// Maximum number of answers to texts that are not messages, while the peer does not take them.
const MOST_REFUSED: usize = 1024;

/// Time for the broker to take the last messages.
const LAST_FLUSH: Duration = Duration::from_secs(1);

/// A connection to a service behind a broker, made by [`NatsPeer::transport`](crate::NatsPeer::transport). Each
/// message goes to one of the workers of the service.
pub struct NatsTransport {
    client: Arc<Client>,
    publisher: Publisher,
    service: String,
    /// The subject of our inbox, without its last two tokens.
    inbox: String,
    arriving: Subscriber,
    subjects: HashMap<String, Subject>,
    idempotent: HashSet<String>,
    deadline: Option<Duration>,
    trace_context: Option<String>,
    calls: Calls,
    callbacks: Callbacks,
    /// Our own messages: cancellations, repeated deliveries, refusals.
    unsent: VecDeque<Queued>,
    /// A buffer for subjects.
    scratch: String,
    failed: VecDeque<(Id, io::Error)>,
    /// Our answers to texts of the peer that are not messages.
    refused: VecDeque<Vec<u8>>,
    timer: Pin<Box<Sleep>>,
    is_timing: bool,
    flushing: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl NatsTransport {
    pub(crate) async fn open(broker: &Broker, service: &str) -> Result<Self, Error> {
        if !subject::is_service(service) {
            let why = "the name of a service has letters, digits, - and _, and nothing else";
            return Err(broken(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let client = Arc::new(broker.client.clone());
        let inbox = client.new_inbox();
        let arriving = client.subscribe(subject::of_caller(&inbox)).await.map_err(broken)?;
        Ok(NatsTransport {
            publisher: Publisher::new(Arc::clone(&client)),
            client,
            service: service.to_owned(),
            inbox,
            arriving,
            subjects: HashMap::new(),
            idempotent: HashSet::new(),
            deadline: None,
            trace_context: None,
            calls: Calls::default(),
            callbacks: Callbacks::default(),
            unsent: VecDeque::new(),
            scratch: String::new(),
            failed: VecDeque::new(),
            refused: VecDeque::new(),
            timer: Box::pin(sleep(CHECK)),
            is_timing: false,
            flushing: None,
        })
    }

    /// Sends this W3C trace context, the value of a `traceparent`, with each message. Handlers of a worker read it with
    /// [`Remote::trace_context`](duet_rpc::Remote::trace_context).
    #[must_use]
    pub fn trace_context(mut self, traceparent: &str) -> Self {
        // A header is one line.
        let plain = |character: char| if character.is_control() { ' ' } else { character };
        self.trace_context = Some(traceparent.chars().map(plain).collect());
        self
    }

    /// Marks methods as idempotent: calling one twice does no harm. If the worker of such a call dies, the call goes to
    /// another worker, at most twice. All other calls then fail with
    /// [`Interrupted`](duet_rpc::ErrorKind::Interrupted).
    ///
    /// A client of `#[service]` knows them:
    ///
    /// ```no_run
    /// # #[duet_rpc::service]
    /// # trait Store { #[rpc(idempotent)] async fn read(&self, key: String) -> Option<String>; }
    /// # async fn example(nats: duet_rpc_nats::NatsPeer) -> Result<(), duet_rpc::Error> {
    /// let methods = StoreClient::METHODS.iter().filter(|method| method.is_idempotent);
    /// let store = nats.transport("store").await?.idempotent(methods.map(|method| method.name));
    /// let store = StoreClient::new(duet_rpc::Peer::builder(store).spawn());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn idempotent<M: Into<String>>(mut self, methods: impl IntoIterator<Item = M>) -> Self {
        self.idempotent.extend(methods.into_iter().map(Into::into));
        self
    }

    /// Sets the longest time of requests without a timeout of their own, such as those that a bridge passes on. After it,
    /// the worker drops the handler, even if no cancellation arrives. Calls of a peer carry their timeout. Default: none.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    fn subject_of(&mut self, method: &str) -> Subject {
        if let Some(subject) = self.subjects.get(method) {
            return subject.clone();
        }
        let subject = Subject::from(subject::of_method(&self.service, method));
        if self.subjects.len() < SUBJECTS {
            self.subjects.insert(method.to_owned(), subject.clone());
        }
        subject
    }

    // ---- receiving

    fn handle(&mut self, message: Message, inbox: &mut Inbox) -> io::Result<bool> {
        let Some(number) = subject::number(&message.subject) else {
            if subject::is_callback(&message.subject) {
                return self.handle_callback(message, inbox);
            }
            tracing::debug!(subject = %message.subject, "message to an unknown subject dropped");
            return Ok(false);
        };
        let reply = match &message {
            it if it.status == Some(StatusCode::NO_RESPONDERS) => Reply::NoWorker,
            Message { headers: None, payload, .. } => Reply::Answer(payload.clone()),
            Message { headers, reply: Some(worker), .. }
                if header::value(headers.as_ref(), header::ACCEPTED).is_some() =>
            {
                Reply::Sign(worker.clone())
            }
            Message { headers, .. } => match header::value(headers.as_ref(), header::BUSY) {
                Some(_) => Reply::Busy(message.payload.clone()),
                None => Reply::Answer(message.payload.clone()),
            },
        };
        if number == subject::NOTIFICATION {
            tracing::warn!(service = self.service, "notification not delivered: no worker");
            return Ok(false);
        }
        match self.calls.handle(number, reply, inbox.limits(), Instant::now()) {
            Step::PassOn(answer) => inbox.push(&answer).map(|()| true),
            step => {
                self.take(step);
                Ok(false)
            }
        }
    }

    /// A request, notification or cancellation of a worker. Everything else is dropped: an answer would settle a call
    /// whose real answer is still to come.
    fn handle_callback(&mut self, message: Message, inbox: &mut Inbox) -> io::Result<bool> {
        let changed = match (message::classify(&message.payload), message.reply) {
            (Outgoing::Notification { .. }, _) => None,
            (Outgoing::Request { id, .. }, Some(worker)) => {
                let (calls, now) = (&self.calls, Instant::now());
                let begun =
                    self.callbacks.begin(worker.clone(), id.clone(), now, || calls.workers());
                let Some(own) = begun else {
                    let limit = callbacks::MOST as u64;
                    let error = ErrorObject::server_busy(Profile::agent().busy_code, limit);
                    self.refuse_callback(worker, &id, &error);
                    return Ok(false);
                };
                message::with_id(&message.payload, &own)
            }
            (Outgoing::Cancellation(id), Some(worker)) => {
                let Some(own) = self.callbacks.cancel(&worker, &id) else { return Ok(false) };
                Some(message::cancellation(&own))
            }
            _ => {
                tracing::debug!("message of a worker dropped: it is not a call");
                return Ok(false);
            }
        };
        let text = changed.as_deref().unwrap_or(&message.payload);
        if fits(text, inbox.limits()) {
            return inbox.push(text).map(|()| true);
        }
        // The peer would answer without the id, and the handler would wait on.
        if let Outgoing::Request { id: own, .. } = message::classify(text)
            && let Some((worker, id)) = self.callbacks.answer(&own)
        {
            let error = ErrorObject::invalid_request_because(Reason::Oversize);
            self.refuse_callback(worker, &id, &error);
        }
        Ok(false)
    }

    /// Answers a request of a worker with an error.
    fn refuse_callback(&mut self, worker: Subject, id: &Id, error: &ErrorObject) {
        self.publish(worker, message::refusal(id, error).into());
    }

    // ---- sending

    /// Does what the state of a call asks for.
    fn take(&mut self, step: Step) {
        match step {
            Step::Nothing | Step::PassOn(_) => {}
            Step::Again(number, delivery) => self.deliver(number, delivery, Instant::now()),
            Step::Cancel(subject) => self.cancel(subject, Bytes::new()),
            Step::CancelSome(subject, ids) => {
                for id in &ids {
                    self.cancel(subject.clone(), message::cancellation(id).into());
                }
            }
            Step::Fail(ids, failure) => {
                for id in ids.as_slice() {
                    self.failed.push_back((id.clone(), failure.into_error(&self.service)));
                }
            }
        }
    }

    fn cancel(&mut self, subject: Subject, payload: Bytes) {
        let (reply, kind) = (None, QueuedKind::Cancellation);
        self.unsent.push_back(Queued { subject, reply, payload, kind });
    }

    fn publish(&mut self, subject: Subject, payload: Bytes) {
        let (reply, kind) = (None, QueuedKind::Answer);
        self.unsent.push_back(Queued { subject, reply, payload, kind });
    }

    fn deliver(&mut self, number: u64, delivery: Delivery, now: Instant) {
        let Delivery { subject, payload, deadline } = delivery;
        let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
        // A new string would grow step by step.
        subject::write_reply(&mut self.scratch, &self.inbox, left, number);
        let reply = Some(Subject::from(&*self.scratch));
        self.unsent.push_back(Queued { subject, reply, payload, kind: QueuedKind::Call });
    }

    fn call(&mut self, ids: Ids, subject: Subject, message: &Outbound<'_>, is_idempotent: bool) {
        let (now, payload) = (Instant::now(), Bytes::copy_from_slice(message.text));
        let longest = || self.deadline.and_then(|longest| now.checked_add(longest));
        let deadline = message.deadline.or_else(longest);
        let delivery = Delivery { subject, payload, deadline };
        let call = self.calls.begin(ids, delivery.clone(), is_idempotent, now);
        self.deliver(call, delivery, now);
    }

    /// Puts a message of the peer on its way.
    fn send(&mut self, message: &Outbound<'_>) {
        match message::classify(message.text) {
            Outgoing::Request { id, method } => {
                let subject = self.subject_of(&method);
                let is_idempotent = self.idempotent.contains(&*method);
                self.call(Ids::One(id), subject, message, is_idempotent);
            }
            Outgoing::Batch(batch) => self.send_batch(batch, message),
            Outgoing::Notification { method } => {
                let subject = self.subject_of(&method);
                let payload = Bytes::copy_from_slice(message.text);
                let delivery = Delivery { subject, payload, deadline: None };
                self.deliver(subject::NOTIFICATION, delivery, Instant::now());
            }
            Outgoing::Cancellation(id) => {
                let step = self.calls.cancel(&id);
                self.take(step);
            }
            Outgoing::Answer(own) => match self.callbacks.answer(&own) {
                Some((worker, id)) => {
                    let answer = message::with_id(message.text, &id);
                    self.publish(worker, answer.unwrap_or_else(|| message.text.to_vec()).into());
                }
                None => tracing::debug!("answer dropped: no worker waits for it"),
            },
            Outgoing::Invalid(answer) if self.refused.len() < MOST_REFUSED => {
                self.refused.push_back(answer);
            }
            Outgoing::Invalid(_) => tracing::debug!("text dropped: it is not a message"),
            Outgoing::Unusable => tracing::debug!("answer dropped: it is malformed"),
        }
    }

    /// Puts a batch of the peer on its way. Its answers and cancellations concern other requests, maybe at other workers.
    fn send_batch(&mut self, batch: Batch<'_>, message: &Outbound<'_>) {
        let deadline = message.deadline;
        for entry in &batch.apart {
            self.send(&Outbound { text: entry.as_bytes(), deadline });
        }
        let subject = subject::of_batch(&self.service).into();
        let ids = Ids::Many(batch.ids);
        if batch.apart.is_empty() {
            self.call(ids, subject, message, false);
        } else if !batch.work.is_empty() {
            let text = format!("[{}]", batch.work.join(","));
            self.call(ids, subject, &Outbound { text: text.as_bytes(), deadline }, false);
        }
    }

    /// Hands our messages to the client, while it has room.
    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.publisher.poll_ready(cx))?;
            let Some(message) = self.unsent.pop_front() else { return Poll::Ready(Ok(())) };
            let headers = || message.headers(self.trace_context.as_deref());
            match self.publisher.send(cx, || message.to_outbound(headers())) {
                Poll::Ready(Err(Unsent::TooLarge { size, limit })) => {
                    self.refuse(&message, CallFailure::Oversize { size, limit });
                }
                Poll::Ready(Err(Unsent::LongSubject { size, limit })) => {
                    self.refuse(&message, CallFailure::LongSubject { size, limit });
                }
                Poll::Ready(Err(unsent)) => return Poll::Ready(Err(unsent.into())),
                // A message that waits for room is sent with the next `poll_ready`.
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
    }

    /// The broker would not take a message.
    fn refuse(&mut self, message: &Queued, failure: CallFailure) {
        if let Some(number @ 1..) = message.reply.as_deref().and_then(subject::number) {
            let step = self.calls.refuse(number, failure);
            return self.take(step);
        }
        let error = failure.into_error(&self.service);
        tracing::warn!(%error, "message dropped");
        // The handler at the worker would wait. A refusal that is too large itself is not refused again.
        if let (QueuedKind::Answer, CallFailure::Oversize { size, limit }) =
            (&message.kind, failure)
            && let Outgoing::Answer(id) = message::classify(&message.payload)
            && size > message::MOST_REFUSAL + id.as_raw().len()
        {
            let error = message::answer_too_large(size, limit);
            self.refuse_callback(message.subject.clone(), &id, &error);
        }
    }

    /// Fails the calls of silent workers. The timer runs on for a moment after the last call, because setting it for each
    /// call would cost more than the call.
    fn poll_silence(&mut self, cx: &mut Context<'_>) {
        if !self.is_timing {
            if self.calls.is_empty() {
                return;
            }
            self.is_timing = true;
            self.timer.as_mut().reset(tokio::time::Instant::now() + CHECK);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            self.is_timing = !self.calls.is_empty();
            if !self.is_timing {
                return;
            }
            self.timer.as_mut().reset(tokio::time::Instant::now() + CHECK);
            for step in self.calls.expire(Instant::now()) {
                self.take(step);
            }
        }
    }
}

/// Returns `true` if the peer takes this message.
fn fits(text: &[u8], limits: &Limits) -> bool {
    text.len() <= limits.message_bytes && Text::check(text, limits.depth).is_ok()
}

/// A message of the peer, and the time at which its caller gives up.
struct Outbound<'a> {
    text: &'a [u8],
    deadline: Option<Instant>,
}

/// A message that waits for room. Its headers are made when it leaves.
struct Queued {
    subject: Subject,
    reply: Option<Subject>,
    payload: Bytes,
    kind: QueuedKind,
}

enum QueuedKind {
    /// A request, batch or notification for a worker.
    Call,
    Cancellation,
    /// The answer to a call of a worker.
    Answer,
}

impl Queued {
    fn headers(&self, trace_context: Option<&str>) -> Option<HeaderMap> {
        match self.kind {
            QueuedKind::Answer => None,
            QueuedKind::Cancellation => Some(header::one(header::CANCEL, "1")),
            QueuedKind::Call => trace_context.map(|trace| header::one(header::TRACE, trace)),
        }
    }

    fn to_outbound(&self, headers: Option<HeaderMap>) -> OutboundMessage {
        let Queued { subject, reply, payload, .. } = self;
        let (subject, reply, payload) = (subject.clone(), reply.clone(), payload.clone());
        OutboundMessage { subject, reply, payload, headers }
    }
}

impl Transport for NatsTransport {
    fn kind(&self) -> TransportKind {
        TransportKind::Messages
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        let (mut has_data, waiting) = (false, self.unsent.len());
        for _ in 0..TURN {
            match self.arriving.poll_next_unpin(cx) {
                Poll::Ready(Some(message)) => has_data |= self.handle(message, inbox)?,
                Poll::Ready(None) => {
                    let why = "the connection to the broker is closed";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, why)));
                }
                Poll::Pending => break,
            }
        }
        self.poll_silence(cx);
        while let Some((id, error)) = self.failed.pop_front() {
            inbox.fail_call(id, error)?;
            has_data = true;
        }
        while let Some(answer) = self.refused.pop_front() {
            inbox.push(&answer)?;
            has_data = true;
        }
        match has_data {
            true => Poll::Ready(Ok(Received::Data)),
            // There is something to send.
            false if self.unsent.len() > waiting => Poll::Ready(Ok(Received::Drained)),
            false => Poll::Pending,
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        loop {
            if self.poll_unsent(cx)?.is_pending() {
                return Poll::Pending;
            }
            let Some(text) = outbox.message() else { break };
            self.send(&Outbound { text, deadline: outbox.deadline() });
            outbox.pop();
        }
        while let Some(id) = outbox.next_abandoned() {
            let step = self.calls.abandon(&id);
            self.take(step);
        }
        self.poll_silence(cx);
        let sent = self.poll_unsent(cx);
        if !self.failed.is_empty() || !self.refused.is_empty() {
            // Receive again, to report it.
            cx.waker().wake_by_ref();
        }
        sent
    }

    /// The client of the broker sends, in a task of its own.
    fn sends_inline(&self) -> bool {
        true
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        for worker in self.calls.abandon_all() {
            self.take(Step::Cancel(worker));
        }
        // If there is no room, or no broker, the workers notice that nobody takes their signs.
        let _ = self.poll_unsent(cx);
        let client = Arc::clone(&self.client);
        let flushing = self.flushing.get_or_insert_with(|| {
            Box::pin(async move {
                // Without the broker, nothing can be done for the last messages.
                let _ = timeout(LAST_FLUSH, client.flush()).await;
            })
        });
        flushing.as_mut().poll(cx).map(|()| ExitReport::default())
    }
}

impl fmt::Debug for NatsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("NatsTransport");
        shown.field("service", &self.service).finish_non_exhaustive()
    }
}
