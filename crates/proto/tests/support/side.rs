//! One session with its surroundings: a clock, an outlet, handlers and callers.
//!
//! The name of a method decides what its handler does: `park…` waits for `end` or `fail`, `fail…`
//! fails immediately, `shut…` closes the session and then answers, `big…` answers with a hundred
//! bytes, any other answers `ok` immediately. `…/7` belongs to lane 7.
//!
//! A step is a message in the words of [`words`](super::words), or a command:
//!
//! | command | effect |
//! |---|---|
//! | `call NAME [timeout=MS] [token=T total=MS]` | begins a call; ids count from 1 |
//! | `send WORD` | sends any message |
//! | `drop 1` | gives the call up |
//! | `end NAME`, `fail NAME` | ends a parked handler |
//! | `hold`, `free` | too many bytes wait to be sent; no longer |
//! | `close`, `close NAME` | closes, at the request of that handler |
//! | `eof`, `gone` | the input has ended; the connection is gone |
//! | `took` | the remote took some bytes |
//! | `wait MS`, `tick`, `+MS` | time passes; timeouts are handled; both |
//! | `fault` | the decoder reports a fault |
//! | `left` | shows the milliseconds left to drain |
//! | `wants` | shows whether the session wants input |
//!
//! The effects of a step are shown in words too: `>name#1` starts, `stop name` must be stopped,
//! `1:ok` is the outcome of call 1, `?…` is a notice; everything else is sent.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duet_rpc_proto::Profile;
use duet_rpc_proto::fault::{Fault, FaultKind};
use duet_rpc_proto::message::{
    ErrorObject, Id, IdRef, Incoming, Params, Response, Settled, write_raw_result, write_request,
};
use duet_rpc_proto::notice::Notice;
use duet_rpc_proto::policy::Dialect;
use duet_rpc_proto::session::{
    BatchKey, CallOptions, Ending, Handled, Ids, Job, Key, Phase, Progress, Session,
};
use duet_rpc_proto::text::Text;

use super::ledger::{Entry, Ledger};
use super::words;

pub struct Side {
    pub session: Session<u64>,
    /// Messages on their way to the other side.
    pub link: VecDeque<Vec<u8>>,
    pub ledger: Ledger,
    pub now: Instant,
    ids: Ids,
    out: Vec<Vec<u8>>,
    shown: Vec<String>,
    /// The outcome of each call, by its number less one.
    calls: Vec<Option<&'static str>>,
    /// The earliest and the latest time at which each call may time out (P2).
    times: Vec<(Option<Instant>, Option<Instant>)>,
    /// True if the current batch arrived before the close: then all of it is answered.
    batch_is_in_time: bool,
}

impl Side {
    pub fn new(profile: &Profile) -> Self {
        let mut session = Session::new(profile);
        session.set_lanes(Arc::new(|method: &str, _: &Params<'_>| lane(method)));
        Side {
            session,
            link: VecDeque::new(),
            ledger: Ledger::new(profile),
            now: Instant::now(),
            ids: Ids::new(profile.ids, 0),
            out: Vec::new(),
            shown: Vec::new(),
            calls: Vec::new(),
            times: Vec::new(),
            batch_is_in_time: false,
        }
    }

    /// Takes a step, and returns its effects.
    pub fn step(&mut self, step: &str) -> String {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        match verb {
            "call" => self.call(rest),
            "send" => {
                let text = words::text(rest, self.session.profile().dialect);
                self.link.push_back(text.into_bytes());
            }
            "drop" => {
                let id = Id::from(rest.parse::<u64>().expect("a number"));
                if let Some(caller) = self.session.cancel(&id, &mut self.out) {
                    self.settle(caller, "dropped");
                }
            }
            "end" | "fail" if !rest.is_empty() => self.end(rest, verb == "end"),
            "hold" | "free" => {
                self.ledger.held = verb == "hold";
                self.session.hold(self.ledger.held);
            }
            "close" => {
                let asked_by = (!rest.is_empty()).then(|| self.key_of(rest));
                self.close(asked_by);
            }
            "eof" => {
                self.session.handle_end(self.now);
                self.abandon();
            }
            "gone" => {
                self.session.handle_gone();
                self.ledger.give_up_all();
                self.abandon();
            }
            "took" => self.session.handle_progress(self.now),
            "wait" => self.now += millis(rest),
            "tick" => self.tick(),
            "fault" => {
                let fault = Fault { kind: FaultKind::CutShort, body: None };
                let waited = self.session.waiting();
                let handled = self.session.handle_fault(&fault, self.now, &mut self.out);
                self.show_handled(&handled);
                self.delay_refusal(waited);
            }
            "left" => {
                let left = self.session.drain_deadline();
                let left = left.map(|until| (until - self.now).as_millis().to_string());
                self.shown.push(left.unwrap_or_else(|| "none".to_owned()));
            }
            "wants" => self.shown.push(self.session.wants_input().to_string()),
            _ => match verb.strip_prefix('+') {
                Some(time) => {
                    self.now += millis(time);
                    self.tick();
                }
                None => {
                    let text = words::text(step, self.session.profile().dialect);
                    self.receive(text.as_bytes());
                }
            },
        }
        self.begin_ready();
        self.check();
        std::mem::take(&mut self.shown).join(" ")
    }

    /// Receives a message.
    pub fn receive(&mut self, text: &[u8]) {
        let profile = *self.session.profile();
        let text = Text::check(text, profile.limits.depth).expect("tests send JSON");
        match Incoming::classify(&text, profile.batch, &profile.limits) {
            Incoming::Batch(entries) => {
                self.batch_is_in_time = !self.is_closing();
                let batch = self.session.begin_batch();
                for entry in entries {
                    self.handle(entry, Some(batch));
                }
                self.session.end_batch(batch, &mut self.out);
            }
            message => self.handle(message, None),
        }
        self.begin_ready();
        self.check();
    }

    /// The effects shown since the last call of this.
    pub fn take_shown(&mut self) -> String {
        std::mem::take(&mut self.shown).join(" ")
    }

    /// The names of the parked handlers.
    pub fn parked(&self) -> Vec<String> {
        let parked = self.ledger.entries.iter().filter(|entry| entry.key.is_some());
        parked.map(|entry| entry.name.clone()).collect()
    }

    /// The outcome of a call; `None` while it is pending.
    pub fn settled(&self, call: u64) -> Option<&'static str> {
        self.calls[call as usize - 1]
    }

    /// The number of calls begun.
    pub fn calls(&self) -> u64 {
        self.calls.len() as u64
    }

    /// Checks that everything has ended: nothing is left, every call has settled and every request
    /// is answered.
    pub fn finish(&self) {
        assert!(self.session.is_clean(), "{:?}", self.session);
        assert_eq!(self.session.pending_calls(), 0);
        assert!(self.calls.iter().all(Option::is_some), "{:?}", self.calls);
        self.ledger.check_settled();
    }

    // ---- input

    fn handle(&mut self, message: Incoming<'_>, batch: Option<BatchKey>) {
        let entry = match &message {
            Incoming::Request(request) => {
                self.ledger.asked(&meaning(request.id));
                Some(entry(&request.method, Some(request.id)))
            }
            Incoming::Notification(notification) => Some(entry(&notification.method, None)),
            Incoming::Invalid(reply) => {
                self.ledger.asked(&meaning(&reply.id));
                None
            }
            _ => None,
        };
        let cancelled = match &message {
            Incoming::Notification(it) if words::cancels(&it.method) => cancelled(&it.params),
            _ => None,
        };
        let (wanted, waited) = (self.session.wants_input(), self.session.waiting());
        let handled = self.session.handle(&message, batch, self.now, &mut self.out);
        self.show_handled(&handled);
        match handled {
            Handled::Start(job) => self.start(job, message.call().expect("it calls").0),
            Handled::Waits(_) => {
                let entry = entry.expect("only these wait");
                let (is_request, is_in_batch) = (entry.id.is_some(), batch.is_some());
                let may_be_refused = is_request && is_in_batch;
                self.ledger.wait(Entry { may_be_refused, ..entry });
                let most = self.session.profile().limits.waiting;
                // A message that was read with others, or in a batch, cannot be put back.
                let is_bound = is_request && !is_in_batch && wanted;
                let waiting = self.ledger.waiting_requests();
                assert!(!is_bound || waiting <= most, "more waits than the limit allows");
            }
            Handled::Refused(reply) if reply.error.code() == self.session.profile().busy_code => {
                self.ledger.check_busy(self.session.pending_calls() > 0, batch.is_some());
            }
            Handled::Refused(reply) if entry.is_some() && self.is_closing() => {
                assert!(
                    batch.is_some() && self.batch_is_in_time,
                    "an unexpected answer: {reply:?}"
                );
            }
            Handled::Refused(reply) if entry.is_some() => {
                self.ledger.check_duplicate(&meaning(&reply.id));
            }
            Handled::Refused(_) => self.delay_refusal(waited),
            Handled::Settled(caller) => {
                let Incoming::Response(Response { settled, .. }) = &message else {
                    panic!("{message:?}")
                };
                let how = if matches!(settled, Settled::Result(_)) { "ok" } else { "error" };
                self.settle(caller, how);
            }
            Handled::Stop(key) => {
                let name = self.ledger.stop(key);
                self.excuse_cancelled(cancelled);
                self.shown.push(format!("stop {name}"));
            }
            Handled::Cancelled(_) => {
                let id = cancelled.expect("only a cancellation does that");
                assert!(self.session.waiting() < waited, "it had waited");
                self.ledger.cancel_waiting(&id);
                self.excuse_cancelled(Some(id));
            }
            Handled::CancelledElsewhere(id) => {
                let cancelled = cancelled.expect("only a cancellation does that");
                assert_eq!(meaning(&id), cancelled);
                self.ledger.check_unknown(&cancelled);
            }
            Handled::Done => {
                assert_eq!(cancelled, None, "a cancellation is told");
                if let Some(id) = entry.and_then(|entry| entry.id) {
                    let is_owed = batch.is_some() && self.batch_is_in_time;
                    assert!(!is_owed, "{id} of a batch is not answered");
                    self.ledger.excused(&id);
                }
            }
            Handled::Notice(Notice::NotificationDropped) => {
                self.ledger.check_dropped(self.session.pending_calls() > 0);
            }
            Handled::Notice(_) => {}
        }
    }

    /// In MCP's dialect a cancelled request gets no answer.
    fn excuse_cancelled(&mut self, id: Option<String>) {
        let id = id.expect("only a cancellation does that");
        if self.session.profile().dialect == Dialect::Notifications {
            self.ledger.excused(&id);
        }
    }

    /// The answer to an invalid message may have to wait.
    fn delay_refusal(&mut self, waited: usize) {
        if self.session.waiting() > waited {
            self.ledger.wait(Entry { may_be_refused: true, ..entry("", None) });
        }
    }

    fn show_handled(&mut self, handled: &Handled<'_, u64>) {
        self.show_sent();
        if let Handled::Notice(notice) = handled {
            self.shown.push(format!("?{notice:?}"));
        }
    }

    fn start(&mut self, job: Job<'_>, method: &str) {
        let key = job.key();
        let id = job.id().map_or(String::new(), |id| format!("#{id}"));
        self.shown.push(format!(">{method}{id}").replace('"', ""));
        self.ledger.start(&Entry { key: Some(key), ..entry(method, job.id()) });
        if method.starts_with("park") {
            assert_eq!(self.session.park(job), key);
            return;
        }
        if method.starts_with("shut") {
            self.close(Some(key));
        }
        self.ledger.end(key);
        let has_failed = method.starts_with("fail");
        let result = if method.starts_with("big") { "x".repeat(100) } else { "ok".to_owned() };
        self.answer(job, (!has_failed).then_some(result));
    }

    fn begin_ready(&mut self) {
        loop {
            let ready = self.session.next_ready(&mut self.out);
            // Entries of a batch whose answer is too large are answered busy instead, and invalid
            // messages are answered in their turn.
            let waiting = self.session.waiting() + usize::from(ready.is_some());
            self.ledger.refuse_ready(self.ledger.waiting() - waiting);
            self.show_sent();
            let Some((job, message)) = ready else { break };
            self.start(job.borrow(), message.method());
        }
    }

    fn end(&mut self, name: &str, is_well: bool) {
        let key = self.key_of(name);
        self.ledger.end(key);
        if let Some(job) = self.session.finish(key) {
            self.answer(job.borrow(), is_well.then(|| "ok".to_owned()));
        }
    }

    fn answer(&mut self, job: Job<'_>, result: Option<String>) {
        match result {
            Some(result) => {
                let Ok(()) = self.session.answer(job, &mut self.out, |out, id| {
                    write_raw_result(out, id, &format!("{result:?}"));
                    Ok::<_, Infallible>(())
                });
            }
            None => {
                self.session.answer_error(job, &ErrorObject::internal_error(), &mut self.out);
            }
        }
        self.show_sent();
    }

    fn key_of(&self, name: &str) -> Key {
        let is_it = |entry: &&Entry| entry.name == name && entry.key.is_some();
        let found = self.ledger.entries.iter().find(is_it);
        found.and_then(|entry| entry.key).unwrap_or_else(|| panic!("{name} is not parked"))
    }

    // ---- our calls, and the end

    fn call(&mut self, what: &str) {
        let mut words = what.split_whitespace();
        let method = words.next().expect("a method");
        let (mut terms, mut token, mut total) = (CallOptions::default(), None, None);
        terms.timeout = self.session.profile().call_timeout;
        for word in words {
            match word.split_once('=') {
                Some(("timeout", "none")) => terms.timeout = None,
                Some(("timeout", time)) => terms.timeout = Some(millis(time)),
                Some(("total", time)) => total = Some(millis(time)),
                Some(("token", text)) => token = Id::from_raw(text),
                _ => panic!("{word}"),
            }
        }
        let first = [terms.timeout, total].into_iter().flatten().min();
        let last = total.or(terms.timeout);
        self.times.push((first.map(|time| self.now + time), last.map(|time| self.now + time)));
        terms.progress = token.zip(total).map(|(token, total)| Progress { token, total });
        let (id, caller) = (self.ids.next(), self.calls.len() as u64 + 1);
        self.calls.push(None);
        match self.session.call(id.clone(), caller, terms, self.now) {
            Ok(()) => {
                let mut text = Vec::new();
                write_request(&mut text, &id, method, None::<&()>).expect("it can be written");
                self.out.push(text);
            }
            Err(caller) => self.settle(caller, "refused"),
        }
    }

    fn settle(&mut self, caller: u64, how: &'static str) {
        self.show_sent();
        let was = self.calls[caller as usize - 1].replace(how);
        assert_eq!(was, None, "call {caller} settles a second time: {how}");
        self.shown.push(format!("{caller}:{how}"));
    }

    fn tick(&mut self) {
        let is_due = self.session.poll_timeout().is_some_and(|due| due <= self.now);
        if let Some(notice) = self.session.handle_timeout(self.now) {
            assert!(is_due, "`poll_timeout` did not announce {notice:?}");
            self.shown.push(format!("?{notice:?}"));
        }
        while let Some(id) = self.session.next_expired(self.now).cloned() {
            let caller = self.session.cancel(&id, &mut self.out).expect("it was pending");
            assert!(is_due, "`poll_timeout` did not announce the timeout of {caller}");
            let (first, _) = self.times[caller as usize - 1];
            assert!(
                first.is_some_and(|first| first <= self.now),
                "the time of {caller} was not over"
            );
            self.settle(caller, "timeout");
        }
        for (call, (settled, (_, last))) in self.calls.iter().zip(&self.times).enumerate() {
            let is_over = last.is_some_and(|last| last <= self.now);
            assert!(settled.is_some() || !is_over, "the time of {} is over", call + 1);
        }
        let next = self.session.poll_timeout();
        let may_be_past = matches!(self.session.phase(), Phase::Draining(_));
        assert!(
            may_be_past || next.is_none_or(|next| next > self.now),
            "a deadline in the past would fire forever"
        );
    }

    fn close(&mut self, asked_by: Option<Key>) {
        self.session.close(asked_by, self.now, &mut self.out);
        if let Some(key) = asked_by {
            self.ledger.give_up(key);
        }
        self.show_sent();
    }

    fn is_closing(&self) -> bool {
        match self.session.phase() {
            Phase::Open => false,
            Phase::Draining(draining) => draining.ending == Ending::Closing,
            Phase::Closed => true,
        }
    }

    fn abandon(&mut self) {
        let mut ended = Vec::new();
        while let Some((_, caller)) = self.session.abandon() {
            ended.push(caller);
        }
        ended.sort_unstable();
        for caller in ended {
            self.settle(caller, "closed");
        }
    }

    // ---- output

    fn show_sent(&mut self) {
        for text in self.out.drain(..) {
            self.shown.push(words::short(&text, self.session.profile().dialect));
            for id in words::answered(&text) {
                self.ledger.answered(&id);
            }
            self.link.push_back(text);
        }
    }

    fn check(&mut self) {
        self.show_sent();
        self.ledger.check_no_runnable_message_waits();
        assert_eq!(self.session.running(), self.ledger.running(), "{:?}", self.ledger.entries);
        assert_eq!(self.session.waiting(), self.ledger.waiting(), "{:?}", self.ledger.entries);
        let pending = self.calls.iter().filter(|call| call.is_none()).count();
        assert_eq!(self.session.pending_calls(), pending);
    }
}

fn entry(name: &str, id: Option<IdRef<'_>>) -> Entry {
    let (name, id) = (name.to_owned(), id.map(meaning));
    Entry { lane: lane(&name), name, id, key: None, is_answered: false, may_be_refused: false }
}

/// The id as JSON, without unnecessary escapes.
fn meaning<'i>(id: impl Into<IdRef<'i>>) -> String {
    let value: serde_json::Value = serde_json::from_str(id.into().as_raw()).expect("an id is JSON");
    value.to_string()
}

fn lane(method: &str) -> Option<u64> {
    method.split_once('/').and_then(|(_, lane)| lane.parse().ok())
}

/// The id in a cancellation, in either dialect.
fn cancelled(params: &Params<'_>) -> Option<String> {
    let params: serde_json::Value = serde_json::from_str(params.as_raw()?).ok()?;
    let id = params.get("id").or(params.get("requestId"))?;
    Some(id.to_string())
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().expect("milliseconds"))
}
