//! How a connection ends: in order, in the middle of something, or against the rules.

use std::net::Shutdown;

use super::client::{Client, FOREVER};
use super::clients::{Clients, Socket};
use super::config::MESSAGE_LIMIT;
use super::connection::{Carrier, Unit};
use super::counters::Broken;
use super::expect::{Due, Outcome};
use super::good;
use super::ws::{self, BINARY, CLOSE, CONTINUATION, LAST, PING, TEXT};

impl Client<'_> {
    /// Ends this connection. What follows sends no more, and waits until the daemon has ended it too.
    pub(super) fn leave(&mut self, socket: &Socket) -> Result<(), Broken> {
        match (self.random.below(10), self.config.carrier()) {
            (0 | 1, _) => self.break_off(socket),
            (2, _) => self.shut_down(),
            (3 | 4, Carrier::Ws) => self.break_rules(),
            (5, Carrier::Ws) => self.be_too_long(),
            (_, Carrier::Ws) => self.close(),
            (3 | 4, Carrier::Stream(_)) => self.end_in_a_frame(),
            (5..=7, Carrier::Stream(_)) => self.end_with_work(),
            _ => self.part(),
        }
        self.send();
        Ok(())
    }

    /// Ends it as it should be.
    pub(super) fn part(&mut self) {
        match self.config.carrier() {
            Carrier::Ws => self.close(),
            Carrier::Stream(_) => Clients::count(&self.counters, "ended when all was answered"),
        }
    }

    /// Is gone while much is due, read or not.
    fn break_off(&mut self, socket: &Socket) {
        Clients::count(&self.counters, "broken off");
        self.connection.ledger.break_off();
        let endless = good::sleep("test.sleep", FOREVER, true);
        for number in 0..20 {
            let asked = match number % 3 {
                0 => good::big_of(100_000),
                1 => good::sleep("test.block", 1, true),
                _ => good::sleep("test.sleep", FOREVER, true),
            };
            let id = self.id();
            self.say_request(&asked, &id);
        }
        let id = self.id();
        self.say_request(&endless, &id);
        self.send();
        socket.shutdown(if self.random.once_in(2) { Shutdown::Both } else { Shutdown::Read });
    }

    /// `shutdown` ends the connection that it comes on, and on stdio the daemon (T2, L4).
    pub(super) fn shut_down(&mut self) {
        Clients::count(&self.counters, "ended by shutdown");
        let id = self.id();
        let result = r#"{"message":"Shutting down gracefully"}"#.to_owned();
        if self.config.carrier() == Carrier::Ws {
            self.connection.ledger.expect_close(&[1000, 1001]);
        }
        self.expect(Due::new("shutdown", &id, Outcome::Result(result)), None);
        self.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"shutdown"}}"#));
        self.send();
        // What comes after it is not read.
        let _ = self.connection.settle(self.patience);
    }

    /// All that was asked before the end of input is answered (L3).
    fn end_with_work(&mut self) {
        Clients::count(&self.counters, "ended when much was due");
        for _ in 0..1 + self.random.below(20) {
            let asked = self.any();
            let id = self.id();
            self.ask(&asked, &id);
        }
    }

    /// The end of input inside a frame (F15, F20).
    fn end_in_a_frame(&mut self) {
        Clients::count(&self.counters, "ended inside a frame");
        let (asked, id) = (good::quick(self.config), self.id());
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{}}}"#, asked.method);
        let frame = self.frame(text.as_bytes());
        // The last line needs no end, so what is cut off is more than that.
        let cut = 1 + self.random.below(frame.len() - 2);
        self.connection.ledger.expect(Due::refusal(Outcome::parse_error()));
        self.connection.send(Unit { bytes: frame[..cut].to_vec(), cuts: Vec::new() });
    }

    fn close(&mut self) {
        Clients::count(&self.counters, "closed");
        let codes = [1000_u16, 1001, 3000, 4999];
        let code = *self.random.pick(&codes);
        self.connection.ledger.expect_close(&[code, 1000]);
        let bytes = ws::frame(LAST | CLOSE, &code.to_be_bytes(), [1, 2, 3, 4]);
        self.connection.send(Unit { bytes, cuts: Vec::new() });
    }

    /// More than a message may have closes a WebSocket (T2).
    fn be_too_long(&mut self) {
        Clients::count(&self.counters, "closed as a message was too long");
        self.connection.ledger.expect_close(&[1009]);
        let half = vec![b' '; MESSAGE_LIMIT / 2 + 1];
        let mask = [9, 9, 9, 9];
        let bytes = match self.random.once_in(2) {
            true => ws::frame(LAST | TEXT, &[&half[..], &half].concat(), mask),
            false => {
                [ws::frame(BINARY, &half, mask), ws::frame(CONTINUATION, &half, mask)].concat()
            }
        };
        self.connection.send(Unit { bytes, cuts: Vec::new() });
    }

    /// A client that breaks the rules of frames is closed with 1002, and one whose text is not UTF-8 with
    /// 1007.
    fn break_rules(&mut self) {
        Clients::count(&self.counters, "closed as the rules were broken");
        let mask = [0, 1, 2, 3];
        let rows = [
            (1002, vec![LAST | TEXT, 2, b'{', b'}']),
            (1002, ws::frame(LAST | 0x40 | TEXT, b"{}", mask)),
            (1002, ws::frame(LAST | 0x10 | PING, b"", mask)),
            (1002, ws::frame(LAST | 3, b"{}", mask)),
            (1002, ws::frame(LAST | 0xb, b"", mask)),
            (1002, ws::frame(PING, b"", mask)),
            (1002, ws::frame(LAST | PING, &[b'x'; 126], mask)),
            (1002, ws::frame(LAST | CONTINUATION, b"{}", mask)),
            (1002, [ws::frame(TEXT, b"{", mask), ws::frame(LAST | TEXT, b"}", mask)].concat()),
            (1002, ws::frame(LAST | CLOSE, &[3], mask)),
            (1002, ws::frame(LAST | CLOSE, &1005_u16.to_be_bytes(), mask)),
            (1007, ws::frame(LAST | TEXT, b"[\"\xc3(\"]", mask)),
            (1007, [ws::frame(TEXT, b"\xe2", mask), ws::frame(LAST, b"\x82", mask)].concat()),
        ];
        let (code, bytes) = self.random.pick(&rows).clone();
        self.connection.ledger.expect_close(&[code]);
        self.connection.send(Unit { bytes, cuts: Vec::new() });
    }
}
