//! Disconnects: in order, in the middle of a message, or against the rules.

use super::prelude::*;
use crate::harness::ws::{BINARY, CLOSE, CONTINUATION, LAST, PING, TEXT};

const MASK: [u8; 4] = [0, 1, 2, 3];

/// A frame: its first byte and its payload.
type Raw<'a> = (u8, &'a [u8]);

impl Client<'_> {
    /// Ends this connection from our side; the daemon ends it too.
    pub(super) fn disconnect(&mut self, raw: &RawClient) -> Result<(), Failure> {
        if self.config.is_http() {
            return self.disconnect_http(raw);
        }
        match (self.random.below(10), self.config.is_ws()) {
            (0 | 1, _) => self.reset(raw),
            (2, _) => self.shut_down(),
            (3 | 4, true) => self.break_rules(),
            (5, true) => self.be_too_long(),
            (3 | 4, false) => self.end_in_a_frame(),
            (5..=7, false) => self.end_with_work(),
            _ => self.part(),
        }
        self.send();
        Ok(())
    }

    /// Ends the connection in order.
    pub(super) fn part(&mut self) {
        if !self.config.is_ws() {
            return self.all.count_end("ended when all was answered");
        }
        self.all.count_end("closed");
        let code = *self.random.pick(&[1000_u16, 1001, 3000, 4999]);
        self.be_closed(&[code, 1000], &ws::frame(LAST | CLOSE, &code.to_be_bytes(), MASK));
    }

    /// Sends bytes that make the daemon close this WebSocket with one of these codes.
    fn be_closed(&mut self, codes: &[u16], bytes: &[u8]) {
        self.link.ledger.closes = codes.to_vec();
        self.send_bytes(bytes, &[]);
    }

    /// Breaks off while many answers are due, read or not.
    fn reset(&mut self, raw: &RawClient) {
        self.all.count_end("broken off");
        self.link.ledger.is_over = true;
        for number in 0..21 {
            let asked = match number % 3 {
                0 if number < 20 => good::big(100_000),
                1 => good::sleep("test.block", 1, true),
                _ => good::sleep("test.sleep", FOREVER, true),
            };
            let id = self.id();
            let text = self.text(&asked, &id);
            self.say(&text);
        }
        self.send();
        raw.shut_down(if self.random.once_in(2) { Shutdown::Both } else { Shutdown::Read });
    }

    /// `shutdown` ends its connection, and on stdio the daemon (T2, L4).
    pub(super) fn shut_down(&mut self) {
        self.all.count_end("ended by shutdown");
        let id = self.id();
        let result = r#"{"message":"Shutting down gracefully"}"#.to_owned();
        if self.config.is_ws() {
            self.link.ledger.closes = vec![1000, 1001];
        }
        self.link.ledger.expect(Due::new("shutdown", &id, Outcome::Result(result)));
        self.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"shutdown"}}"#));
        self.send();
        // The daemon reads no later input.
        let _ = self.settle();
    }

    /// Ends the input with requests unanswered: all of them must be answered (L3).
    fn end_with_work(&mut self) {
        self.all.count_end("ended when much was due");
        for _ in 0..1 + self.random.below(20) {
            let asked = self.any();
            self.ask(&asked);
        }
    }

    /// Ends the input inside a frame (F15, F20).
    fn end_in_a_frame(&mut self) {
        self.all.count_end("ended inside a frame");
        let (method, id) = (good::quick(self.config).method, self.id());
        let frame =
            self.frame(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method}}}"#).as_bytes());
        // The last line needs no newline, so cut off more than that.
        let cut = 1 + self.random.below(frame.len() - 2);
        self.expect_refusal(Outcome::parse_error());
        self.send_bytes(&frame[..cut], &[]);
    }

    /// Sends a message over the size limit, which closes a WebSocket (T2).
    fn be_too_long(&mut self) {
        self.all.count_end("closed because a message was too long");
        let half = vec![b' '; MESSAGE_LIMIT / 2 + 1];
        let bytes = match self.random.once_in(2) {
            true => ws::frame(LAST | TEXT, &half.repeat(2), MASK),
            false => {
                [ws::frame(BINARY, &half, MASK), ws::frame(CONTINUATION, &half, MASK)].concat()
            }
        };
        self.be_closed(&[1009], &bytes);
    }

    /// Breaks a rule: a wrong frame closes a WebSocket with 1002, and a text that is not UTF-8 with 1007.
    fn break_rules(&mut self) {
        self.all.count_end("closed because rules were broken");
        let rows: [(u16, &[Raw<'_>]); 12] = [
            (1002, &[(LAST | 0x40 | TEXT, b"{}")]),
            (1002, &[(LAST | 0x10 | PING, b"")]),
            (1002, &[(LAST | 3, b"{}")]),
            (1002, &[(LAST | 0xb, b"")]),
            (1002, &[(PING, b"")]),
            (1002, &[(LAST | PING, &[b'x'; 126])]),
            (1002, &[(LAST | CONTINUATION, b"{}")]),
            (1002, &[(TEXT, b"{"), (LAST | TEXT, b"}")]),
            (1002, &[(LAST | CLOSE, &[3])]),
            (1002, &[(LAST | CLOSE, &1005_u16.to_be_bytes())]),
            (1007, &[(LAST | TEXT, b"[\"\xc3(\"]")]),
            (1007, &[(TEXT, b"\xe2"), (LAST, b"\x82")]),
        ];
        if self.random.once_in(rows.len() + 1) {
            // A frame without a mask.
            return self.be_closed(&[1002], &[LAST | TEXT, 2, b'{', b'}']);
        }
        let (code, frames) = *self.random.pick(&rows);
        let frames = frames.iter().map(|(first, payload)| ws::frame(*first, payload, MASK));
        let bytes: Vec<u8> = frames.flatten().collect();
        self.be_closed(&[code], &bytes);
    }
}
