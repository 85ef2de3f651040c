//! Messages from the daemon that are not answers: events, notifications of `test.emit`, and the daemon's own
//! calls.

use super::message::elements;
use crate::harness::prelude::*;

/// The topics of events, each with its bit.
const TOPICS: [(&str, u8); 2] = [("log", 1), ("stats", 2)];

/// Messages that may arrive on a connection besides answers.
#[derive(Debug, Default)]
pub(crate) struct Unasked {
    /// Next number of each running `test.emit`, and their counts. A notification does not show which
    /// `test.emit` sent it, so the two lists are not paired.
    emits: Vec<u64>,
    emit_counts: Vec<u64>,
    /// Last number of each topic; `None` if no event may come.
    streams: [Option<u64>; 2],
    /// Client methods that the daemon will call.
    pub(crate) calls: BTreeMap<String, Call>,
    /// Calls of the daemon that stay unanswered: it must cancel them.
    to_cancel: Vec<String>,
}

/// A call that the daemon will make.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The expected params, as written.
    pub(crate) params: Option<String>,
    /// The answer, without braces and id; `None` for no answer.
    pub(crate) says: Option<String>,
}

impl Unasked {
    pub(crate) fn is_empty(&self) -> bool {
        self.emits.is_empty() && self.calls.is_empty() && self.to_cancel.is_empty()
    }

    pub(crate) fn shown(&self) -> Vec<String> {
        let calls = self.calls.iter().take(2).map(|call| format!("{call:?}"));
        let emits = self.emits.iter().map(|next| format!("notification {next} of test.emit"));
        let to_cancel = self.to_cancel.iter().map(|id| format!("the cancellation of call {id}"));
        calls.chain(emits).chain(to_cancel).collect()
    }

    /// Records that a request with this effect was sent.
    pub(crate) fn begin(&mut self, effect: Effect) {
        if let Effect::Emitted(count) = effect {
            self.emits.push(1);
            self.emit_counts.push(count);
        }
    }

    /// Records that the answer with this effect came.
    pub(crate) fn follow(&mut self, effect: Effect, text: &str) -> Result<(), Failure> {
        match effect {
            Effect::None => {}
            Effect::Emitted(count) => {
                let is_done = remove(&mut self.emits, |&next| next == count + 1).is_some();
                let what = "answered before all was emitted";
                Failure::unless(is_done, what, &self.emits, text)?;
                remove(&mut self.emit_counts, |&it| it == count);
            }
            Effect::Subscribed(topics) => {
                for (stream, (_, bit)) in self.streams.iter_mut().zip(TOPICS) {
                    *stream = (topics & bit != 0).then_some(stream.unwrap_or_default());
                }
            }
        }
        Ok(())
    }

    /// Checks a request or notification of the daemon. Returns the answer to it.
    pub(crate) fn take(
        &mut self,
        message: &Message<'_>,
        text: &str,
    ) -> Result<Option<String>, Failure> {
        let is_ours = message.get("jsonrpc") == Some("\"2.0\"")
            && message.has_only(&["jsonrpc", "method"], &["id", "params"]);
        Failure::unless(is_ours, "a message is malformed", "", text)?;
        let method = message.text("method").unwrap_or_default();
        match (message.get("id"), method.as_str()) {
            (None, "event") => self.take_event(message, text).map(|()| None),
            (None, "test.event") => self.take_emitted(message, text).map(|()| None),
            (None, "$/cancelRequest") => self.take_cancellation(message, text).map(|()| None),
            (Some(id), _) => self.take_call(id, &method, message, text),
            _ => Err(Failure::because("an unexpected message", "", text)),
        }
    }

    /// Checks an event: the numbers have no gap, except for events dropped right before it, which it counts
    /// (P9).
    fn take_event(&mut self, message: &Message<'_>, text: &str) -> Result<(), Failure> {
        let failure = |what: &str| Failure::because(what, "", text);
        let params = message.get("params").ok_or_else(|| failure("an event without params"))?;
        let params = Message::read(params).map_err(|why| failure(&why))?;
        let topic = params.text("topic").unwrap_or_default();
        let place = TOPICS.iter().position(|(name, _)| *name == topic);
        let last = place.and_then(|place| self.streams[place].as_mut());
        let last = last.ok_or_else(|| failure("an event without a subscription"))?;
        let is_event = params.has_only(&["topic", "sequence", "data"], &["dropped"]);
        Failure::unless(is_event, "an event is malformed", "", text)?;
        let sequence = params.number("sequence").unwrap_or(0) as u64;
        let dropped = params.number("dropped").unwrap_or(0) as u64;
        let is_next = sequence == *last + 1 + dropped;
        Failure::unless(is_next, "an event is missing", &last, text)?;
        *last = sequence;
        let data = Message::read(params.get("data").unwrap_or_default());
        let data = data.map_err(|why| failure(&why))?;
        let is_good = match topic.as_str() {
            "log" => is_record(&data),
            _ => {
                let names = ["messages", "faults", "inFlight", "bytesReceived", "bytesSent"];
                data.has_only(&names, &[]) && names.iter().all(|name| data.number(name).is_some())
            }
        };
        Failure::unless(is_good, "the data of an event is malformed", "", text)
    }

    /// Checks a notification of `test.emit`: it must continue one of them, within its count.
    fn take_emitted(&mut self, message: &Message<'_>, text: &str) -> Result<(), Failure> {
        let number = message.get("params").and_then(elements);
        let number = number.filter(|it| it.len() == 1).and_then(|it| it[0].parse::<u64>().ok());
        let next = self.emits.iter_mut().find(|next| Some(**next) == number);
        let is_next = next.map(|next| *next += 1).is_some();
        // A valid pairing exists exactly if the sorted lists form one.
        self.emits.sort_unstable();
        self.emit_counts.sort_unstable();
        let mut pairs = self.emits.iter().zip(&self.emit_counts);
        let is_asked = is_next && pairs.all(|(next, count)| next - 1 <= *count);
        Failure::unless(is_asked, "an unexpected message", &self.emits, text)
    }

    fn take_call(
        &mut self,
        id: &str,
        method: &str,
        message: &Message<'_>,
        text: &str,
    ) -> Result<Option<String>, Failure> {
        let call = self.calls.remove(method);
        let call = call.ok_or_else(|| Failure::because("an unexpected message", "", text))?;
        let is_same = message.get("params") == call.params.as_deref();
        Failure::unless(is_same, "a call has other params", call.params, text)?;
        if call.says.is_none() {
            self.to_cancel.push(id.to_owned());
        }
        Ok(call.says.map(|says| format!(r#"{{"jsonrpc":"2.0","id":{id},{says}}}"#)))
    }

    /// Checks a cancellation: the daemon cancels its call because its own request was cancelled (P3).
    fn take_cancellation(&mut self, message: &Message<'_>, text: &str) -> Result<(), Failure> {
        let params = message.get("params").and_then(|it| Message::read(it).ok());
        let id = params.as_ref().and_then(|params| params.get("id"));
        let is_right = remove(&mut self.to_cancel, |it| Some(it.as_str()) == id).is_some();
        Failure::unless(is_right, "a wrong call is cancelled", &self.to_cancel, text)
    }
}

/// Removes the first match.
pub(crate) fn remove<T>(from: &mut Vec<T>, is_it: impl Fn(&T) -> bool) -> Option<T> {
    from.iter().position(is_it).map(|place| from.swap_remove(place))
}

/// Returns true for a log record: the right members, with values in their form (G3, G5, G6).
pub(crate) fn is_record(record: &Message<'_>) -> bool {
    let is_time = |text: &str| {
        let shape = text.chars().map(|it| if it.is_ascii_digit() { '0' } else { it });
        shape.eq("0000-00-00T00:00:00.000Z".chars())
    };
    // No character may move the cursor, end a line, or change the text direction.
    let plays = |it: char| it.is_control() || matches!(it, '\u{2028}'..='\u{202e}');
    let is_text = |name: &str, most: usize| {
        record.get(name).is_some_and(|it| !it.contains(plays))
            && record.text(name).is_some_and(|it| it.chars().count() <= most)
    };
    let is_id = |id: &str| {
        let text = serde_json::from_str::<String>(id).unwrap_or_else(|_| id.to_owned());
        !id.starts_with(['{', '[', 't', 'f']) && text.chars().count() <= 64
    };
    record.has_only(&["timestamp", "severity", "message"], &["method", "id"])
        && record.text("timestamp").as_deref().is_some_and(is_time)
        && matches!(record.text("severity").as_deref(), Some("debug" | "info" | "warn" | "error"))
        && is_text("message", usize::MAX)
        && (record.get("method").is_none() || is_text("method", 128))
        && record.get("id").is_none_or(is_id)
}
