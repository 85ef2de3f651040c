//! A client: what it does next comes from its own random numbers alone, never from the time or from what
//! others do, so that the same seed plays the same game again.

use std::sync::Arc;
use std::time::Duration;

use super::bad;
use super::config::{BATCH, Config, IN_FLIGHT};
use super::connection::{Carrier, Connection, Unit};
use super::counters::{Broken, Counters, Group};
use super::expect::{Due, Outcome};
use super::good::{self, Asked};
use super::ledger::Order;
use super::log::Log;
use super::state::Call;
use super::texts::{self, FIXED_IDS, envelope, quoted};
use super::ws;
use crate::random::Random;
use crate::wire::Framing;

/// Longer than any run that ends by itself.
pub(super) const FOREVER: usize = 86_400_000;

pub(super) struct Client<'l> {
    pub(super) random: Random,
    pub(super) config: Config,
    pub(super) connection: &'l Connection,
    pub(super) log: &'l Log,
    pub(super) counters: Arc<Counters>,
    pub(super) patience: Duration,
    /// How many ids were given out.
    numbers: u64,
    /// What is said and not yet sent.
    pending: Vec<u8>,
    /// How many requests may be under way.
    under_way: usize,
    fixed_ids: Vec<&'static str>,
    /// What is subscribed to, as bits.
    topics: u8,
    /// How many marks were put into the log.
    pub(super) marks: u64,
}

impl<'l> Client<'l> {
    pub(super) fn new(
        random: Random,
        config: Config,
        connection: &'l Connection,
        log: &'l Log,
        counters: &Arc<Counters>,
        patience: Duration,
    ) -> Self {
        let (counters, pending) = (Arc::clone(counters), Vec::new());
        let (numbers, under_way, topics) = (0, 0, 0);
        let fixed_ids = Vec::new();
        Client {
            random,
            config,
            connection,
            log,
            counters,
            patience,
            numbers,
            pending,
            under_way,
            fixed_ids,
            topics,
            marks: 0,
        }
    }

    /// White space that may stand in a text.
    pub(super) fn blanks(&self) -> &'static [&'static str] {
        match self.config.framing {
            Framing::Ndjson => &["", "", "", " ", "\t", "  "],
            _ => &["", "", "", " ", "\n", "\r\n\t"],
        }
    }

    /// An id that no other request has, or had.
    pub(super) fn id(&mut self) -> String {
        self.numbers += 1;
        if self.random.once_in(50) && !self.fixed_ids.is_empty() {
            let place = self.random.below(self.fixed_ids.len());
            return self.fixed_ids.swap_remove(place).to_owned();
        }
        texts::id(&mut self.random, self.numbers)
    }

    /// Says this in a frame.
    pub(super) fn say(&mut self, text: &str) {
        let frame = self.frame(text.as_bytes());
        self.pending.extend(frame);
    }

    /// A text as it goes over the wire.
    pub(super) fn frame(&mut self, text: &[u8]) -> Vec<u8> {
        match self.config.carrier() {
            Carrier::Stream(framing) => framing.frame(text),
            Carrier::Ws => {
                let (bytes, pings) = ws::message(&mut self.random, text);
                self.connection.ledger.expect_pongs(pings);
                bytes
            }
        }
    }

    /// Asks for something.
    pub(super) fn ask(&mut self, asked: &Asked, id: &str) {
        self.expect(asked.due(id), asked.error_of);
        self.say_request(asked, id);
    }

    /// An answer is due, and perhaps an error in the log.
    pub(super) fn expect(&mut self, due: Due, error_of: Option<&str>) {
        self.connection.ledger.expect(due);
        self.under_way += 1;
        if let Some(method) = error_of {
            self.log.cause_error(method);
        }
    }

    pub(super) fn say_request(&mut self, asked: &Asked, id: &str) {
        let text = self.text(asked, id);
        self.say(&text);
    }

    fn text(&mut self, asked: &Asked, id: &str) -> String {
        let blanks = self.blanks();
        envelope(&mut self.random, Some(id), &asked.method, asked.params.as_deref(), blanks)
    }

    pub(super) fn any(&mut self) -> Asked {
        let blanks = self.blanks();
        good::any(&mut self.random, self.config, blanks)
    }

    /// Sends what was said, cut anywhere.
    pub(super) fn send(&mut self) {
        let bytes = std::mem::take(&mut self.pending);
        if bytes.is_empty() {
            return;
        }
        let length = bytes.len();
        let mut cuts: Vec<usize> = match self.random.below(10) {
            0 if length < 2000 => (1..length).collect(),
            1 if length < 20_000 => (1..length).step_by(1 + self.random.below(64)).collect(),
            2..=4 => (0..1 + self.random.below(5)).map(|_| self.random.below(length)).collect(),
            _ => Vec::new(),
        };
        cuts.sort_unstable();
        self.connection.send(Unit { bytes, cuts });
    }

    /// Sends all, and waits until all is answered.
    pub(super) fn settle(&mut self) -> Result<(), Broken> {
        self.send();
        self.under_way = 0;
        self.fixed_ids = FIXED_IDS.to_vec();
        self.connection.settle(self.patience)
    }

    /// The first request: once it is answered, the daemon is there.
    pub(super) fn greet(&mut self) -> Result<(), Broken> {
        let (asked, id) = (good::quick(self.config), self.id());
        self.ask(&asked, &id);
        self.settle()
    }

    /// A while of everything that needs no quiet around it.
    pub(super) fn mix(&mut self) -> Result<(), Broken> {
        let steps = 5 + self.random.below(60);
        for _ in 0..steps {
            match self.random.below(100) {
                0..=49 => {
                    let (asked, id) = (self.any(), self.id());
                    self.ask(&asked, &id);
                }
                50..=57 => self.notify(),
                58..=72 => self.be_bad(),
                73..=78 => self.batch(),
                79..=86 => self.cancel(),
                87..=89 => self.set_level(),
                90..=92 if self.config.has_events() => self.subscribe(),
                93..=95 if self.config.has_events() => {
                    let (asked, id) = (good::emit(self.random.below(30)), self.id());
                    self.ask(&asked, &id);
                }
                96.. if self.config.has_callback() => self.be_called()?,
                _ => {
                    let (asked, id) = (good::quick(self.config), self.id());
                    self.ask(&asked, &id);
                }
            }
            if self.random.once_in(3) {
                self.send();
            }
            // Side by side no more may be under way than are served.
            if self.config.order() == Order::Barrier && self.under_way > IN_FLIGHT / 2 {
                self.settle()?;
            }
        }
        self.settle()
    }

    fn notify(&mut self) {
        let (method, params, error_of) = good::notification(&mut self.random);
        if let Some(method) = error_of {
            self.log.cause_error(method);
        }
        let blanks = self.blanks();
        let text = envelope(&mut self.random, None, &method, params.as_deref(), blanks);
        self.say(&text);
        self.counters.count(Group::Actions, "notifications");
    }

    /// Something bad, and something good behind it.
    fn be_bad(&mut self) {
        let (asked, id) = (good::quick(self.config), self.id());
        let request = self.text(&asked, &id);
        let bad = bad::any(&mut self.random, self.config, &request, &id);
        self.counters.count(Group::BadInput, bad.kind);
        for due in bad.answers {
            self.connection.ledger.expect(due);
        }
        let bytes = if bad.is_text { self.frame(&bad.bytes) } else { bad.bytes };
        self.pending.extend(bytes);
        let id = self.id();
        self.ask(&asked, &id);
    }

    fn batch(&mut self) {
        let (mut entries, mut dues) = (Vec::new(), Vec::new());
        let count = 1 + self.random.below(12);
        for _ in 0..count {
            let id = self.id();
            match self.random.below(6) {
                0 => entries.push(r#"{"jsonrpc":"2.0","method":"version"}"#.to_owned()),
                1 if self.random.once_in(2) => {
                    let (text, outcome, id) = bad::bad_message(&mut self.random, self.config, &id);
                    // Inside of a batch an empty one is no request like any other.
                    let is_empty = text == "[]";
                    dues.push(Due::new(
                        "refusals",
                        &id,
                        if is_empty { Outcome::invalid() } else { outcome },
                    ));
                    entries.push(text);
                }
                _ => {
                    let asked = self.any();
                    let asked = if asked.is_plain { asked } else { good::quick(self.config) };
                    dues.push(asked.due(&id));
                    entries.push(self.text(&asked, &id));
                }
            }
        }
        let is_huge = self.random.once_in(40);
        let text = match is_huge {
            true => format!("[{}]", vec!["1"; BATCH + 1].join(",")),
            false => format!("[{}]", entries.join(",")),
        };
        self.counters.count(Group::Actions, "batches sent");
        self.under_way += dues.len();
        let refused = match (self.config.has_batches(), is_huge) {
            (false, _) => Some("batch-not-supported"),
            (true, true) => Some("oversize"),
            (true, false) => None,
        };
        match refused {
            Some(reason) => {
                self.connection.ledger.expect(Due::refusal(Outcome::invalid_because(reason)));
            }
            None => self.connection.ledger.expect_batch(dues),
        }
        self.say(&text);
    }

    /// A request that is called off: at once, or too late.
    fn cancel(&mut self) {
        let is_endless = self.random.once_in(2);
        let asked = match is_endless {
            true => good::sleep("test.sleep", FOREVER, false),
            false => {
                let asked = self.any();
                if asked.is_plain { asked } else { good::quick(self.config) }
            }
        };
        let id = self.id();
        let mut due = asked.due(&id).overtaking();
        due.kind = "cancellations";
        match is_endless {
            true => due.outcomes = vec![Outcome::cancelled()],
            false => due = due.or(Outcome::cancelled()),
        }
        self.expect(due, None);
        self.say_request(&asked, &id);
        if self.random.once_in(3) {
            self.send();
        }
        self.say_cancel(&id);
        self.counters.count(Group::Actions, "cancellations sent");
    }

    pub(super) fn say_cancel(&mut self, id: &str) {
        let method = quoted("$/cancelRequest");
        let params = format!(r#"{{"id":{id}}}"#);
        let text = envelope(&mut self.random, None, &method, Some(&params), &[""]);
        self.say(&text);
    }

    fn set_level(&mut self) {
        // The log is the whole daemon's, and timeouts must show in it.
        let levels = ["debug", "info", "warn", "error"];
        let most = if self.config.is_alone() { 4 } else { 3 };
        let level = levels[self.random.below(most)];
        let (asked, id) = (good::log_level(&mut self.random, level), self.id());
        self.ask(&asked, &id);
    }

    fn subscribe(&mut self) {
        let topics = 1 + self.random.below(3) as u8;
        let is_more = self.random.once_in(2);
        self.topics = if is_more { self.topics | topics } else { self.topics & !topics };
        let verb = if is_more { "subscribe" } else { "unsubscribe" };
        let (asked, id) = (good::subscription(verb, topics, self.topics), self.id());
        self.ask(&asked, &id);
    }

    /// Ends all subscriptions.
    pub(super) fn unsubscribe(&mut self) -> Result<(), Broken> {
        if self.topics != 0 {
            self.topics = 0;
            let (asked, id) = (good::subscription("unsubscribe", 3, 0), self.id());
            self.ask(&asked, &id);
        }
        self.settle()
    }

    /// Has the daemon call this client, which answers, fails, or says nothing until it is called off.
    fn be_called(&mut self) -> Result<(), Broken> {
        let (id, number) = (self.id(), self.numbers);
        let name = format!("client.{number}");
        let has_params = self.random.once_in(2);
        let params = has_params.then(|| format!("[{}]", texts::value(&mut self.random, 3, &[""])));
        let said = params.as_ref().map_or(String::new(), |it| format!(r#","params":{it}"#));
        let asked = format!(r#"{{"method":{}{said}}}"#, quoted(&name));
        let (outcome, says) = match self.random.below(4) {
            0 => {
                let error = r#"{"code":-32042,"message":"no ünit","data":{"why":[1,2]}}"#;
                let data = Some(serde_json::json!({ "why": [1, 2] }));
                let message = "no ünit".to_owned();
                let outcome = Outcome::Error { code: -32042, message, data };
                (outcome, Some(format!("\"error\":{error}")))
            }
            1 => (Outcome::cancelled(), None),
            _ => {
                let value = texts::value(&mut self.random, 3, &[""]);
                (Outcome::Result(value.clone()), Some(format!("\"result\":{value}")))
            }
        };
        let is_never_answered = says.is_none();
        self.connection.ledger.expect_call(name.clone(), Call { params, says });
        self.expect(Due::new("system.callback", &id, outcome).overtaking(), None);
        let method = quoted("system.callback");
        let text = envelope(&mut self.random, Some(&id), &method, Some(&asked), &[""]);
        self.say(&text);
        if is_never_answered {
            self.send();
            let called = self.connection.ledger.wait_for_call(&name, self.patience);
            called.map_err(|broken| self.connection.with_last(broken))?;
            self.say_cancel(&id);
        }
        Ok(())
    }
}
