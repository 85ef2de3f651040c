//! What is due on a connection, and what comes: each answer once and rightly, and nothing besides.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::counters::{Broken, Counters, Group};
use super::expect::{Due, Effect, Pages, is_batch};
use super::state::{Call, State};
use super::ws::Event;
use crate::wire::Message;

/// Whether answers keep the order of what they answer (L2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Sequential,
    Barrier,
}

#[derive(Debug)]
pub(super) struct Ledger {
    order: Order,
    state: Mutex<State>,
    changed: Condvar,
    pages: Arc<Pages>,
    counters: Arc<Counters>,
}

impl Ledger {
    pub(super) fn new(order: Order, pages: Arc<Pages>, counters: Arc<Counters>) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Ledger { order, state, changed, pages, counters }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This answer is due from here on.
    pub(super) fn expect(&self, due: Due) {
        let mut state = self.state();
        state.last += 1;
        let place = state.last;
        match due.effect {
            Effect::Emitted(_) => state.emits.push(1),
            Effect::Subscribed(_) | Effect::None => {}
        }
        state.by_id.entry(due.id.clone()).or_default().push(place);
        state.dues.insert(place, due);
    }

    /// The answer to a batch is due: these in any order. Without any, there is none.
    pub(super) fn expect_batch(&self, entries: Vec<Due>) {
        if entries.is_empty() {
            return;
        }
        let mut state = self.state();
        state.last += 1;
        let place = state.last;
        state.batches.insert(place, entries);
    }

    /// The daemon will call this method of the client's.
    pub(super) fn expect_call(&self, method: String, call: Call) {
        self.state().calls.insert(method, call);
    }

    /// Pongs are due.
    pub(super) fn expect_pongs(&self, pongs: Vec<Vec<u8>>) {
        self.state().pongs.extend(pongs);
    }

    /// The daemon will close this WebSocket with one of these codes.
    pub(super) fn expect_close(&self, codes: &[u16]) {
        self.state().closes = codes.to_vec();
    }

    /// Waits until all that is due has come.
    pub(super) fn settle(&self, patience: Duration) -> Result<(), Broken> {
        self.wait(patience, "what is due does not come", |state| {
            state.dues.is_empty()
                && state.batches.is_empty()
                && state.emits.is_empty()
                && state.calls.is_empty()
                && state.taken_back.is_empty()
                && state.pongs.is_empty()
        })
    }

    /// Waits until the daemon has made this call.
    pub(super) fn wait_for_call(&self, method: &str, patience: Duration) -> Result<(), Broken> {
        self.wait(patience, "the daemon does not call", |state| !state.calls.contains_key(method))
    }

    /// Waits until the daemon has closed its side.
    pub(super) fn wait_for_end(&self, patience: Duration) -> Result<(), Broken> {
        self.wait(patience, "the daemon does not end the connection", |state| state.has_ended)
    }

    /// Whether something is due that can come no more.
    pub(super) fn check_empty(&self) -> Result<(), Broken> {
        let state = self.state();
        match state.is_over || (state.dues.is_empty() && state.batches.is_empty()) {
            true => Ok(()),
            false => {
                Err(Broken::because("the connection ends before all is said", state.shown(), ""))
            }
        }
    }

    fn wait(
        &self,
        patience: Duration,
        what: &str,
        is_done: impl Fn(&State) -> bool,
    ) -> Result<(), Broken> {
        let until = Instant::now() + patience;
        let mut state = self.state();
        loop {
            if let Some(broken) = self.counters.broken() {
                return Err(broken);
            }
            if is_done(&state) {
                return Ok(());
            }
            let now = Instant::now();
            if now >= until || (state.has_ended && !state.is_over) {
                let what =
                    if state.has_ended { "the connection has ended too early" } else { what };
                return Err(Broken::because(what, state.shown(), ""));
            }
            // Now and then a look at what others found.
            let time = (until - now).min(Duration::from_millis(200));
            let woken = self.changed.wait_timeout(state, time);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// From here on less than all may come.
    pub(super) fn break_off(&self) {
        self.state().is_over = true;
    }

    /// Whether less than all may come.
    pub(super) fn is_over(&self) -> bool {
        self.state().is_over
    }

    /// Reading fails. Who breaks off, or is refused, may see the connection broken.
    pub(super) fn lose(&self, error: &io::Error) {
        let state = self.state();
        if !state.is_over && state.closes.is_empty() {
            self.counters.fail(Broken::new(format!("the connection breaks: {error}")));
        }
    }

    /// The daemon has closed its side, after so many bytes that are no whole frame.
    pub(super) fn end(&self, rest: &[u8]) {
        let mut state = self.state();
        state.has_ended = true;
        if !rest.is_empty() && !state.is_over {
            let rest = String::from_utf8_lossy(rest).into_owned();
            self.counters.fail(Broken::because("its output ends with what is no frame", "", &rest));
        }
        if !state.closes.is_empty() && !state.was_closed && !state.is_over {
            let codes = &state.closes;
            self.counters.fail(Broken::because("a WebSocket ends and is not closed", codes, ""));
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Checks what came. What is to be said to it comes back.
    pub(super) fn take(&self, event: Event) -> Option<String> {
        let mut state = self.state();
        if state.is_over {
            return None;
        }
        let outcome = match event {
            Event::Text(text) if text.starts_with('[') => {
                self.take_batch(&mut state, &text).map(|()| None)
            }
            Event::Text(text) => Message::read(&text)
                .map_err(|why| Broken::because(&why, "", &text))
                .and_then(|message| self.take_message(&mut state, &message, &text)),
            // The last of several pings may be answered for all of them.
            Event::Pong(payload) => match state.pongs.iter().position(|ping| *ping == payload) {
                Some(place) => {
                    state.pongs.drain(..=place);
                    Ok(None)
                }
                None => Err(Broken::because("a pong", &state.pongs, &format!("{payload:?}"))),
            },
            Event::Close(code) => {
                state.was_closed = true;
                let is_right = code.is_some_and(|code| state.closes.contains(&code));
                let broken = || Broken::because("closed", &state.closes, &format!("{code:?}"));
                if is_right { Ok(None) } else { Err(broken()) }
            }
        };
        drop(state);
        self.changed.notify_all();
        outcome.unwrap_or_else(|broken| {
            self.counters.fail(broken);
            None
        })
    }

    fn take_message(
        &self,
        state: &mut State,
        message: &Message<'_>,
        text: &str,
    ) -> Result<Option<String>, Broken> {
        if message.get("method").is_none() {
            return self.take_answer(state, message, text).map(|()| None);
        }
        let is_ours = message.get("jsonrpc") == Some("\"2.0\"")
            && message.has_only(&["jsonrpc", "method"], &["id", "params"]);
        if !is_ours {
            return Err(Broken::because("a message is malformed", "", text));
        }
        let method = message.text("method").unwrap_or_default();
        match (message.get("id"), method.as_str()) {
            (None, "event") => state.take_event(message, text).map(|()| None),
            (None, "test.event") => state.take_emitted(message, text).map(|()| None),
            (None, "$/cancelRequest") => state.take_back(message, text).map(|()| None),
            (Some(id), _) => {
                self.counters.count(Group::Actions, "calls by the daemon");
                state.take_call(id, &method, message, text)
            }
            _ => Err(Broken::because("nobody has asked for this", "", text)),
        }
    }

    fn take_answer(
        &self,
        state: &mut State,
        message: &Message<'_>,
        text: &str,
    ) -> Result<(), Broken> {
        let id = message.get("id").unwrap_or_default();
        let places = state.by_id.get(id).map(Vec::as_slice).unwrap_or_default();
        let is_it = |place: &&u64| state.dues[place].is(message, &self.pages);
        let Some(&place) = places.iter().find(is_it) else {
            let of_id: Vec<_> = places.iter().map(|place| &state.dues[place]).collect();
            let what = match places {
                [] => "nothing is due with this id: it was answered before, or never asked",
                _ => "an answer is not what is due",
            };
            return Err(Broken::because(what, of_id, text));
        };
        if !state.dues[&place].may_overtake {
            self.check_order(state, place, text)?;
        }
        state.remove(place);
        let Some(due) = state.dues.remove(&place) else { return Ok(()) };
        self.counters.count(Group::Answers, due.kind);
        state.follow(&due, text)
    }

    /// Whether all that was asked before is answered, if it must be.
    fn check_order(&self, state: &State, place: u64, text: &str) -> Result<(), Broken> {
        let before = state.dues.range(..place).find(|(_, due)| !due.may_overtake);
        let before_in_batch = state.batches.range(..place).next();
        if self.order == Order::Barrier || (before.is_none() && before_in_batch.is_none()) {
            return Ok(());
        }
        let expected = format!("{before:?} {before_in_batch:?}");
        Err(Broken::because("an answer comes before its turn", expected, text))
    }

    fn take_batch(&self, state: &mut State, text: &str) -> Result<(), Broken> {
        let Some(place) = state
            .batches
            .iter()
            .find(|(_, dues)| is_batch(dues, text, &self.pages))
            .map(|(&place, _)| place)
        else {
            let shown = format!("{:?}", state.batches);
            return Err(Broken::because("the answer to a batch is not what is due", shown, text));
        };
        self.check_order(state, place, text)?;
        for due in state.batches.remove(&place).unwrap_or_default() {
            self.counters.count(Group::Answers, due.kind);
        }
        self.counters.count(Group::Answers, "batches");
        Ok(())
    }
}
