//! The ledger of a connection: every expected answer, and the check of what comes. Each answer comes once,
//! right and in order, and nothing comes besides (L1, L2, M5).

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use super::counters::{Counters, Failure, Group};
use super::events::Unasked;
use super::expect::{Due, Pages, is_batch};
use super::http::Posts;
use super::message::Message;
use super::wire::Event;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    is_sequential: bool,
    pages: Arc<Pages>,
    pub(crate) counters: Arc<Counters>,
    /// The place of the last request, and of the latest that was answered in order.
    pub(crate) last: u64,
    latest: u64,
    /// The answers that are due, by the place of their requests; batches likewise.
    dues: BTreeMap<u64, Due>,
    batches: BTreeMap<u64, Vec<Due>>,
    pub(crate) unasked: Unasked,
    pub(crate) posts: Posts,
    /// The payloads of pings, which pongs must have.
    pongs: VecDeque<Vec<u8>>,
    /// The codes with which the daemon may close a WebSocket, and whether it did.
    closes: Vec<u16>,
    was_closed: bool,
    /// Whether the daemon has closed its side.
    pub(crate) has_ended: bool,
    /// Whether the rest may be missing, because the connection is being reset.
    pub(crate) is_over: bool,
    /// Whether the connection may break once all is answered, because the daemon refuses the rest of the input.
    pub(crate) may_break: bool,
}

impl Ledger {
    /// For a connection whose answers keep the order of their requests, or not.
    pub(crate) fn new(is_sequential: bool, pages: &Arc<Pages>, counters: &Arc<Counters>) -> Self {
        let (pages, counters) = (Arc::clone(pages), Arc::clone(counters));
        Ledger { is_sequential, pages, counters, ..Ledger::default() }
    }

    /// This answer is due from here on.
    pub(crate) fn expect(&mut self, due: Due) {
        self.last += 1;
        self.unasked.begin(due.effect);
        self.dues.insert(self.last, due);
    }

    /// The answer to a batch is due: these in any order. Without any, there is none.
    pub(crate) fn expect_batch(&mut self, entries: Vec<Due>) {
        if !entries.is_empty() {
            self.last += 1;
            self.batches.insert(self.last, entries);
        }
    }

    /// A POST carries the request of the last answers that are due. Without any, it is accepted with 202.
    pub(crate) fn expect_post(&mut self) {
        self.posts.expect_answers_to(self.last);
    }

    /// Pongs with these payloads are due.
    pub(crate) fn expect_pongs(&mut self, pongs: Vec<Vec<u8>>) {
        self.pongs.extend(pongs);
    }

    /// The daemon will close this WebSocket with one of these codes.
    pub(crate) fn expect_close(&mut self, codes: &[u16]) {
        self.closes = codes.to_vec();
    }

    /// Whether nothing is due.
    pub(crate) fn is_settled(&self) -> bool {
        !self.has_answers_due() && self.unasked.is_empty() && self.pongs.is_empty()
    }

    pub(crate) fn has_answers_due(&self) -> bool {
        !self.dues.is_empty() || !self.batches.is_empty() || !self.posts.is_empty()
    }

    /// Whether a request with this id is unanswered.
    pub(crate) fn is_due(&self, id: &str) -> bool {
        self.dues.values().any(|due| due.id == id)
    }

    /// What is due, in words.
    pub(crate) fn missing(&self) -> String {
        let mut shown: Vec<_> = self.dues.values().take(5).map(|due| format!("{due:?}")).collect();
        shown.extend(self.batches.values().take(2).map(|batch| format!("{batch:?}")));
        shown.extend(self.unasked.shown());
        shown.extend(self.posts.shown());
        shown.extend(self.pongs.iter().map(|ping| format!("pong {ping:?}")));
        format!("{} unanswered: {}", self.dues.len() + self.batches.len(), shown.join("; "))
    }

    /// Checks an event. Returns what the client must answer.
    pub(crate) fn take(&mut self, event: Event) -> Result<Option<String>, Failure> {
        if self.is_over {
            return Ok(None);
        }
        match event {
            Event::Text(text) => self.take_text(&text),
            // The last of several pings may be answered for all of them.
            Event::Pong(payload) => match self.pongs.iter().position(|ping| *ping == payload) {
                Some(place) => {
                    self.pongs.drain(..=place);
                    Ok(None)
                }
                None => Err(Failure::because("a wrong pong", &self.pongs, &format!("{payload:?}"))),
            },
            Event::Close(code) => {
                self.was_closed = true;
                let is_right = code.is_some_and(|code| self.closes.contains(&code));
                let failure = || Failure::because("closed", &self.closes, &format!("{code:?}"));
                if is_right { Ok(None) } else { Err(failure()) }
            }
            Event::Response(status, body) => self.take_response(status, &body).map(|()| None),
        }
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

    /// The response to the oldest request: it has the right status, and answers that request and no other. The
    /// body of an error status is free, but for 413, which answers as every oversize message is answered.
    fn take_response(&mut self, status: u16, body: &str) -> Result<(), Failure> {
        let place = self.posts.take(status, body)?;
        if matches!(status, 200 | 413) {
            self.take_text(body)?;
        }
        let mut left = self.dues.keys().chain(self.batches.keys());
        match left.all(|left| *left > place) {
            true => Ok(()),
            false => Err(Failure::because("a response to another request", self.missing(), body)),
        }
    }

    fn take_answer(&mut self, message: &Message<'_>, text: &str) -> Result<(), Failure> {
        let found = self.dues.iter().find(|(_, due)| due.is(message, &self.pages));
        let Some(place) = found.map(|(&place, _)| place) else {
            let id = message.get("id");
            let of_id: Vec<_> = self.dues.values().filter(|due| id == Some(&due.id)).collect();
            let what = match of_id[..] {
                [] => "nothing is due with this id: it was answered before, or never asked",
                _ => "an answer is not what is due",
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
            let what = "the answer to a batch is not what is due";
            return Err(Failure::because(what, &self.batches, text));
        };
        for due in self.batches.remove(&place).unwrap_or_default() {
            self.counters.count(Group::Answers, due.kind);
        }
        self.counters.count(Group::Answers, "batches");
        self.check_order(place, text)
    }

    /// No answer comes behind that to a later request, where answers keep their order.
    fn check_order(&mut self, place: u64, text: &str) -> Result<(), Failure> {
        if self.is_sequential && place < self.latest {
            let expected = format!("before the answer to request {}", self.latest);
            return Err(Failure::because("answers out of order", expected, text));
        }
        self.latest = self.latest.max(place);
        Ok(())
    }

    /// Reading failed. A client that resets, or is refused, may see the connection break.
    pub(crate) fn lose(&self, error: &io::Error) -> Result<(), Failure> {
        match self.is_over || self.may_break || !self.closes.is_empty() {
            true => Ok(()),
            false => Err(Failure::new(format!("the connection breaks: {error}"))),
        }
    }

    /// The daemon has closed its side, behind these bytes that are no whole frame.
    pub(crate) fn end(&mut self, rest: &[u8]) -> Result<(), Failure> {
        self.has_ended = true;
        if self.is_over {
            return Ok(());
        }
        if !rest.is_empty() {
            let rest = String::from_utf8_lossy(rest).into_owned();
            return Err(Failure::because("its output ends inside a frame", "", &rest));
        }
        match self.closes.is_empty() || self.was_closed {
            true => Ok(()),
            false => Err(Failure::because("a WebSocket ends without a close", &self.closes, "")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::Call;
    use super::super::expect::{Effect, Outcome};
    use super::*;

    /// What is found wrong with these texts, when the ledger was prepared like this.
    fn found(prepare: impl Fn(&mut Ledger), texts: &[&str]) -> Vec<String> {
        let mut ledger = Ledger { is_sequential: true, ..Ledger::default() };
        prepare(&mut ledger);
        let taken = texts.iter().map(|text| ledger.take(Event::Text((*text).to_owned())));
        let mut found: Vec<_> = taken.filter_map(|it| Some(it.err()?.what)).collect();
        found.extend((!ledger.is_settled()).then(|| ledger.missing()));
        found
    }

    /// Two requests with the ids 1 and 2.
    fn two(ledger: &mut Ledger) {
        for id in ["1", "2"] {
            ledger.expect(Due::new("x", id, Outcome::Result("0".to_owned())));
        }
    }

    fn check(prepare: impl Fn(&mut Ledger), texts: &[&str], expect: &[&str]) {
        let found = found(prepare, texts);
        let is_right = found.len() == expect.len()
            && found.iter().zip(expect).all(|(found, expect)| found.contains(expect));
        assert!(is_right, "{texts:?}: {found:?}, and not {expect:?}");
    }

    const ONE: &str = r#"{"jsonrpc":"2.0","id":1,"result":0}"#;
    const TWO: &str = r#"{"jsonrpc":"2.0","id":2,"result":0}"#;

    #[test]
    fn l2_m2_answers_that_are_lost_wrong_doubled_or_out_of_order_are_found() {
        check(two, &[ONE, TWO], &[]);
        check(two, &[ONE], &["1 unanswered"]);
        check(two, &[TWO, ONE], &["answers out of order"]);
        check(two, &[ONE, ONE, TWO], &["nothing is due with this id"]);
        let wrong = r#"{"jsonrpc":"2.0","id":2,"result":7}"#;
        check(two, &[ONE, wrong], &["not what is due", "1 unanswered"]);
        let both = r#"{"jsonrpc":"2.0","id":2,"result":0,"error":{"code":1,"message":""}}"#;
        let bare = r#"{"id":2,"result":0}"#;
        for wrong in [both, bare] {
            check(two, &[ONE, wrong], &["not what is due", "1 unanswered"]);
        }
        check(two, &[ONE, TWO, "{]"], &["not an object"]);
        check(two, &[ONE, TWO, "[]"], &["the answer to a batch"]);
        let batch = |ledger: &mut Ledger| {
            let due = |id| Due::new("x", id, Outcome::Code(-1));
            ledger.expect_batch(vec![due("1"), due("2")]);
        };
        let error = |id: u8| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-1}}}}"#);
        check(batch, &[&format!("[{},{}]", error(2), error(1))], &[]);
        let half = format!("[{},{}]", error(1), error(1));
        check(batch, &[&half], &["the answer to a batch", "1 unanswered"]);
    }

    #[test]
    fn l1_what_comes_unasked_is_found() {
        let event =
            |it: u64| format!(r#"{{"jsonrpc":"2.0","method":"test.event","params":[{it}]}}"#);
        let [first, second, third] = [1, 2, 3].map(event);
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":2}"#;
        let emit = |ledger: &mut Ledger| {
            let due = Due::new("x", "1", Outcome::Result("2".to_owned()));
            ledger.expect(Due { effect: Effect::Emitted(2), ..due });
        };
        check(|_| (), &[&first], &["nobody asked"]);
        check(emit, &[&first, &second, answer], &[]);
        check(emit, &[&first, &second, &third], &["nobody asked", "1 unanswered"]);
        check(emit, &[&first, &first, &second, answer], &["nobody asked"]);
        check(emit, &[&first, answer], &["before all was emitted", "0 unanswered"]);
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"e","params":[1]}"#;
        check(|_| (), &[call], &["nobody asked"]);
        let called = |ledger: &mut Ledger| {
            ledger.unasked.expect_call("e".to_owned(), Call { params: None, says: None });
        };
        check(called, &[call], &["a call has other params"]);
        check(called, &[], &["0 unanswered"]);
        let event = r#"{"jsonrpc":"2.0","method":"event","params":{"topic":"log","sequence":1}}"#;
        check(|_| (), &[event], &["nobody subscribed"]);
        check(|_| (), &[r#"{"jsonrpc":"2.0","method":"x"}"#], &["nobody asked"]);
    }

    #[test]
    fn m5_an_answer_without_an_id_is_one_to_a_fault() {
        let fault = |code: i64| {
            format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":""}}}}"#)
        };
        let one = |ledger: &mut Ledger| {
            ledger.expect(Due::refusal(Outcome::Code(-32700)).or(Outcome::Code(-32600)));
        };
        for code in [-32700, -32600] {
            check(one, &[&fault(code)], &[]);
            check(one, &[&fault(code), &fault(code)], &["nothing is due with this id"]);
        }
        let result = r#"{"jsonrpc":"2.0","id":null,"result":1}"#;
        for wrong in [&fault(-32603), result] {
            check(one, &[wrong], &["not what is due", "1 unanswered"]);
        }
    }

    #[test]
    fn t2_wrong_responses_of_http_are_found() {
        let fails = |status: u16, body: &str| {
            let mut ledger = Ledger::default();
            for id in ["1", "2"] {
                ledger.expect(Due::new("x", id, Outcome::Result("0".to_owned())));
                ledger.expect_post();
            }
            ledger.take(Event::Response(status, body.to_owned())).is_err()
        };
        assert!(!fails(200, ONE));
        for (status, body) in [(202, ""), (200, ""), (413, ONE), (200, TWO)] {
            assert!(fails(status, body), "{status} {body}");
        }
        let mut ledger = Ledger::default();
        assert!(ledger.take(Event::Response(200, ONE.to_owned())).is_err(), "nobody asked");
        for body in ["", "x"] {
            ledger.expect_post();
            assert!(!ledger.is_settled(), "a response is due");
            assert_eq!(ledger.take(Event::Response(202, body.to_owned())).is_ok(), body.is_empty());
        }
    }

    #[test]
    fn t2_wrong_ends_of_a_connection_are_found() {
        let mut ledger = Ledger::default();
        ledger.expect_pongs(vec![vec![1], vec![2]]);
        assert!(ledger.take(Event::Pong(vec![3])).is_err(), "a pong without a ping");
        assert!(!ledger.is_settled(), "pongs are due");
        assert!(ledger.take(Event::Pong(vec![2])).is_ok() && ledger.is_settled(), "for both");
        assert!(ledger.end(b"").is_ok() && ledger.end(b"{").is_err(), "a cut frame");
        ledger.expect_close(&[1000]);
        assert!(ledger.end(b"").is_err(), "no close frame");
        assert!(ledger.take(Event::Close(Some(1002))).is_err(), "another code");
        assert!(ledger.take(Event::Close(Some(1000))).is_ok() && ledger.end(b"").is_ok());
    }
}
