//! What needs quiet around it: storms, bursts, frames that never end, readers that do not read.

use std::time::Duration;

use super::client::{Client, FOREVER};
use super::config::{HEADER_LIMIT, IN_FLIGHT, MESSAGE_LIMIT, STORM};
use super::connection::{Carrier, Unit};
use super::counters::{Broken, Group};
use super::expect::{Due, Outcome};
use super::good;
use super::ledger::Order;
use super::log::Log;
use super::texts::envelope;
use crate::wire::Framing;

impl Client<'_> {
    /// One of them.
    pub(super) fn act(&mut self) -> Result<(), Broken> {
        self.settle()?;
        match self.random.below(14) {
            0 => self.storm()?,
            1 | 2 => self.burst()?,
            3..=5 => self.read_slowly()?,
            6 if self.config.is_alone() => self.leave_log_unread()?,
            7..=9 => self.ask_twice()?,
            10 => self.many_slow()?,
            12 => self.cancel_many()?,
            11 if self.config.carrier() != Carrier::Ws => self.be_refused_at_once()?,
            _ => self.fill_a_message()?,
        }
        self.settle()
    }

    /// Past a thousand faults in a row there is no answer, until something good comes (F7).
    fn storm(&mut self) -> Result<(), Broken> {
        let (good, first, last) = (good::quick(self.config), self.id(), self.id());
        let (more, is_text) = (1 + self.random.below(300), self.random.once_in(2));
        let (text, outcome) = match is_text {
            true => ("}", Outcome::parse_error()),
            false => (r#"{"jsonrpc":"2.0"}"#, Outcome::invalid()),
        };
        self.ask(&good, &first);
        for _ in 0..STORM {
            self.connection.ledger.expect(Due::refusal(outcome.clone()));
        }
        for _ in 0..STORM + more {
            self.say(text);
        }
        self.ask(&good, &last);
        self.counters.add(Group::BadInput, "in storms", (STORM + more) as u64);
        self.counters.count(Group::Actions, "storms");
        self.settle()
    }

    /// More requests than may be under way. Side by side they are refused; one by one they wait (P4, L8).
    fn burst(&mut self) -> Result<(), Broken> {
        self.counters.count(Group::Actions, "bursts");
        let quick = good::quick(self.config);
        if self.config.order() == Order::Sequential {
            let count = 1100 + self.random.below(1000);
            let (first, id) = (good::sleep("test.sleep", 5, false), self.id());
            self.ask(&first, &id);
            for _ in 0..count {
                let id = self.id();
                self.ask(&quick, &id);
            }
            return self.settle();
        }
        // What was called off before counts until its handler has really ended, so which is the first that
        // is too many is not certain; nor is it whether some have ended by then.
        let (asked, busy) = (good::sleep("test.sleep", 100, false), || Outcome::busy(IN_FLIGHT));
        for number in 0..IN_FLIGHT {
            let (id, is_certain) = (self.id(), number < IN_FLIGHT / 2);
            let due = asked.due(&id);
            self.expect(if is_certain { due } else { due.or(busy()) }, None);
            self.say_request(&asked, &id);
        }
        let count = 1 + self.random.below(50);
        for _ in 0..count {
            let id = self.id();
            let mut due = quick.due(&id).or(busy());
            due.kind = "more than are served at once";
            self.expect(due, None);
            self.say_request(&quick, &id);
        }
        self.settle()
    }

    /// Many requests that would never end, each called off.
    fn cancel_many(&mut self) -> Result<(), Broken> {
        let endless = good::sleep("test.sleep", FOREVER, false);
        let count = 1 + self.random.below(IN_FLIGHT / 4);
        let mut ids: Vec<_> = (0..count).map(|_| self.id()).collect();
        for id in &ids {
            let due = Due::new("cancellations", id, Outcome::cancelled());
            self.expect(due.overtaking(), None);
            self.say_request(&endless, id);
        }
        while !ids.is_empty() {
            let id = ids.swap_remove(self.random.below(ids.len()));
            self.say_cancel(&id);
        }
        self.settle()
    }

    /// Nobody reads what is answered, for a while; then nothing of it is lost (L8).
    fn read_slowly(&mut self) -> Result<(), Broken> {
        self.counters.count(Group::Actions, "times that nobody read answers");
        let (nap, sips) = (10 + self.random.below(60), self.random.below(300));
        self.connection.slow_down(nap as u64, sips as u64);
        let count = 10 + self.random.below(30);
        for _ in 0..count {
            let (asked, id) = match self.random.below(3) {
                0 => (self.any(), self.id()),
                _ => (good::big_of(self.random.below(200_000)), self.id()),
            };
            self.ask(&asked, &id);
            self.send();
        }
        self.settle()
    }

    /// Nobody reads the log, for a while: it costs records, and nothing else (L8).
    fn leave_log_unread(&mut self) -> Result<(), Broken> {
        self.counters.count(Group::Actions, "times that nobody read the log");
        let (debug, id) = (good::log_level(&mut self.random, "debug"), self.id());
        self.ask(&debug, &id);
        self.settle()?;
        self.log.nap(20 + self.random.below(50) as u64);
        let quick = good::quick(self.config);
        for _ in 0..10 {
            for _ in 0..100 {
                let id = self.id();
                self.ask(&quick, &id);
            }
            self.settle()?;
        }
        let (info, id) = (good::log_level(&mut self.random, "info"), self.id());
        self.ask(&info, &id);
        self.settle()?;
        self.mark()
    }

    /// Waits until the log has come to what is said now. If it is full that may need more than one try.
    pub(super) fn mark(&mut self) -> Result<(), Broken> {
        self.settle()?;
        for _ in 0..30 {
            // No random numbers here: how many tries there are must not change what is done afterwards.
            self.marks += 1;
            let (name, id) = (Log::mark(self.marks), format!("\"mark {}\"", self.marks));
            let outcome = Outcome::error(-32601, &format!("Method not found: {name}"));
            self.expect(Due::new("marks in the log", &id, outcome), None);
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{name}"}}"#);
            let bytes = self.config.carrier().frame(text.as_bytes());
            self.connection.send(Unit { bytes, cuts: Vec::new() });
            self.connection.settle(self.patience)?;
            if self.log.wait_for_mark(&name, Duration::from_secs(1)) {
                return Ok(());
            }
        }
        Err(Broken::new("the log does not show what was done"))
    }

    /// The same id again while the first request runs (M11).
    fn ask_twice(&mut self) -> Result<(), Broken> {
        self.counters.count(Group::Actions, "ids that were in use");
        let id = self.id();
        if self.config.order() == Order::Sequential {
            for _ in 0..1 + self.random.below(3) {
                let asked = good::sleep("test.sleep", self.random.below(3), true);
                self.ask(&asked, &id);
            }
            return self.settle();
        }
        let endless = good::sleep("test.sleep", FOREVER, true);
        let mut due = endless.due(&id);
        (due.kind, due.outcomes) = ("cancellations", vec![Outcome::cancelled()]);
        self.expect(due, None);
        self.say_request(&endless, &id);
        for _ in 0..1 + self.random.below(5) {
            let asked = self.any();
            let outcome = Outcome::invalid_because("duplicate-id");
            self.expect(Due::new("duplicates", &id, outcome), None);
            self.say_request(&asked, &id);
        }
        self.say_cancel(&id);
        self.settle()
    }

    /// As many handlers that block their threads as there are threads for them, and more.
    pub(super) fn many_slow(&mut self) -> Result<(), Broken> {
        let count = if self.config.order() == Order::Sequential { 5 } else { 40 };
        for _ in 0..count {
            let (asked, id) = (good::sleep("test.block", 20, false), self.id());
            self.ask(&asked, &id);
        }
        self.settle()
    }

    /// What is too long is refused before all of it is there, whatever comes then (F13, F14, F21, F31).
    fn be_refused_at_once(&mut self) -> Result<(), Broken> {
        let length = MESSAGE_LIMIT + 1;
        let text = vec![b'z'; length];
        let (begin, rest, reason) = match self.config.framing {
            Framing::Lsp if self.random.once_in(3) => {
                let begin = format!("X-Long: {}", "h".repeat(HEADER_LIMIT + 1));
                (begin.into_bytes(), b"\r\n\r\n".to_vec(), "header-too-large")
            }
            Framing::Lsp => {
                (format!("Content-Length: {length}\r\n\r\n").into_bytes(), text, "oversize")
            }
            Framing::Length => {
                let prefix = (length as u32).to_be_bytes().to_vec();
                (prefix, [&text[..], b"\n"].concat(), "oversize")
            }
            Framing::Ndjson => (text, b"zz\n".to_vec(), "oversize"),
        };
        self.counters.count(Group::BadInput, "refused before it was whole");
        self.connection.ledger.expect(Due::refusal(Outcome::invalid_because(reason)));
        self.connection.send(Unit { bytes: begin, cuts: Vec::new() });
        self.settle()?;
        // A line has to end; of all else the rest need not come.
        let is_needed = self.config.framing == Framing::Ndjson || reason == "header-too-large";
        if is_needed || self.random.once_in(2) {
            self.connection.send(Unit { bytes: rest, cuts: Vec::new() });
        }
        let (asked, id) = (good::quick(self.config), self.id());
        self.ask(&asked, &id);
        self.settle()
    }

    /// A message as long as it may be.
    fn fill_a_message(&mut self) -> Result<(), Broken> {
        let (quick, id) = (good::quick(self.config), self.id());
        let text = |params: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{},"params":{params}}}"#, quick.method)
        };
        let room = MESSAGE_LIMIT - text(r#"[""]"#).len();
        self.expect(quick.due(&id), None);
        self.say(&text(&format!(r#"["{}"]"#, "y".repeat(room))));
        self.settle()
    }

    /// A frame that does not come to its end, as the log says; its late bytes, and the next frame (F6).
    pub(super) fn stall(&mut self) -> Result<(), Broken> {
        let (level, id) = (good::log_level(&mut self.random, "info"), self.id());
        self.ask(&level, &id);
        self.unsubscribe()?;
        self.mark()?;
        let before = self.log.timeouts();
        let asked = good::quick(self.config);
        let (id, next) = (self.id(), self.id());
        let text = envelope(&mut self.random, Some(&id), &asked.method, Some("[1,2,3]"), &[""]);
        let is_ws = self.config.carrier() == Carrier::Ws;
        if is_ws {
            // The rest could not be told from the next message, so that is the end of it.
            self.connection.ledger.expect_close(&[1008]);
        }
        let frame = self.config.carrier().frame(text.as_bytes());
        let cut = 1 + self.random.below(frame.len() - 1);
        let (begin, rest) = frame.split_at(cut);
        self.connection.send(Unit { bytes: begin.to_vec(), cuts: Vec::new() });
        if !self.log.wait_for_timeouts(before + 1, self.patience) {
            let broken = Broken::new("the log does not say that a frame came too late");
            return Err(self.connection.with_last(broken));
        }
        self.counters.count(Group::Actions, "read timeouts");
        if is_ws {
            return Ok(());
        }
        let late = if self.random.once_in(3) && self.config.framing != Framing::Ndjson {
            &[]
        } else {
            rest
        };
        self.connection.send(Unit { bytes: late.to_vec(), cuts: vec![late.len() / 2] });
        self.ask(&asked, &next);
        self.settle()
    }
}
