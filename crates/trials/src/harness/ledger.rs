//! The ledger of a connection: all expected answers, and the check of everything received. Each answer comes
//! once, right and in order, and nothing else comes (L1, L2, M5).

use super::events::Unasked;
use super::expect::is_batch;
use crate::harness::prelude::*;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    is_sequential: bool,
    pages: Arc<Pages>,
    pub(crate) counters: Arc<Counters>,
    /// Position of the last request, and of the latest request answered in order.
    pub(crate) last: u64,
    latest: u64,
    /// Due answers, and due answers to batches, by the positions of their requests.
    dues: BTreeMap<u64, Due>,
    batches: BTreeMap<u64, Vec<Due>>,
    pub(crate) unasked: Unasked,
    /// Due HTTP responses: the status, and the last position that each answers.
    posts: VecDeque<(u16, u64)>,
    /// Position of the last expected response.
    last_post: u64,
    /// Due pongs, each with the payload of its ping.
    pub(crate) pongs: VecDeque<Vec<u8>>,
    /// Codes with which the daemon may close a WebSocket, and true if it did.
    pub(crate) closes: Vec<u16>,
    was_closed: bool,
    /// True once the daemon has closed its side.
    pub(crate) has_ended: bool,
    /// True if the rest may be missing, because the connection is being reset.
    pub(crate) is_over: bool,
    /// True if the connection may break once all is answered, because the daemon refuses the rest of the
    /// input.
    pub(crate) may_break: bool,
}

impl Ledger {
    /// A ledger for a connection, with answers in the order of their requests or not.
    pub(crate) fn new(is_sequential: bool, pages: &Arc<Pages>, counters: &Arc<Counters>) -> Self {
        let (pages, counters) = (Arc::clone(pages), Arc::clone(counters));
        Ledger { is_sequential, pages, counters, ..Ledger::default() }
    }

    /// Expects this answer from now on.
    pub(crate) fn expect(&mut self, due: Due) {
        self.last += 1;
        self.unasked.begin(due.effect);
        self.dues.insert(self.last, due);
    }

    /// Expects the answer to a batch: these entries in any order. Without entries, there is no answer.
    pub(crate) fn expect_batch(&mut self, entries: Vec<Due>) {
        if !entries.is_empty() {
            self.last += 1;
            self.batches.insert(self.last, entries);
        }
    }

    /// Expects the response to a POST that carries the latest requests. Without requests, the status is 202.
    pub(crate) fn expect_post(&mut self) {
        let status = if self.last > self.last_post { 200 } else { 202 };
        self.last_post = self.last;
        self.expect_status(status);
    }

    /// Expects a response with this status.
    pub(crate) fn expect_status(&mut self, status: u16) {
        self.posts.push_back((status, self.last_post));
    }

    /// Returns true if nothing is due.
    pub(crate) fn is_settled(&self) -> bool {
        !self.has_answers_due() && self.unasked.is_empty() && self.pongs.is_empty()
    }

    pub(crate) fn has_answers_due(&self) -> bool {
        !self.dues.is_empty() || !self.batches.is_empty() || !self.posts.is_empty()
    }

    /// Returns true if a request with this id is unanswered.
    pub(crate) fn is_due(&self, id: &str) -> bool {
        self.dues.values().any(|due| due.id == id)
    }

    /// Describes everything that is due.
    pub(crate) fn missing(&self) -> String {
        let mut shown: Vec<_> = self.dues.values().take(5).map(|due| format!("{due:?}")).collect();
        shown.extend(self.batches.values().take(2).map(|batch| format!("{batch:?}")));
        shown.extend(self.unasked.shown());
        shown.extend(self.posts.front().map(|(status, _)| format!("a response with {status}")));
        shown.extend(self.pongs.iter().map(|ping| format!("pong {ping:?}")));
        format!("{} unanswered: {}", self.dues.len() + self.batches.len(), shown.join("; "))
    }

    /// Checks an event. Returns the client's answer, if one is needed.
    pub(crate) fn take(&mut self, event: Event) -> Result<Option<String>, Failure> {
        if self.is_over {
            return Ok(None);
        }
        match event {
            Event::Text(text) => return self.take_text(&text),
            Event::Response(status, body) => self.take_response(status, &body)?,
            Event::Pong(payload) => {
                let place = self.pongs.iter().position(|ping| *ping == payload);
                let came = format!("{payload:?}");
                Failure::unless(place.is_some(), "a wrong pong", &self.pongs, came)?;
                // One pong may answer several pings, with the payload of the last.
                place.map(|place| self.pongs.drain(..=place));
            }
            Event::Close(code) => {
                self.was_closed = true;
                let is_right = code.is_some_and(|code| self.closes.contains(&code));
                Failure::unless(is_right, "closed", &self.closes, format_args!("{code:?}"))?;
            }
        }
        Ok(None)
    }

    fn take_text(&mut self, text: &str) -> Result<Option<String>, Failure> {
        if text.starts_with('[') {
            return self.take_batch(text).map(|()| None);
        }
        let message = Message::read(text).map_err(|why| Failure::because(&why, "", text))?;
        if message.get("method").is_none() {
            return self.take_answer(&message, text).map(|()| None);
        }
        if message.get("id").is_some() {
            self.counters.count(Group::Actions, "calls by the daemon");
        }
        self.unasked.take(&message, text)
    }

    /// Checks the response to the oldest POST: it must have the right status and answer that POST only. The
    /// body of an error status is free, except for 413, which carries the answer for oversize messages.
    fn take_response(&mut self, status: u16, body: &str) -> Result<(), Failure> {
        let (expected, place) = self.posts.pop_front().unwrap_or_default();
        let is_right = status == expected && (status != 202 || body.is_empty());
        Failure::unless(is_right, "a wrong response", expected, format_args!("{status} {body}"))?;
        if matches!(status, 200 | 413) {
            self.take_text(body)?;
        }
        let mut left = self.dues.keys().chain(self.batches.keys());
        if left.any(|left| *left <= place) {
            return Err(Failure::because("a response to another request", self.missing(), body));
        }
        Ok(())
    }

    fn take_answer(&mut self, message: &Message<'_>, text: &str) -> Result<(), Failure> {
        let found = self.dues.iter().find(|(_, due)| due.is(message, &self.pages));
        let Some(place) = found.map(|(&place, _)| place) else {
            let id = message.get("id");
            let of_id: Vec<_> = self.dues.values().filter(|due| id == Some(&due.id)).collect();
            let what = match of_id[..] {
                [] => "nothing is due with this id: it was answered before, or never asked",
                _ => "an answer differs from the due one",
            };
            return Err(Failure::because(what, of_id, text));
        };
        let Some(due) = self.dues.remove(&place) else { return Ok(()) };
        self.counters.count(Group::Answers, due.kind);
        self.unasked.follow(due.effect, text)?;
        if due.may_overtake { Ok(()) } else { self.check_order(place, text) }
    }

    fn take_batch(&mut self, text: &str) -> Result<(), Failure> {
        let found = self.batches.iter().find(|(_, dues)| is_batch(dues, text, &self.pages));
        let Some(place) = found.map(|(&place, _)| place) else {
            let what = "the answer to a batch differs from the due one";
            return Err(Failure::because(what, &self.batches, text));
        };
        for due in self.batches.remove(&place).unwrap_or_default() {
            self.counters.count(Group::Answers, due.kind);
        }
        self.counters.count(Group::Answers, "batches");
        self.check_order(place, text)
    }

    /// Checks that no answer follows the answer to a later request, if answers keep their order.
    fn check_order(&mut self, place: u64, text: &str) -> Result<(), Failure> {
        let is_late = self.is_sequential && place < self.latest;
        let expected = format!("before the answer to request {}", self.latest);
        Failure::unless(!is_late, "answers out of order", expected, text)?;
        self.latest = self.latest.max(place);
        Ok(())
    }

    /// Handles a read error. A client that resets, or is refused, may see the connection break.
    pub(crate) fn lose(&self, error: &io::Error) -> Result<(), Failure> {
        let may_break = self.is_over || self.may_break || !self.closes.is_empty();
        Failure::unless(may_break, "the connection breaks", "", error)
    }

    /// Handles the end of the daemon's output; `rest` is an incomplete frame.
    pub(crate) fn end(&mut self, rest: &[u8]) -> Result<(), Failure> {
        self.has_ended = true;
        if self.is_over {
            return Ok(());
        }
        let cut = String::from_utf8_lossy(rest);
        Failure::unless(rest.is_empty(), "its output ends inside a frame", "", &cut)?;
        let is_closed = self.closes.is_empty() || self.was_closed;
        Failure::unless(is_closed, "a WebSocket ends without a close", &self.closes, "")
    }
}

#[cfg(test)]
mod tests;
