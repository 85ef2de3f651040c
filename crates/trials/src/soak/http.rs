//! HTTP: each message is the body of a POST, and each answer the body of its response (T2).

use super::bad;
use super::prelude::*;

/// Requests other than a POST of a message, each with its status. `HOST` stands for the right host.
const WRONG: [(u16, &str, &str); 9] = [
    (405, "GET / HTTP/1.1", "Host: HOST\r\nConnection: close\r\n\r\n"),
    (411, "POST / HTTP/1.1", "Host: HOST\r\nConnection: close\r\n\r\n"),
    (400, "POST / HTTP/1.1", "Host: HOST\r\nTransfer-Encoding: gzip\r\n\r\n"),
    (400, "POST / HTTP/2.0", "Host: HOST\r\nContent-Length: 2\r\n\r\n{}"),
    (400, "nonsense", "\r\n"),
    (400, "POST / HTTP/1.1", "Host: HOST\r\nContent-Length: -2\r\n\r\n{}"),
    (400, "POST / HTTP/1.1", "Host: HOST\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"),
    (403, "POST / HTTP/1.1", "Host: evil.example\r\nContent-Length: 2\r\n\r\n{}"),
    (403, "POST / HTTP/1.1", "Host: HOST\r\nOrigin: null\r\nContent-Length: 2\r\n\r\n{}"),
];

impl Client<'_> {
    fn host(&self) -> &str {
        self.all.url.trim_start_matches("http://").trim_end_matches('/')
    }

    /// A POST of this body, with its length or in chunks.
    pub(super) fn post(&mut self, body: &[u8]) -> Vec<u8> {
        let head = format!("POST / HTTP/1.1\r\nHost: {}\r\n", self.host());
        if !self.random.once_in(4) {
            let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
            return [head.as_bytes(), body].concat();
        }
        let mut bytes = format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
        let mut rest = body;
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(1 + self.random.below(rest.len()));
            let size = format!("{:x}\r\n", chunk.len());
            bytes.extend([size.as_bytes(), chunk, b"\r\n"].concat());
            rest = after;
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        bytes
    }

    /// Sends the head, and the body only after `100 Continue`: a request, a notification, or bad input.
    fn post_with_continue(&mut self) -> Result<(), Failure> {
        let (asked, id) = (self.any(), self.id());
        let request = self.text(&asked, &id);
        let (body, dues, error_of) = match self.random.below(4) {
            0 => {
                let (method, params, error_of) = good::notification(&mut self.random);
                let text = envelope(&mut self.random, None, &method, params, &[""]);
                (text.into_bytes(), Vec::new(), error_of)
            }
            1 => {
                let bad = bad::any(&mut self.random, self.config, &request, &id);
                (bad.bytes, bad.answers, None)
            }
            _ => (request.into_bytes(), vec![asked.due(&id)], asked.error_of),
        };
        self.all.log.cause_error(error_of);
        let (host, length) = (self.host(), body.len());
        let head = format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n");
        self.link.ledger.expect_status(100);
        self.send_bytes(format!("{head}Expect: 100-continue\r\n\r\n").as_bytes(), &[]);
        self.settle()?;
        dues.into_iter().for_each(|due| self.link.ledger.expect(due));
        self.link.ledger.expect_post();
        self.send_bytes(&body, &[]);
        self.settle()
    }

    /// Runs as many slow handlers as there are threads for them, in one batch.
    pub(super) fn post_slow(&mut self) -> Result<(), Failure> {
        let slow = good::sleep("test.block", 20, false);
        let ids: Vec<_> = (0..40).map(|_| self.id()).collect();
        let texts: Vec<_> = ids.iter().map(|id| self.text(&slow, id)).collect();
        match self.config.has_batches() {
            true => {
                let dues = ids.iter().map(|id| slow.due(id)).collect();
                self.link.ledger.expect_batch(dues);
            }
            false => self.expect_refusal(Outcome::invalid_because("batch-not-supported")),
        }
        self.say(&format!("[{}]", texts.join(",")));
        self.settle()
    }

    /// Sends a request that never completes (F6).
    pub(super) fn stall_post(&mut self) -> Result<(), Failure> {
        let whole = self.post(br#"{"jsonrpc":"2.0","id":1,"method":"version"}"#);
        let cut = 1 + self.random.below(whole.len() - 1);
        self.link.ledger.expect_status(408);
        self.send_bytes(&whole[..cut], &[]);
        self.settle()?;
        self.count("read timeouts");
        self.be_closed_by_daemon()
    }

    /// Waits until the daemon closes the connection.
    fn be_closed_by_daemon(&mut self) -> Result<(), Failure> {
        let what = "the daemon does not close the connection";
        self.wait(what, |link| link.ledger.has_ended)
    }

    /// Ends an HTTP connection: in order, in the middle of a request, or by a refused request.
    pub(super) fn disconnect_http(&mut self, raw: &RawClient) -> Result<(), Failure> {
        for _ in 0..self.random.below(4) {
            self.post_with_continue()?;
        }
        match self.random.below(8) {
            0 => {
                self.all.count_end("broken off");
                let bytes = self.post(&[b'x'; 1000]);
                self.link.ledger.is_over = true;
                self.send_bytes(&bytes[..bytes.len() / 2], &[]);
                raw.shut_down(Shutdown::Both);
            }
            1 => {
                self.all.count_end("closed because a message was too long");
                self.expect_refusal(Outcome::invalid_because("oversize"));
                self.link.ledger.expect_status(413);
                // The daemon may refuse it before everything is sent.
                let bytes = self.post(&vec![b' '; MESSAGE_LIMIT + 1]);
                self.link.ledger.may_break = true;
                self.send_bytes(&bytes, &[]);
                self.be_closed_by_daemon()?;
            }
            2..=4 => {
                self.all.count_end("closed because rules were broken");
                let (status, first, rest) = *self.random.pick(&WRONG);
                self.link.ledger.expect_status(status);
                self.link.ledger.may_break = true;
                let rest = rest.replace("HOST", self.host());
                self.send_bytes(format!("{first}\r\n{rest}").as_bytes(), &[]);
                // A client that closes its end before the response counts as gone.
                self.settle()?;
            }
            _ => self.all.count_end("ended when all was answered"),
        }
        Ok(())
    }
}
