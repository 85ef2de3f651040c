//! A client. Only its random numbers decide its next step, never the time or other clients, so that the same
//! seed repeats the same steps.

use super::bad;
use super::prelude::*;
use super::texts::{self, FIXED_IDS};

pub(super) struct Client<'c> {
    pub(super) all: &'c Clients,
    pub(super) config: Config,
    pub(super) link: Link,
    pub(super) random: Random,
    /// Number of ids used.
    ids: u64,
    /// Bytes not sent yet.
    pending: Vec<u8>,
    /// Number of requests that may be in flight.
    in_flight: usize,
    /// Fixed ids that no request uses.
    free_ids: Vec<&'static str>,
    /// Subscribed topics, as bits.
    topics: u8,
    /// Number of marks in the log.
    pub(super) marks: u64,
}

impl<'c> Client<'c> {
    /// A client that writes and reads these ends.
    pub(super) fn new(
        all: &'c Clients,
        ends: [OwnedFd; 2],
        random: Random,
    ) -> Result<Self, Failure> {
        let config = all.config;
        let ledger = Ledger::new(config.profile.is_sequential(), &all.pages, &all.counters);
        let link = Link::new(ends.map(Some), config.carrier(), ledger);
        let link = link.map_err(|error| Failure::new(format!("no connection: {error}")))?;
        let (ids, pending, in_flight, free_ids, topics, marks) = Default::default();
        Ok(Client { all, config, link, random, ids, pending, in_flight, free_ids, topics, marks })
    }

    /// Returns an unused id.
    pub(super) fn id(&mut self) -> String {
        self.ids += 1;
        if self.random.once_in(50) && !self.free_ids.is_empty() {
            let place = self.random.below(self.free_ids.len());
            return self.free_ids.swap_remove(place).to_owned();
        }
        texts::id(&mut self.random, self.ids)
    }

    pub(super) fn count(&self, what: &'static str) {
        self.all.counters.count(Group::Actions, what);
    }

    /// Queues a text in a frame.
    pub(super) fn say(&mut self, text: &str) {
        let frame = self.frame(text.as_bytes());
        self.pending.extend(frame);
    }

    /// Frames a text for the wire. A WebSocket may have pings in between; HTTP expects a response for each
    /// text.
    pub(super) fn frame(&mut self, text: &[u8]) -> Vec<u8> {
        match self.config.carrier() {
            Framing::Ws => {
                let (bytes, pings) = ws::message(&mut self.random, text);
                self.link.ledger.pongs.extend(pings);
                bytes
            }
            Framing::Http => {
                self.link.ledger.expect_post();
                self.post(text)
            }
            framing => framing.frame(text),
        }
    }

    /// Sends a request with a new id, and expects its answer.
    pub(super) fn ask(&mut self, asked: &Asked) {
        let id = self.id();
        self.ask_as(asked, &id);
    }

    /// Like `ask`, with this id.
    pub(super) fn ask_as(&mut self, asked: &Asked, id: &str) {
        self.all.log.cause_error(asked.error_of);
        self.ask_for(asked, asked.due(id));
    }

    /// Sends a request, and expects this answer.
    pub(super) fn ask_for(&mut self, asked: &Asked, due: Due) {
        let text = self.text(asked, &due.id);
        self.link.ledger.expect(due);
        self.in_flight += 1;
        self.say(&text);
    }

    pub(super) fn text(&mut self, asked: &Asked, id: &str) -> String {
        let (params, blanks) = (asked.params.as_deref(), self.config.blanks());
        envelope(&mut self.random, Some(id), &asked.method, params, blanks)
    }

    pub(super) fn any(&mut self) -> Asked {
        good::any(&mut self.random, self.config)
    }

    /// Any request that may be in a batch, or be cancelled.
    fn any_plain(&mut self) -> Asked {
        let asked = self.any();
        if asked.is_plain { asked } else { good::quick(self.config) }
    }

    /// Expects the answer to input that is not a request.
    pub(super) fn expect_refusal(&mut self, outcome: Outcome) {
        self.link.ledger.expect(Due::refusal(outcome));
    }

    /// Sends everything queued, cut at random positions.
    pub(super) fn send(&mut self) {
        let bytes = std::mem::take(&mut self.pending);
        let length = bytes.len();
        if length == 0 {
            return;
        }
        let mut cuts: Vec<usize> = match self.random.below(10) {
            0 if length < 2000 => (1..length).collect(),
            1 if length < 20_000 => (1..length).step_by(1 + self.random.below(64)).collect(),
            2..=4 => (0..1 + self.random.below(5)).map(|_| self.random.below(length)).collect(),
            _ => Vec::new(),
        };
        cuts.sort_unstable();
        self.send_bytes(&bytes, &cuts);
    }

    /// Sends everything, and waits until all is answered.
    pub(super) fn settle(&mut self) -> Result<(), Failure> {
        self.send();
        self.in_flight = 0;
        self.free_ids = FIXED_IDS.to_vec();
        self.wait("a due answer does not come", |link| link.ledger.is_settled())
    }

    /// Makes the first request: once it is answered, the daemon is up.
    pub(super) fn greet(&mut self) -> Result<(), Failure> {
        self.ask(&good::quick(self.config));
        self.settle()
    }

    /// Runs random steps that need no idle connection.
    pub(super) fn mix(&mut self) -> Result<(), Failure> {
        let steps = 5 + self.random.below(60);
        for _ in 0..steps {
            match self.random.below(100) {
                0..=49 => {
                    let asked = self.any();
                    self.ask(&asked);
                }
                50..=57 => self.notify(),
                58..=72 => self.be_bad(),
                73..=78 => self.batch(),
                79..=86 if !self.config.is_http() => self.cancel(),
                87..=89 => {
                    // The log belongs to all clients, and read timeouts must show in it.
                    let most = if self.config.is_alone() { 4 } else { 3 };
                    let level = ["debug", "info", "warn", "error"][self.random.below(most)];
                    let asked = good::log_level(&mut self.random, level);
                    self.ask(&asked);
                }
                90..=92 if self.config.has_events() => self.subscribe(),
                93..=95 if self.config.has_events() => {
                    let asked = good::emit(self.random.below(30));
                    self.ask(&asked);
                }
                96.. if self.config.has_callback() => self.be_called()?,
                _ => self.ask(&good::quick(self.config)),
            }
            if self.random.once_in(3) {
                self.send();
            }
            // Keep fewer requests in flight than are served concurrently.
            if !self.config.profile.is_sequential() && self.in_flight > IN_FLIGHT / 2 {
                self.settle()?;
            }
        }
        self.settle()
    }

    fn notify(&mut self) {
        let (method, params, error_of) = good::notification(&mut self.random);
        self.all.log.cause_error(error_of);
        let text = envelope(&mut self.random, None, &method, params, self.config.blanks());
        self.say(&text);
        self.count("notifications");
    }

    /// Sends bad input, and a good request after it.
    fn be_bad(&mut self) {
        let (asked, id) = (good::quick(self.config), self.id());
        let request = self.text(&asked, &id);
        let bad = bad::any(&mut self.random, self.config, &request, &id);
        self.all.counters.count(Group::BadInput, bad.kind);
        bad.answers.into_iter().for_each(|due| self.link.ledger.expect(due));
        let bytes = if bad.is_text { self.frame(&bad.bytes) } else { bad.bytes };
        self.pending.extend(bytes);
        self.ask(&asked);
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
                    // Inside a batch, an empty batch is an invalid request like any other.
                    let outcome = if text == "[]" { Outcome::invalid() } else { outcome };
                    dues.push(Due::new("refusals", &id, outcome));
                    entries.push(text);
                }
                _ => {
                    let asked = self.any_plain();
                    dues.push(asked.due(&id));
                    entries.push(self.text(&asked, &id));
                }
            }
        }
        let is_huge = self.random.once_in(40);
        if is_huge {
            entries = vec!["1".to_owned(); BATCH + 1];
        }
        self.count("batches sent");
        self.in_flight += dues.len();
        match (self.config.has_batches(), is_huge) {
            (false, _) => self.expect_refusal(Outcome::invalid_because("batch-not-supported")),
            (true, true) => self.expect_refusal(Outcome::invalid_because("oversize")),
            (true, false) => self.link.ledger.expect_batch(dues),
        }
        self.say(&format!("[{}]", entries.join(",")));
    }

    /// Sends a request and cancels it, immediately or too late.
    fn cancel(&mut self) {
        let is_endless = self.random.once_in(2);
        let asked = match is_endless {
            true => good::sleep("test.sleep", FOREVER, false),
            false => self.any_plain(),
        };
        let mut due = asked.due(&self.id()).overtaking();
        due.kind = "cancellations";
        match is_endless {
            true => due.outcomes = vec![Outcome::cancelled()],
            false => due.outcomes.push(Outcome::cancelled()),
        }
        let id = due.id.clone();
        self.ask_for(&asked, due);
        if self.random.once_in(3) {
            self.send();
        }
        self.say_cancel(&id);
        self.count("cancellations sent");
    }

    pub(super) fn say_cancel(&mut self, id: &str) {
        let (method, params) = (quoted("$/cancelRequest"), format!(r#"{{"id":{id}}}"#));
        let text = envelope(&mut self.random, None, &method, Some(&params), &[""]);
        self.say(&text);
    }

    fn subscribe(&mut self) {
        let topics = 1 + self.random.below(3) as u8;
        let is_more = self.random.once_in(2);
        self.topics = if is_more { self.topics | topics } else { self.topics & !topics };
        self.ask(&good::subscription(is_more, topics, self.topics));
    }

    /// Ends all subscriptions.
    pub(super) fn unsubscribe(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.topics) != 0 {
            self.ask(&good::subscription(false, 3, 0));
        }
        self.settle()
    }

    /// Makes the daemon call this client, which answers, fails, or stays silent until the call is cancelled.
    fn be_called(&mut self) -> Result<(), Failure> {
        let id = self.id();
        let name = format!("client.{}", self.ids);
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
        let ledger = &mut self.link.ledger;
        ledger.unasked.calls.insert(name.clone(), Call { params, says });
        ledger.expect(Due::new("system.callback", &id, outcome).overtaking());
        self.in_flight += 1;
        let method = quoted("system.callback");
        let text = envelope(&mut self.random, Some(&id), &method, Some(&asked), &[""]);
        self.say(&text);
        if is_never_answered {
            self.send();
            let what = "the daemon does not call";
            self.wait(what, |it| !it.ledger.unasked.calls.contains_key(&name))?;
            self.say_cancel(&id);
        }
        Ok(())
    }
}
