//! Scenarios that need an idle connection: storms, bursts, incomplete frames, slow readers.

use super::log::MARK;
use super::prelude::*;

impl Client<'_> {
    /// Runs a random scenario.
    pub(super) fn scenario(&mut self) -> Result<(), Failure> {
        self.settle()?;
        match self.random.below(14) {
            0 => self.storm(),
            1 | 2 => self.burst(),
            3..=5 => self.read_slowly(),
            6 if self.config.is_alone() => self.leave_log_unread()?,
            7..=9 => self.ask_twice(),
            10 => self.many_slow()?,
            12 => self.cancel_many(),
            11 if !self.config.is_ws() => self.be_refused_early()?,
            _ => self.fill_a_message(),
        }
        self.settle()
    }

    /// Sends more than a thousand consecutive faults: the rest gets no answer, until a good message comes
    /// (F7).
    fn storm(&mut self) {
        let (more, is_text) = (1 + self.random.below(300), self.random.once_in(2));
        let (text, outcome) = match is_text {
            true => ("}", Outcome::parse_error()),
            false => (r#"{"jsonrpc":"2.0"}"#, Outcome::invalid()),
        };
        self.ask(&good::quick(self.config));
        (0..STORM).for_each(|_| self.expect_refusal(outcome.clone()));
        (0..STORM + more).for_each(|_| self.say(text));
        self.ask(&good::quick(self.config));
        self.all.counters.add(Group::BadInput, "in storms", (STORM + more) as u64);
        self.count("storms");
    }

    /// Sends more requests than may be in flight. Concurrent ones are refused; sequential ones wait (P4, L8).
    fn burst(&mut self) {
        self.count("bursts");
        let quick = good::quick(self.config);
        if self.config.profile.is_sequential() {
            let count = 1100 + self.random.below(1000);
            self.ask(&good::sleep("test.sleep", 5, false));
            return (0..count).for_each(|_| self.ask(&quick));
        }
        // A cancelled request counts until its handler has ended, and others may end meanwhile. So it is not
        // certain which request is the first one over the limit.
        let (asked, busy) = (good::sleep("test.sleep", 100, false), || Outcome::busy(IN_FLIGHT));
        for number in 0..IN_FLIGHT {
            let due = asked.due(&self.id());
            self.ask_for(&asked, if number < IN_FLIGHT / 2 { due } else { due.or(busy()) });
        }
        for _ in 0..1 + self.random.below(50) {
            let due = quick.due(&self.id()).or(busy());
            self.ask_for(&quick, Due { kind: "above the limit", ..due });
        }
    }

    /// Sends many requests that would never end, and cancels each.
    fn cancel_many(&mut self) {
        let endless = good::sleep("test.sleep", FOREVER, false);
        let count = 1 + self.random.below(IN_FLIGHT / 4);
        let mut ids: Vec<_> = (0..count).map(|_| self.id()).collect();
        for id in &ids {
            let due = Due::new("cancellations", id, Outcome::cancelled());
            self.ask_for(&endless, due.overtaking());
        }
        while !ids.is_empty() {
            let id = ids.swap_remove(self.random.below(ids.len()));
            self.say_cancel(&id);
        }
    }

    /// Leaves the answers unread for a while; none of them may be lost (L8).
    fn read_slowly(&mut self) {
        self.count("pauses in reading answers");
        let nap = Duration::from_millis(10 + self.random.below(60) as u64);
        self.link.slow_down(nap, self.random.below(300) as u64);
        for _ in 0..10 + self.random.below(30) {
            let asked = match self.random.below(3) {
                0 => self.any(),
                _ => good::big(self.random.below(200_000)),
            };
            self.ask(&asked);
            self.send();
        }
    }

    /// Leaves the log unread for a while: that costs only records (L8).
    fn leave_log_unread(&mut self) -> Result<(), Failure> {
        self.count("pauses in reading the log");
        self.set_level("debug")?;
        self.all.log.nap.store(20 + self.random.below(50) as u64, Ordering::Release);
        for _ in 0..10 {
            (0..100).for_each(|_| self.ask(&good::quick(self.config)));
            self.settle()?;
        }
        self.set_level("info")?;
        self.mark()
    }

    fn set_level(&mut self, level: &str) -> Result<(), Failure> {
        let asked = good::log_level(&mut self.random, level);
        self.ask(&asked);
        self.settle()
    }

    /// Waits until the log shows a mark. A full log may need several tries.
    fn mark(&mut self) -> Result<(), Failure> {
        self.settle()?;
        for _ in 0..30 {
            // No random numbers here: the number of tries must not affect later steps.
            self.marks += 1;
            let (name, id) = (format!("{MARK}{}", self.marks), format!("\"mark {}\"", self.marks));
            let outcome = Outcome::error(-32601, &format!("Method not found: {name}"));
            self.link.ledger.expect(Due::new("marks in the log", &id, outcome));
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{name}"}}"#);
            self.send_bytes(&self.config.carrier().frame(text.as_bytes()), &[]);
            self.settle()?;
            if self
                .all
                .log
                .wait(Duration::from_secs(1), |log| log.last_mark.as_ref() == Some(&name))
            {
                return Ok(());
            }
        }
        Err(Failure::new("the log does not show the mark"))
    }

    /// Reuses an id while its first request runs (M11).
    fn ask_twice(&mut self) {
        self.count("ids in use");
        let id = self.id();
        if self.config.profile.is_sequential() {
            for _ in 0..1 + self.random.below(3) {
                let asked = good::sleep("test.sleep", self.random.below(3), true);
                self.ask_as(&asked, &id);
            }
            return;
        }
        let endless = good::sleep("test.sleep", FOREVER, true);
        self.ask_for(&endless, Due::new("cancellations", &id, Outcome::cancelled()));
        for _ in 0..1 + self.random.below(5) {
            let asked = self.any();
            let outcome = Outcome::invalid_because("duplicate-id");
            self.ask_for(&asked, Due::new("duplicates", &id, outcome));
        }
        self.say_cancel(&id);
    }

    /// Runs more blocking handlers than there are threads for them.
    pub(super) fn many_slow(&mut self) -> Result<(), Failure> {
        let count = if self.config.profile.is_sequential() { 5 } else { 40 };
        (0..count).for_each(|_| self.ask(&good::sleep("test.block", 20, false)));
        self.settle()
    }

    /// Sends a message over the limit: it is refused before it is complete, whatever follows (F13, F14, F21,
    /// F31).
    fn be_refused_early(&mut self) -> Result<(), Failure> {
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
            _ => (text, b"zz\n".to_vec(), "oversize"),
        };
        self.all.counters.count(Group::BadInput, "refused before it was complete");
        self.expect_refusal(Outcome::invalid_because(reason));
        self.send_bytes(&begin, &[]);
        self.settle()?;
        // A line must be completed; the rest of other messages may stay unsent.
        let is_needed = self.config.framing == Framing::Ndjson || reason == "header-too-large";
        if is_needed || self.random.once_in(2) {
            self.send_bytes(&rest, &[]);
        }
        self.ask(&good::quick(self.config));
        Ok(())
    }

    /// Sends a message of the maximum size.
    fn fill_a_message(&mut self) {
        let (quick, id) = (good::quick(self.config), self.id());
        let text = |params: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{},"params":{params}}}"#, quick.method)
        };
        let room = MESSAGE_LIMIT - text(r#"[""]"#).len();
        self.link.ledger.expect(quick.due(&id));
        self.say(&text(&format!(r#"["{}"]"#, "y".repeat(room))));
    }

    /// Sends a frame that never completes, which the log reports; then its late bytes, and the next frame
    /// (F6).
    pub(super) fn stall(&mut self) -> Result<(), Failure> {
        self.set_level("info")?;
        self.unsubscribe()?;
        self.mark()?;
        let before = self.all.log.state().timeouts;
        let (asked, id) = (good::quick(self.config), self.id());
        let text = envelope(&mut self.random, Some(&id), &asked.method, Some("[1,2,3]"), &[""]);
        if self.config.is_ws() {
            // The rest would look like the next message, so the daemon closes the WebSocket.
            self.link.ledger.closes = vec![1008];
        }
        let frame = self.config.carrier().frame(text.as_bytes());
        let cut = 1 + self.random.below(frame.len() - 1);
        let (begin, rest) = frame.split_at(cut);
        self.send_bytes(begin, &[]);
        self.wait("the daemon does not read", Link::is_sent)?;
        if !self.all.log.wait(self.all.patience, |log| log.timeouts > before) {
            let failure = Failure::new("the log does not report a frame that took too long");
            return Err(self.with_last(failure));
        }
        self.count("read timeouts");
        if self.config.is_ws() {
            return Ok(());
        }
        if self.config.framing == Framing::Ndjson || !self.random.once_in(3) {
            self.send_bytes(rest, &[rest.len() / 2]);
        }
        self.ask(&asked);
        self.settle()
    }
}
