//! Requests that a worker runs: their signs, their deadlines, and the messages to them (N3, N5, N6).
//!
//! | after | a request that still runs |
//! |---|---|
//! | 5 ms, and then each second | the caller gets a sign, if it understands signs |
//! | its deadline | it is cancelled |
//! | `GONE` signs in a row that nobody took | it is cancelled: the caller is gone |
//!
//! Both queues of signs are in order of time, because each has one delay. So a request that ends early costs one entry
//! in a queue, and no timer.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use async_nats::{HeaderMap, Message, Subject};
use bytes::Bytes;
use duet_rpc::Remote;
use rustc_hash::FxHashMap;

use super::methods::Method;
use crate::subject::Caller;
use crate::{header, subject};

/// The time before the first sign.
const FIRST_SIGN: Duration = Duration::from_millis(5);

/// The time between two signs.
const NEXT_SIGN: Duration = Duration::from_secs(1);

/// The number of signs in a row that nobody took, after which the caller is gone. A caller whose broker node died needs
/// a moment to connect to another node.
const GONE: u32 = 5;

/// Deadlines that may belong to requests that are over, whatever the number of requests that run.
const MOST_IDLE_DEADLINES: usize = 1024;

/// Messages to one request that wait for it. A handler that makes more calls at the same time is refused.
const MOST_WAITING: usize = 1024;

/// A request: what its transport, and those who send it messages, have in common.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) number: u64,
    pub(super) begun: Instant,
    /// The JSON-RPC message.
    pub(super) message: Bytes,
    /// The subject for the answer.
    pub(super) reply: Option<Subject>,
    headers: Option<HeaderMap>,
    /// `true` if the caller takes calls. Such a caller understands signs, too.
    pub(super) takes_calls: bool,
    /// The time that it has from its beginning.
    deadline: Option<Duration>,
    pub(super) method: Arc<Method>,
    arrivals: Mutex<Arrivals>,
}

#[derive(Debug, Default)]
struct Arrivals {
    messages: VecDeque<Bytes>,
    is_cancelled: bool,
    waker: Option<Waker>,
    /// Nobody took the last sign.
    is_missed: bool,
    misses: u32,
    /// The request is answered, or gone.
    is_over: bool,
}

/// What a request receives next.
#[derive(Debug, PartialEq)]
pub(super) enum Arrival {
    Message(Bytes),
    Cancelled,
}

impl Request {
    /// The request in a message of the broker.
    pub(super) fn new(number: u64, message: Message, method: Arc<Method>, now: Instant) -> Self {
        let Message { reply, payload, headers, .. } = message;
        let caller = reply.as_deref().and_then(Caller::read);
        Request {
            number,
            begun: now,
            message: payload,
            takes_calls: caller.is_some(),
            deadline: match caller {
                Some(caller) => caller.left,
                None => header::deadline(headers.as_ref()),
            },
            reply,
            headers,
            method,
            arrivals: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The subject on which the caller takes calls.
    pub(super) fn callback(&self) -> Option<String> {
        self.reply.as_deref().and_then(Caller::read).map(|caller| caller.callback())
    }

    /// The other end, as far as the request names it.
    pub(super) fn remote(&self) -> Remote {
        match header::value(self.headers.as_ref(), header::TRACE) {
            Some(trace) => Remote::new().with_trace_context(trace),
            None => Remote::new(),
        }
    }

    /// The subject for signs; `None` if the caller does not understand them, or expects no answer.
    fn signs_to(&self) -> Option<&Subject> {
        let is_request = |reply: &&Subject| subject::number(reply) != Some(subject::NOTIFICATION);
        self.reply.as_ref().filter(|reply| self.takes_calls && is_request(reply))
    }

    fn change(&self, change: impl FnOnce(&mut Arrivals)) {
        let mut arrivals = self.lock();
        change(&mut arrivals);
        let waker = arrivals.waker.take();
        drop(arrivals);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Cancels the request.
    pub(super) fn cancel(&self) {
        self.change(|arrivals| arrivals.is_cancelled = true);
    }

    /// Hands over a message, such as the answer to a call of the handler.
    pub(super) fn push(&self, message: Bytes) {
        self.change(|arrivals| {
            if arrivals.messages.len() < MOST_WAITING {
                arrivals.messages.push_back(message);
            }
        });
    }

    /// Nobody took the last sign.
    pub(super) fn miss(&self) {
        self.lock().is_missed = true;
    }

    /// Returns `false` if the caller is gone.
    fn has_caller(&self) -> bool {
        let mut arrivals = self.lock();
        let is_missed = std::mem::take(&mut arrivals.is_missed);
        arrivals.misses = if is_missed { arrivals.misses + 1 } else { 0 };
        arrivals.misses < GONE
    }

    /// The next arrival; registers the waker if there is none.
    pub(super) fn next(&self, cx: &mut Context<'_>) -> Option<Arrival> {
        let mut arrivals = self.lock();
        if let Some(message) = arrivals.messages.pop_front() {
            return Some(Arrival::Message(message));
        }
        if arrivals.is_cancelled {
            return Some(Arrival::Cancelled);
        }
        arrivals.waker = Some(cx.waker().clone());
        None
    }
}

/// The requests that run, without those that were answered before anybody could send them a message. Their transports
/// remove them.
#[derive(Debug, Default)]
pub(super) struct Running(Mutex<FxHashMap<u64, Arc<Request>>>);

impl Running {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<u64, Arc<Request>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request; `false` if it is over already.
    pub(super) fn insert(&self, request: &Arc<Request>) -> bool {
        let mut requests = self.lock();
        let is_over = request.lock().is_over;
        if !is_over {
            requests.insert(request.number, Arc::clone(request));
        }
        !is_over
    }

    /// Removes a request that is over.
    pub(super) fn remove(&self, request: &Request) {
        let mut requests = self.lock();
        request.lock().is_over = true;
        requests.remove(&request.number);
    }

    pub(super) fn find(&self, number: u64) -> Option<Arc<Request>> {
        self.lock().get(&number).cloned()
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }
}

/// The times at which something is due for a request.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    first: VecDeque<(Instant, u64)>,
    next: VecDeque<(Instant, u64)>,
    deadlines: BTreeSet<(Instant, u64)>,
}

impl Agenda {
    /// Adds a request that runs.
    pub(super) fn begin(&mut self, request: &Request) {
        let (number, begun) = (request.number, request.begun);
        if request.signs_to().is_some() {
            self.first.push_back((begun + FIRST_SIGN, number));
        }
        if let Some(at) = request.deadline.and_then(|deadline| begun.checked_add(deadline)) {
            self.deadlines.insert((at, number));
        }
    }

    /// Forgets the deadlines of requests that are over, once they are most of them. So their number, and the time for
    /// each, stay small, though most deadlines are far away.
    pub(super) fn tidy(&mut self, running: &Running) {
        if self.deadlines.len() >= MOST_IDLE_DEADLINES {
            let running = running.lock();
            if self.deadlines.len() / 2 >= running.len() {
                self.deadlines.retain(|(_, number)| running.contains_key(number));
            }
        }
    }

    /// The time of the next thing to do, which may be for a request that is over.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let queues = [self.first.front(), self.next.front(), self.deadlines.first()];
        queues.into_iter().flatten().map(|(at, _)| *at).min()
    }

    /// Does what is due: cancels requests, and returns the signs to send, each with its number and subject.
    pub(super) fn run(&mut self, running: &Running, now: Instant) -> Vec<(u64, Subject)> {
        while let Some(&(at, number)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            if let Some(request) = running.find(number) {
                request.cancel();
            }
        }
        let mut signs = Vec::new();
        let running = running.lock();
        for queue in [&mut self.first, &mut self.next] {
            while let Some(&(at, number)) = queue.front()
                && at <= now
            {
                queue.pop_front();
                let Some(request) = running.get(&number) else { continue };
                let Some(subject) = request.signs_to() else { continue };
                match request.has_caller() {
                    true => signs.push((number, subject.clone())),
                    false => request.cancel(),
                }
            }
        }
        self.next.extend(signs.iter().map(|(number, _)| (now + NEXT_SIGN, *number)));
        // Most requests are over before their first sign. The next one that runs decides when to look again.
        for queue in [&mut self.first, &mut self.next] {
            while queue.front().is_some_and(|(_, number)| !running.contains_key(number)) {
                queue.pop_front();
            }
        }
        signs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request of a caller that understands signs, with this deadline.
    fn request(number: u64, deadline: Option<&str>) -> Arc<Request> {
        let message = Message {
            subject: "rpc.s.m".into(),
            reply: Some(format!("c.={}.1", deadline.unwrap_or_default()).into()),
            payload: Bytes::from_static(b"{}"),
            headers: None,
            status: None,
            description: None,
            length: 0,
        };
        let method = Arc::new(Method::new("m".to_owned()));
        Arc::new(Request::new(number, message, method, Instant::now()))
    }

    /// Begins a request, and returns the time of its beginning.
    fn begin(agenda: &mut Agenda, running: &Running, request: &Arc<Request>) -> Instant {
        assert!(running.insert(request));
        agenda.begin(request);
        request.begun
    }

    fn is_cancelled(request: &Request) -> bool {
        request.next(&mut Context::from_waker(Waker::noop())) == Some(Arrival::Cancelled)
    }

    #[test]
    fn n3_signs_are_due_after_5_ms_and_then_each_second() {
        let (mut agenda, running) = (Agenda::default(), Running::default());
        assert_eq!(agenda.next_due(), None);
        let one = request(1, None);
        let begun = begin(&mut agenda, &running, &one);
        let mut sent = Vec::new();
        for ms in 0..=3010 {
            let at = begun + Duration::from_millis(ms);
            sent.extend(agenda.run(&running, at).into_iter().map(|(number, _)| (ms, number)));
        }
        assert_eq!(sent, [(5, 1), (1005, 1), (2005, 1), (3005, 1)]);
        running.remove(&one);
        assert!(agenda.run(&running, begun + Duration::from_secs(5)).is_empty());
        assert_eq!(agenda.next_due(), None, "nothing is left");
    }

    #[test]
    fn n3_only_callers_that_understand_signs_get_them() {
        let with = |change: &dyn Fn(&mut Request)| {
            let mut request = request(1, None);
            change(Arc::get_mut(&mut request).expect("nobody else has it"));
            request.signs_to().is_some()
        };
        assert!(with(&|_| {}));
        assert!(!with(&|request| request.takes_calls = false));
        assert!(!with(&|request| request.reply = None));
        // A notification.
        assert!(!with(&|request| request.reply = Some("c.=.0".into())));
    }

    #[test]
    fn n3_a_request_that_was_answered_before_it_is_added_is_not_added() {
        let running = Running::default();
        let request = request(1, None);
        running.remove(&request);
        assert!(!running.insert(&request));
        assert_eq!(running.len(), 0);
    }

    #[test]
    fn n5_a_deadline_cancels_the_request_that_still_runs() {
        let (mut agenda, running) = (Agenda::default(), Running::default());
        let (one, two) = (request(1, Some("50")), request(2, Some("18446744073709551615")));
        let gone = request(3, Some("20"));
        let begun = begin(&mut agenda, &running, &one);
        begin(&mut agenda, &running, &two);
        agenda.begin(&gone);
        agenda.run(&running, begun + Duration::from_millis(49));
        assert!(!is_cancelled(&one));
        agenda.run(&running, begun + Duration::from_millis(50));
        assert!(is_cancelled(&one) && !is_cancelled(&two) && !is_cancelled(&gone));
    }

    #[test]
    fn n5_deadlines_of_requests_that_are_over_are_forgotten() {
        let (mut agenda, running) = (Agenda::default(), Running::default());
        let one = request(0, Some("30000"));
        let begun = begin(&mut agenda, &running, &one);
        for number in 1..20_000 {
            agenda.begin(&request(number, Some("30000")));
            agenda.tidy(&running);
            assert!(agenda.deadlines.len() <= MOST_IDLE_DEADLINES);
        }
        agenda.run(&running, begun + Duration::from_secs(30));
        assert!(is_cancelled(&one));
    }

    #[test]
    fn n5_five_signs_in_a_row_that_nobody_took_cancel_the_request() {
        let (mut agenda, running) = (Agenda::default(), Running::default());
        let one = request(1, None);
        let begun = begin(&mut agenda, &running, &one);
        // The caller is away for three signs, comes back, and then leaves.
        let missed = |sign: u32| (2..5).contains(&sign) || sign >= 7;
        let cancelled_at = (0..20).find(|&sign| {
            agenda.run(&running, begun + FIRST_SIGN + NEXT_SIGN * sign);
            if missed(sign) {
                one.miss();
            }
            is_cancelled(&one)
        });
        assert_eq!(cancelled_at, Some(12));
    }
}
