//! The state of a connection: what is due on it, and what was promised to come besides answers. Events,
//! notifications and calls of the daemon's are checked here.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::counters::Broken;
use super::expect::{Due, Effect};
use crate::wire::{Message, elements};

/// The topics of events, each with its bit.
const TOPICS: [(&str, u8); 2] = [("log", 1), ("stats", 2)];

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) last: u64,
    pub(super) dues: BTreeMap<u64, Due>,
    pub(super) by_id: HashMap<String, Vec<u64>>,
    pub(super) batches: BTreeMap<u64, Vec<Due>>,
    /// How many notifications each running `test.emit` has sent, and one.
    pub(super) emits: Vec<u64>,
    /// What came of each topic; nothing where no event may come.
    streams: [Option<Stream>; 2],
    /// The client's methods that will be called, and what to say then.
    pub(super) calls: HashMap<String, Call>,
    /// Calls of the daemon's that are never answered: it must take them back.
    pub(super) taken_back: Vec<String>,
    /// What pings said, and pongs must say.
    pub(super) pongs: VecDeque<Vec<u8>>,
    /// The codes with which a WebSocket may be closed, and whether it was.
    pub(super) closes: Vec<u16>,
    pub(super) was_closed: bool,
    /// Whether the daemon has closed its side.
    pub(super) has_ended: bool,
    /// Whether it may leave out the rest, as the connection is being broken off.
    pub(super) is_over: bool,
}

/// The events of a topic that have come: the last number.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    last: u64,
}

/// A call that the daemon will make.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The params as they will come.
    pub(super) params: Option<String>,
    /// What the answer says, without its braces and its id; `None` to say nothing.
    pub(super) says: Option<String>,
}

impl State {
    pub(super) fn remove(&mut self, place: u64) {
        let Some(id) = self.dues.get(&place).map(|due| due.id.clone()) else { return };
        if let Some(places) = self.by_id.get_mut(&id) {
            places.retain(|&it| it != place);
            if places.is_empty() {
                self.by_id.remove(&id);
            }
        }
    }

    /// What else this answer tells.
    pub(super) fn follow(&mut self, due: &Due, text: &str) -> Result<(), Broken> {
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

    /// An event: numbered without a gap, but for those that were dropped right before it, which it counts
    /// (P9).
    pub(super) fn take_event(&mut self, message: &Message<'_>, text: &str) -> Result<(), Broken> {
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
        let dropped = params.number("dropped").unwrap_or(0) as u64;
        if sequence != stream.last + 1 + dropped {
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
    pub(super) fn take_emitted(&mut self, message: &Message<'_>, text: &str) -> Result<(), Broken> {
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

    pub(super) fn take_call(
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
    pub(super) fn take_back(&mut self, message: &Message<'_>, text: &str) -> Result<(), Broken> {
        let params = message.get("params").and_then(|it| Message::read(it).ok());
        let id = params.as_ref().and_then(|params| params.get("id"));
        let place = self.taken_back.iter().position(|it| Some(it.as_str()) == id);
        let place = place.ok_or_else(|| {
            Broken::because("a call is taken back that it should not", &self.taken_back, text)
        })?;
        self.taken_back.swap_remove(place);
        Ok(())
    }

    pub(super) fn shown(&self) -> String {
        let mut shown: Vec<_> = self.dues.values().take(5).map(|due| format!("{due:?}")).collect();
        shown.extend(self.batches.values().take(2).map(|batch| format!("{batch:?}")));
        shown.extend(self.calls.iter().take(2).map(|call| format!("{call:?}")));
        shown.extend(self.emits.iter().map(|next| format!("notification {next} of test.emit")));
        shown.extend(self.taken_back.iter().map(|id| format!("call {id} taken back")));
        shown.extend(self.pongs.iter().map(|ping| format!("pong {ping:?}")));
        format!("{} in all: {}", self.dues.len() + self.batches.len(), shown.join("; "))
    }
}
