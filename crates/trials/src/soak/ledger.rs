//! What is due on a connection, and what comes: each answer once and rightly, and nothing besides.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::expect::{Due, Effect, Pages, is_batch};
use super::tally::{Broken, Tally, Under};
use super::ws::Event;
use crate::wire::{Message, elements};

/// Whether answers keep the order of what they answer (L2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Sequential,
    Barrier,
}

/// The topics of events, each with its bit.
const TOPICS: [(&str, u8); 2] = [("log", 1), ("stats", 2)];

#[derive(Debug)]
pub(super) struct Ledger {
    order: Order,
    state: Mutex<State>,
    changed: Condvar,
    pages: Arc<Pages>,
    tally: Arc<Tally>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    dues: BTreeMap<u64, Due>,
    by_id: HashMap<String, Vec<u64>>,
    batches: BTreeMap<u64, Vec<Due>>,
    /// How many notifications each running `test.emit` has sent, and one.
    emits: Vec<u64>,
    /// What came of each topic; nothing where no event may come.
    streams: [Option<Stream>; 2],
    /// The client's methods that will be called, and what to say then.
    calls: HashMap<String, Call>,
    /// Calls of the daemon's that are never answered: it must take them back.
    taken_back: Vec<String>,
    /// What pings said, and pongs must say.
    pongs: VecDeque<Vec<u8>>,
    /// The codes with which a WebSocket may be closed, and whether it was.
    closes: Vec<u16>,
    was_closed: bool,
    /// Whether the daemon has closed its side.
    has_ended: bool,
    /// Whether it may leave out the rest, as the connection is being broken off.
    is_over: bool,
}

/// The events of a topic: the last number, how many came, and how many were dropped.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    last: u64,
    came: u64,
    dropped: u64,
}

/// A call that the daemon will make.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The params as they will come.
    pub(super) params: Option<String>,
    /// What the answer says, without its braces and its id; `None` to say nothing.
    pub(super) says: Option<String>,
}

impl Ledger {
    pub(super) fn new(order: Order, pages: Arc<Pages>, tally: Arc<Tally>) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Ledger { order, state, changed, pages, tally }
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
            if let Some(broken) = self.tally.broken() {
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
            self.tally.fail(Broken::new(format!("the connection breaks: {error}")));
        }
    }

    /// The daemon has closed its side, after so many bytes that are no whole frame.
    pub(super) fn end(&self, rest: &[u8]) {
        let mut state = self.state();
        state.has_ended = true;
        if !rest.is_empty() && !state.is_over {
            let rest = String::from_utf8_lossy(rest).into_owned();
            self.tally.fail(Broken::because("its output ends with what is no frame", "", &rest));
        }
        if !state.closes.is_empty() && !state.was_closed && !state.is_over {
            let codes = &state.closes;
            self.tally.fail(Broken::because("a WebSocket ends and is not closed", codes, ""));
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
            self.tally.fail(broken);
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
                self.tally.count(Under::Deeds, "calls by the daemon");
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
        self.tally.count(Under::Answers, due.kind);
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
            self.tally.count(Under::Answers, due.kind);
        }
        self.tally.count(Under::Answers, "batches");
        Ok(())
    }
}

impl State {
    fn remove(&mut self, place: u64) {
        let Some(id) = self.dues.get(&place).map(|due| due.id.clone()) else { return };
        if let Some(places) = self.by_id.get_mut(&id) {
            places.retain(|&it| it != place);
            if places.is_empty() {
                self.by_id.remove(&id);
            }
        }
    }

    /// What else this answer tells.
    fn follow(&mut self, due: &Due, text: &str) -> Result<(), Broken> {
        match due.effect {
            Effect::None => {}
            Effect::Emitted(count) => {
                let place = self.emits.iter().position(|&next| next == count + 1);
                let place = place.ok_or_else(|| {
                    Broken::because("answered before all was emitted", &self.emits, text)
                })?;
                self.emits.swap_remove(place);
            }
            Effect::Subscribed(topics) => {
                for (place, (_, bit)) in TOPICS.iter().enumerate() {
                    let stream = self.streams[place].take().unwrap_or_default();
                    self.streams[place] = (topics & bit != 0).then_some(stream);
                }
            }
        }
        Ok(())
    }

    /// An event: numbered without a gap, but for those that were dropped, which are counted (P9). Those of
    /// low priority go first, so one that was dropped may have come after one that was not.
    fn take_event(&mut self, message: &Message<'_>, text: &str) -> Result<(), Broken> {
        let broken = |what: &str| Broken::because(what, "", text);
        let params = message.get("params").ok_or_else(|| broken("an event without params"))?;
        let params = Message::read(params).map_err(|why| broken(&why))?;
        let topic = params.text("topic").unwrap_or_default();
        let place = TOPICS.iter().position(|(name, _)| *name == topic);
        let stream = place.and_then(|place| self.streams[place].as_mut());
        let stream = stream.ok_or_else(|| broken("an event that nobody has subscribed to"))?;
        if !params.has_only(&["topic", "sequence", "data"], &["dropped"]) {
            return Err(broken("an event is malformed"));
        }
        let sequence = params.number("sequence").unwrap_or(0) as u64;
        stream.dropped += params.number("dropped").unwrap_or(0) as u64;
        stream.came += 1;
        if sequence <= stream.last || sequence > stream.came + stream.dropped {
            return Err(Broken::because("an event is missing", stream, text));
        }
        stream.last = sequence;
        let data = Message::read(params.get("data").unwrap_or_default());
        let data = data.map_err(|why| broken(&why))?;
        let is_good = match topic.as_str() {
            "log" => super::log::is_record(&data),
            _ => {
                let names = ["messages", "faults", "inFlight", "bytesReceived", "bytesSent"];
                data.has_only(&names, &[]) && names.iter().all(|name| data.number(name).is_some())
            }
        };
        if is_good { Ok(()) } else { Err(broken("the data of an event is malformed")) }
    }

    /// A notification of `test.emit`. Which of those that run has sent it does not show.
    fn take_emitted(&mut self, message: &Message<'_>, text: &str) -> Result<(), Broken> {
        let number = message.get("params").and_then(elements);
        let number = number.as_deref().and_then(|it| it.first()?.parse::<u64>().ok());
        match self.emits.iter_mut().find(|next| Some(**next) == number) {
            Some(next) => *next += 1,
            None => {
                return Err(Broken::because("emitted out of turn", &self.emits, text));
            }
        }
        Ok(())
    }

    fn take_call(
        &mut self,
        id: &str,
        method: &str,
        message: &Message<'_>,
        text: &str,
    ) -> Result<Option<String>, Broken> {
        let call = self.calls.remove(method);
        let call =
            call.ok_or_else(|| Broken::because("nobody has asked for this call", "", text))?;
        if message.get("params") != call.params.as_deref() {
            return Err(Broken::because("a call has other params", call.params, text));
        }
        if call.says.is_none() {
            self.taken_back.push(id.to_owned());
        }
        Ok(call.says.map(|says| format!(r#"{{"jsonrpc":"2.0","id":{id},{says}}}"#)))
    }

    /// The daemon takes a call back, as it was told to (P3).
    fn take_back(&mut self, message: &Message<'_>, text: &str) -> Result<(), Broken> {
        let params = message.get("params").and_then(|it| Message::read(it).ok());
        let id = params.as_ref().and_then(|params| params.get("id"));
        let place = self.taken_back.iter().position(|it| Some(it.as_str()) == id);
        let place = place.ok_or_else(|| {
            Broken::because("a call is taken back that it should not", &self.taken_back, text)
        })?;
        self.taken_back.swap_remove(place);
        Ok(())
    }

    fn shown(&self) -> String {
        let mut shown: Vec<_> = self.dues.values().take(5).map(|due| format!("{due:?}")).collect();
        shown.extend(self.batches.values().take(2).map(|batch| format!("{batch:?}")));
        shown.extend(self.calls.iter().take(2).map(|call| format!("{call:?}")));
        shown.extend(self.emits.iter().map(|next| format!("notification {next} of test.emit")));
        shown.extend(self.taken_back.iter().map(|id| format!("call {id} taken back")));
        shown.extend(self.pongs.iter().map(|ping| format!("pong {ping:?}")));
        format!("{} in all: {}", self.dues.len() + self.batches.len(), shown.join("; "))
    }
}
