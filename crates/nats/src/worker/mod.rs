//! `Worker`: serves a router to the callers of a service (N3 to N10).
//!
//! ```text
//!            rpc.math.*, queue group                                INBOX.*, this worker alone
//!   callers ─────────────────────▶ one of the workers ◀────────────────────────── cancellations, answers
//!                                        │ accept: a transport for each request, up to the limit; busy beyond it
//!                                        ▼
//!                                  Hub ─▶ a peer for each request ─▶ handler
//! ```
//!
//! The loop reads eagerly and never waits for a handler, because async-nats drops messages that nobody reads. It begins
//! each request itself. A request whose handler does not wait is answered then, and costs no task, no timer and no entry
//! in a table. `methods.rs` has the exception: handlers that compute for long get a task, so that all processors help.

mod discovery;
mod methods;
mod request;
mod running;
mod stats;

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use async_nats::message::OutboundMessage;
use async_nats::{Client, ConnectOptions, Message, StatusCode, Subject, Subscriber};
use bytes::Bytes;
use duet_rpc::proto::message::ErrorObject;
use duet_rpc::{Error, Hub, Profile, Router};
use futures_util::StreamExt;
use tokio::task::coop::unconstrained;
use tokio::time::{Sleep, sleep_until, timeout};

use self::discovery::Description;
use self::methods::Method;
use self::request::{RequestTransport, refuse};
use self::running::{Agenda, Request, Running};
use crate::broker::{Broker, broken};
use crate::message::{self, Outgoing};
use crate::publisher::{Publisher, Unsent};
use crate::{header, subject};

/// The queue group of all workers.
const QUEUE: &str = "duet-rpc";

/// Default maximum number of requests at the same time.
const MOST: usize = 1024;

/// Time for the broker to confirm the subscriptions.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(10);

/// Requests that begin before other tasks of the thread run.
const TURN: usize = 64;

/// Time for the broker to send what it sent before the end of the subscription, and later to take the last answers.
const ENDED_WITHIN: Duration = Duration::from_secs(1);

/// The maximum of a subscription that ends at the broker and stays open here. No broker counts that far: `nats-server`
/// reads it as "no maximum" and unsubscribes immediately. async-nats waits for the maximum. Its `drain` instead drops
/// the messages that are on the wire.
const NEVER: u64 = u64::MAX;

/// The number of the message with which the broker confirms what it was sent before. No request has it.
const CONFIRMATION: u64 = 0;

/// A worker of a service: it takes a part of the requests, and any number of workers share them.
///
/// ```no_run
/// use duet_rpc::Router;
/// use duet_rpc_nats::Worker;
///
/// # async fn example() -> Result<(), duet_rpc::Error> {
/// let router = Router::new().method("add", async |(a, b): (i64, i64)| a + b);
/// Worker::connect("nats://127.0.0.1:4222").await?.service("math", "1.2.0").serve(router).await
/// # }
/// ```
///
/// Each request is a connection of its own, as over HTTP, because the next one may go to another worker.
#[must_use = "a worker takes requests only while it serves"]
pub struct Worker {
    broker: Broker,
    service: String,
    version: String,
    description: String,
    profile: Profile,
    most: usize,
    methods: Vec<String>,
}

impl Worker {
    /// Connects to the broker at this URL, such as `nats://127.0.0.1:4222`.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(url, ConnectOptions::new()).await
    }

    /// Connects with options of `async-nats`: credentials, certificates, the prefix of inboxes. This library sets the
    /// event callback, the reconnect delay and the capacity of subscriptions itself.
    pub async fn connect_with(url: &str, options: ConnectOptions) -> Result<Self, Error> {
        Ok(Worker {
            broker: Broker::connect(url, options).await?,
            service: String::new(),
            version: "0.0.0".to_owned(),
            description: String::new(),
            profile: Profile::agent(),
            most: MOST,
            methods: Vec::new(),
        })
    }

    /// Sets the name and the version of the service. The name has letters, digits, `-` and `_`; the version is semantic,
    /// such as `1.2.0`.
    pub fn service(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        (self.service, self.version) = (name.into(), version.into());
        self
    }

    /// Sets the description that discovery shows.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// Sets the profile of the requests. Default: [`Profile::agent`].
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the maximum number of requests at the same time. Default: 1024. A request over the limit is answered
    /// `Server busy`, and its caller tries two more deliveries.
    pub fn max_in_flight(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Sets the methods that discovery shows. [`serve`](Worker::serve) takes them from the router.
    pub fn methods<M: Into<String>>(mut self, names: impl IntoIterator<Item = M>) -> Self {
        self.methods = names.into_iter().map(Into::into).collect();
        self
    }

    /// The number of times that messages were dropped because this process did not read them in time; a function that
    /// can be called while the worker serves. It should return 0: each one is also logged as an error.
    pub fn slow_consumers(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let counter = Arc::clone(&self.broker.slow_consumers);
        move || counter.load(Ordering::Relaxed)
    }

    /// Serves the router until the connection to the broker is closed. To stop it gracefully, use
    /// [`serve_hub`](Worker::serve_hub).
    pub async fn serve(self, router: Router) -> Result<(), Error> {
        let methods: Vec<_> = router.methods().map(str::to_owned).collect();
        let hub = Hub::builder().profile(self.profile).router(router).max_connections(self.most);
        self.methods(methods).serve_hub(hub.build()).await
    }

    /// Serves the requests with a hub, whose profile, router and limit of connections apply, until the hub stops. Then
    /// the worker takes no more requests, running handlers finish and are answered, and requests that arrived
    /// meanwhile are answered busy, so that their callers try another worker.
    ///
    /// ```no_run
    /// use duet_rpc::{Hub, Router};
    /// use duet_rpc_nats::Worker;
    ///
    /// # async fn example(router: Router) -> Result<(), Box<dyn std::error::Error>> {
    /// let hub = Hub::builder().router(router).max_connections(64).build();
    /// let worker = Worker::connect("nats://127.0.0.1:4222").await?.service("math", "1.2.0");
    /// let serving = tokio::spawn(worker.serve_hub(hub.clone()));
    /// // Later:
    /// hub.stop().await;
    /// serving.await??;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn serve_hub(self, hub: Hub) -> Result<(), Error> {
        self.begin().await?.serve(hub).await
    }

    /// Subscribes: from now on the broker sends requests to this worker. [`Serving::serve`] must follow soon.
    pub async fn begin(self) -> Result<Serving, Error> {
        if !subject::is_service(&self.service) {
            let why = "a worker needs a service, whose name has letters, digits, - and _";
            return Err(broken(why));
        }
        let client = self.broker.client.clone();
        let inbox = client.new_inbox();
        let id = subject::last_token(&inbox).to_owned();
        let method = |name: &String| {
            (subject::of_method(&self.service, name), Arc::new(Method::new(endpoint_name(name))))
        };
        let methods = self.methods.iter().map(method).collect();
        let mut private = client.subscribe(format!("{inbox}.*")).await.map_err(broken)?;
        let description = Description {
            service: self.service.clone(),
            version: self.version,
            text: self.description,
            id,
            started: SystemTime::now(),
            methods,
        };
        let asking = description.subscribe(&client).await?;
        let all = subject::of_service(&self.service);
        let requests =
            client.queue_subscribe(all.clone(), QUEUE.to_owned()).await.map_err(broken)?;
        // The broker knows the subscriptions when it has sent this message back.
        let own = format!("{inbox}.{CONFIRMATION}");
        client.publish(own, Bytes::new()).await.map_err(broken)?;
        let confirmed = timeout(CONFIRMED_WITHIN, private.next()).await;
        confirmed.map_err(|_| broken("the broker does not answer"))?;
        self.broker.check_subscription(&all).await?;
        let client = Arc::new(client);
        Ok(Serving {
            profile: self.profile,
            most: self.most,
            publisher: Publisher::new(Arc::clone(&client)),
            shared: Arc::new(Shared { client, inbox, running: Running::default() }),
            last: 0,
            now: Instant::now(),
            private,
            requests,
            asking,
            description: Arc::new(description),
            others: Arc::new(Method::new(String::new())),
            agenda: Agenda::default(),
            timer: None,
            unsent: VecDeque::new(),
            has_confirmed: false,
        })
    }
}

/// The name of an endpoint: the service protocol allows letters, digits, `-` and `_`.
fn endpoint_name(method: &str) -> String {
    let plain = |it: char| if it.is_ascii_alphanumeric() || it == '-' { it } else { '_' };
    method.chars().map(plain).collect()
}

/// A worker to which the broker sends requests; made by [`Worker::begin`].
#[must_use = "requests wait until `serve`"]
pub struct Serving {
    shared: Arc<Shared>,
    publisher: Publisher,
    profile: Profile,
    most: usize,
    /// The number of the last request.
    last: u64,
    /// The time, as it was read last.
    now: Instant,
    private: Subscriber,
    requests: Subscriber,
    asking: Vec<Subscriber>,
    description: Arc<Description>,
    /// Batches, and methods that discovery does not show.
    others: Arc<Method>,
    agenda: Agenda,
    /// Set while something is due. It may fire early, but never late.
    timer: Option<Pin<Box<Sleep>>>,
    /// Signs and busy answers that wait for room.
    unsent: VecDeque<OutboundMessage>,
    /// `true` if the broker has sent the last confirmation back.
    has_confirmed: bool,
}

/// What the loop of a worker and its requests have in common.
struct Shared {
    client: Arc<Client>,
    /// The subject of this worker alone, without its last token.
    inbox: String,
    running: Running,
}

impl Shared {
    /// The subject of a request, for cancellations and answers to calls of its handler.
    fn subject_of(&self, number: u64) -> Subject {
        format!("{}.{number}", self.inbox).into()
    }
}

impl Serving {
    /// Serves the requests with a hub until it stops; see [`Worker::serve_hub`].
    pub async fn serve(mut self, hub: Hub) -> Result<(), Error> {
        let (description, client) =
            (Arc::clone(&self.description), Arc::clone(&self.shared.client));
        let asking = std::mem::take(&mut self.asking);
        let discovery = tokio::spawn(async move { description.serve(&client, asking).await });
        let served = self.run(&hub).await;
        discovery.abort();
        // Handlers that still run get their answers and cancellations, and their callers get signs.
        let mut stopped = pin!(hub.stop());
        let rest = poll_fn(|cx| {
            let _closed = self.poll_turn(cx, &hub);
            stopped.as_mut().poll(cx)
        });
        unconstrained(rest).await;
        // The broker has taken the last answers when it confirms.
        self.confirm(&hub).await;
        served
    }

    async fn run(&mut self, hub: &Hub) -> Result<(), Error> {
        let mut stopping = pin!(hub.stopping());
        // The number of messages in a turn is limited here, and not by the budget of the task.
        let until_stop = unconstrained(poll_fn(|cx| match stopping.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => self.poll_turn(cx, hub).map(Err),
        }));
        until_stop.await.map_err(broken)?;
        // The broker sends no more requests. Those on the wire arrive before the confirmation.
        self.requests.unsubscribe_after(NEVER).await.map_err(broken)?;
        self.confirm(hub).await;
        Ok(())
    }

    /// Sends a message to this worker through the broker, and serves until it is back: then the broker has handled all
    /// earlier messages. Gives up after a moment, because the broker may be away.
    async fn confirm(&mut self, hub: &Hub) {
        self.has_confirmed = false;
        let subject = self.shared.subject_of(CONFIRMATION);
        let (reply, payload, headers) = (None, Bytes::new(), None);
        self.unsent.push_back(OutboundMessage { subject, reply, payload, headers });
        let confirmed = unconstrained(poll_fn(|cx| match self.poll_turn(cx, hub) {
            Poll::Pending if !self.has_confirmed => Poll::Pending,
            _ => Poll::Ready(()),
        }));
        let _ = timeout(ENDED_WITHIN, confirmed).await;
    }

    /// Handles what has arrived and what is due. Ready when the subscription is closed, with the reason.
    fn poll_turn(&mut self, cx: &mut Context<'_>, hub: &Hub) -> Poll<&'static str> {
        self.now = Instant::now();
        for _ in 0..TURN {
            // First the messages to requests that run: they free room.
            self.poll_private(cx);
            match self.requests.poll_next_unpin(cx) {
                Poll::Ready(Some(request)) => self.accept(hub, request),
                Poll::Ready(None) => return Poll::Ready("the connection to the broker is closed"),
                Poll::Pending => {
                    self.poll_running(cx);
                    return Poll::Pending;
                }
            }
        }
        self.poll_running(cx);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Does everything for requests that run.
    fn poll_running(&mut self, cx: &mut Context<'_>) {
        self.poll_private(cx);
        self.poll_due(cx);
        self.poll_unsent(cx);
    }

    fn poll_private(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(message)) = self.private.poll_next_unpin(cx) {
            self.pass_on(&message);
        }
    }

    /// Does what is due, and sets the timer for the rest.
    fn poll_due(&mut self, cx: &mut Context<'_>) {
        self.agenda.tidy(&self.shared.running);
        while let Some(due) = self.agenda.next_due() {
            if due <= Instant::now() {
                self.send_signs();
                continue;
            }
            let due = due.into();
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            // A timer that fires early does no harm; setting it for each request would.
            if timer.deadline() > due || timer.is_elapsed() {
                timer.as_mut().reset(due);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return;
            }
        }
    }

    /// Hands signs and busy answers to the client.
    fn poll_unsent(&mut self, cx: &mut Context<'_>) {
        while !self.unsent.is_empty() && self.publisher.poll_ready(cx).is_ready() {
            let Some(message) = self.unsent.pop_front() else { return };
            match self.publisher.send(cx, || message.clone()) {
                Poll::Ready(Ok(()) | Err(Unsent::TooLarge { .. } | Unsent::LongSubject { .. })) => {
                }
                // Without the client, the subscription ends as well.
                Poll::Ready(Err(Unsent::Closed(_))) | Poll::Pending => return,
            }
        }
    }

    /// Begins a request, or answers that the worker is busy.
    fn accept(&mut self, hub: &Hub, message: Message) {
        self.last += 1;
        let method = self.description.methods.get(message.subject.as_str());
        let method = Arc::clone(method.unwrap_or(&self.others));
        let request = Arc::new(Request::new(self.last, message, method, self.now));
        let transport = RequestTransport::new(Arc::clone(&request), Arc::clone(&self.shared));
        let is_light = request.method.is_light();
        let attached = match is_light {
            true => hub.attach_here(transport, request.remote()),
            false => hub.attach(transport, request.remote()).map(Some),
        };
        if is_light {
            // The end of this beginning is the beginning of the next request in this turn.
            self.now = Instant::now();
            request.method.note_beginning(self.now.saturating_duration_since(request.begun));
        }
        match attached {
            Ok(None) => {}
            Ok(Some(_)) => {
                if self.shared.running.insert(&request) {
                    self.agenda.begin(&request);
                }
            }
            Err(_) => self.refuse(&request),
        }
    }

    /// Answers that the worker is busy.
    fn refuse(&mut self, request: &Request) {
        let error = ErrorObject::server_busy(self.profile.busy_code, self.most as u64);
        let answer = refuse(&request.message, &error);
        let (Some(subject), Some(payload)) = (request.reply.clone(), answer) else {
            return tracing::warn!(limit = self.most, "notification dropped: too many requests");
        };
        let mut headers = header::one(header::BUSY, self.most.to_string());
        header::add_error(&mut headers, error.code().0, error.message());
        let (payload, headers) = (payload.into(), Some(headers));
        self.unsent.push_back(OutboundMessage { subject, reply: None, payload, headers });
    }

    /// Hands a message to the request that it names.
    fn pass_on(&mut self, message: &Message) {
        let number = subject::number(&message.subject);
        self.has_confirmed |= number == Some(CONFIRMATION);
        let request = number.and_then(|number| self.shared.running.find(number));
        let Some(request) = request else { return };
        match message {
            it if it.status == Some(StatusCode::NO_RESPONDERS) => request.miss(),
            it if header::value(it.headers.as_ref(), header::CANCEL) == Some("1") => {
                // A call of a batch, or everything.
                match message::classify(&it.payload) {
                    Outgoing::Cancellation(_) => request.push(it.payload.clone()),
                    _ => request.cancel(),
                }
            }
            // Nobody can call the handlers here, or make the peer answer.
            it if matches!(message::classify(&it.payload), Outgoing::Answer(_)) => {
                request.push(it.payload.clone());
            }
            _ => tracing::debug!("message to a running request dropped: it is not an answer"),
        }
    }

    /// Tells callers that their requests are being worked on, and cancels requests.
    fn send_signs(&mut self) {
        for (number, subject) in self.agenda.run(&self.shared.running, Instant::now()) {
            let reply = Some(self.shared.subject_of(number));
            let headers = Some(header::one(header::ACCEPTED, self.description.id.as_str()));
            self.unsent.push_back(OutboundMessage {
                subject,
                reply,
                payload: Bytes::new(),
                headers,
            });
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Worker");
        shown.field("service", &self.service).field("most", &self.most).finish_non_exhaustive()
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Serving");
        shown.field("description", &self.description).field("running", &self.shared.running.len());
        shown.finish_non_exhaustive()
    }
}
