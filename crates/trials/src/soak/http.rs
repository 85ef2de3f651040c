//! HTTP: each message is the body of a POST, and each answer that of its response (T2).

use std::io;
use std::sync::atomic::Ordering;

use rustix::net::Shutdown;

use super::bad;
use super::clients::Clients;
use super::config::MESSAGE_LIMIT;
use super::good;
use super::texts::{self, envelope};
use crate::harness::expect::{Due, Outcome, is_batch};
use crate::harness::message::Message;
use crate::harness::random::Random;
use crate::harness::raw_client::RawClient;
use crate::harness::wire::Event;
use crate::{Failure, Group};

/// What a response must be.
#[derive(Debug)]
enum Expected {
    /// 200, with this answer.
    Answer(Due),
    /// 200, with these answers in an array.
    Batch(Vec<Due>),
    /// 202, without a body.
    Accepted,
    /// This status, with any body.
    Status(u16),
    /// 413, with the answer to a message that is too long.
    TooLong,
}

/// A client of HTTP, which keeps its connection.
struct Poster<'c> {
    all: &'c Clients,
    random: Random,
    raw: RawClient,
    numbers: u64,
    /// The last bytes that were sent.
    sent: Vec<u8>,
}

const BLANKS: [&str; 3] = ["", " ", "\n"];

impl Clients {
    /// One connection, from its beginning to its end.
    pub(super) fn post(&self, random: Random) -> Result<(), Failure> {
        let mut poster = Poster::connect(self, random)?;
        let count = 10 + poster.random.below(60);
        let played = (0..count).try_for_each(|_| poster.exchange());
        played.and_then(|()| poster.leave()).map_err(|mut failure| {
            failure.sent = poster.sent[poster.sent.len().saturating_sub(2048)..].to_vec();
            failure
        })
    }

    /// As many slow handlers as there are threads for them, in one batch.
    pub(super) fn post_slow(&self, random: Random) -> Result<(), Failure> {
        let mut poster = Poster::connect(self, random)?;
        let ids: Vec<_> = (1..=40).map(|id: u64| id.to_string()).collect();
        let slow = good::sleep("test.block", 20, false);
        let texts: Vec<_> = ids.iter().map(|id| poster.text(&slow, id)).collect();
        let expected = match self.config.has_batches() {
            true => Expected::Batch(ids.iter().map(|id| slow.due(id)).collect()),
            false => Expected::Answer(batch_refused()),
        };
        poster.send_post(format!("[{}]", texts.join(",")).as_bytes())?;
        poster.receive(&expected)
    }

    /// A request that does not come to its end.
    pub(super) fn post_half(&self, random: Random) -> Result<(), Failure> {
        let mut poster = Poster::connect(self, random)?;
        let whole = poster.request(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"version\"}");
        let cut = 1 + poster.random.below(whole.len() - 1);
        poster.write(&whole[..cut])?;
        poster.receive(&Expected::Status(408))?;
        self.counters.count(Group::Actions, "read timeouts");
        poster.expect_end()
    }
}

fn lost(error: io::Error) -> Failure {
    Failure::new(format!("the connection breaks: {error}"))
}

fn batch_refused() -> Due {
    Due::refusal(Outcome::invalid_because("batch-not-supported"))
}

impl<'c> Poster<'c> {
    fn connect(all: &'c Clients, random: Random) -> Result<Self, Failure> {
        let raw = RawClient::connect(&all.url, all.config.framing, all.patience).map_err(lost)?;
        Ok(Poster { all, random, raw, numbers: 0, sent: Vec::new() })
    }

    fn id(&mut self) -> String {
        self.numbers += 1;
        texts::id(&mut self.random, self.numbers)
    }

    fn text(&mut self, asked: &good::Asked, id: &str) -> String {
        envelope(&mut self.random, Some(id), &asked.method, asked.params.as_deref(), &BLANKS)
    }

    /// A request and its response, or a few in a pipeline.
    fn exchange(&mut self) -> Result<(), Failure> {
        let count = if self.random.once_in(5) { 2 + self.random.below(6) } else { 1 };
        let mut expected = Vec::new();
        for _ in 0..count {
            let (body, due) = if count == 1 { self.any() } else { self.small() };
            if self.random.once_in(25) && count == 1 {
                self.ask_first(&body)?;
            } else {
                self.send_post(&body)?;
            }
            expected.push(due);
        }
        expected.iter().try_for_each(|expected| self.receive(expected))
    }

    fn small(&mut self) -> (Vec<u8>, Expected) {
        let (asked, id) = (good::quick(self.all.config), self.id());
        (self.text(&asked, &id).into_bytes(), Expected::Answer(asked.due(&id)))
    }

    /// A body, and the response to it.
    fn any(&mut self) -> (Vec<u8>, Expected) {
        let (config, counters) = (self.all.config, &self.all.counters);
        let id = self.id();
        match self.random.below(20) {
            0..=9 => {
                let asked = good::any(&mut self.random, config, &BLANKS);
                asked.error_of.into_iter().for_each(|method| self.all.log.cause_error(method));
                (self.text(&asked, &id).into_bytes(), Expected::Answer(asked.due(&id)))
            }
            10..=12 => {
                let (method, params, error_of) = good::notification(&mut self.random);
                error_of.into_iter().for_each(|method| self.all.log.cause_error(method));
                counters.count(Group::Actions, "notifications");
                let text = envelope(&mut self.random, None, &method, params, &[""]);
                (text.into_bytes(), Expected::Accepted)
            }
            13..=16 => {
                let request = self.text(&good::quick(config), &id);
                let bad = bad::any(&mut self.random, config, &request, &id);
                counters.count(Group::BadInput, bad.kind);
                let due = bad.answers.into_iter().next().unwrap_or_else(batch_refused);
                (bad.bytes, Expected::Answer(due))
            }
            17 | 18 => {
                counters.count(Group::Actions, "batches sent");
                self.batch()
            }
            _ => self.small(),
        }
    }

    fn batch(&mut self) -> (Vec<u8>, Expected) {
        let (mut entries, mut dues) = (Vec::new(), Vec::new());
        for _ in 0..1 + self.random.below(8) {
            let id = self.id();
            let asked = good::any(&mut self.random, self.all.config, &[""]);
            if self.random.once_in(4) || !asked.is_plain {
                entries.push(r#"{"jsonrpc":"2.0","method":"version"}"#.to_owned());
                continue;
            }
            dues.push(asked.due(&id));
            entries.push(self.text(&asked, &id));
        }
        let body = format!("[{}]", entries.join(",")).into_bytes();
        match (self.all.config.has_batches(), dues.is_empty()) {
            (false, _) => (body, Expected::Answer(batch_refused())),
            (true, true) => (body, Expected::Accepted),
            (true, false) => (body, Expected::Batch(dues)),
        }
    }

    /// A POST of this body, with its length or in chunks.
    fn request(&mut self, body: &[u8]) -> Vec<u8> {
        let head = format!("POST / HTTP/1.1\r\nHost: {}\r\n", self.raw.host);
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

    fn send_post(&mut self, body: &[u8]) -> Result<(), Failure> {
        let bytes = self.request(body);
        let mut begin = 0;
        if self.random.once_in(4) {
            for _ in 0..1 + self.random.below(6) {
                let end = begin + self.random.below(bytes.len() - begin);
                self.write(&bytes[begin..end])?;
                begin = end;
            }
        }
        self.write(&bytes[begin..])
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.sent.extend_from_slice(&bytes[bytes.len().saturating_sub(4096)..]);
        let surplus = self.sent.len().saturating_sub(4096);
        self.sent.drain(..surplus);
        self.all.counters.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.raw.send(bytes).map_err(lost)
    }

    /// Sends the head, and the body only after `100 Continue`.
    fn ask_first(&mut self, body: &[u8]) -> Result<(), Failure> {
        let (host, length) = (&self.raw.host, body.len());
        let head = format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n");
        self.write(format!("{head}Expect: 100-continue\r\n\r\n").as_bytes())?;
        // No bad input is empty, which would need no `100 Continue`.
        self.receive(&Expected::Status(100))?;
        self.write(body)
    }

    /// Reads a response, and checks it.
    fn receive(&mut self, expected: &Expected) -> Result<(), Failure> {
        let response = self.raw.receive();
        let (counters, pages) = (&self.all.counters, &self.all.pages);
        counters.received.fetch_add(std::mem::take(&mut self.raw.received), Ordering::Relaxed);
        let Some(Event::Response(status, body)) = response.map_err(lost)? else {
            return Err(Failure::because("the connection ends", expected, ""));
        };
        let is_due = |due: &Due| Message::read(&body).is_ok_and(|message| due.is(&message, pages));
        let is_right = match expected {
            Expected::Answer(due) => {
                counters.count(Group::Answers, due.kind);
                status == 200 && is_due(due)
            }
            Expected::Batch(dues) => {
                counters.count(Group::Answers, "batches");
                dues.iter().for_each(|due| counters.count(Group::Answers, due.kind));
                status == 200 && is_batch(dues, &body, pages)
            }
            Expected::Accepted => status == 202 && body.is_empty(),
            Expected::Status(expected) => status == *expected,
            Expected::TooLong => {
                status == 413 && is_due(&Due::refusal(Outcome::invalid_because("oversize")))
            }
        };
        let came = || format!("{status} {body}");
        if is_right { Ok(()) } else { Err(Failure::because("a response", expected, &came())) }
    }

    /// Nothing more comes. A client that was refused in the middle of sending may find the connection reset.
    fn expect_end(&mut self) -> Result<(), Failure> {
        match self.raw.receive() {
            Ok(None) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
            other => Err(Failure::because("the end", "", &format!("{other:?}"))),
        }
    }

    fn leave(&mut self) -> Result<(), Failure> {
        match self.random.below(8) {
            0 => {
                self.all.count_end("broken off");
                let bytes = self.request(&[b'x'; 1000]);
                let _ = self.write(&bytes[..bytes.len() / 2]);
                self.raw.shut_down(Shutdown::Both);
                Ok(())
            }
            1 => {
                self.all.count_end("closed as a message was too long");
                let bytes = self.request(&vec![b' '; MESSAGE_LIMIT + 1]);
                // It may be refused before all of it is sent.
                let _ = self.write(&bytes);
                self.receive(&Expected::TooLong)?;
                self.expect_end()
            }
            2..=4 => self.break_rules(),
            _ => {
                self.all.count_end("ended when all was answered");
                self.raw.shut_down(Shutdown::Write);
                self.expect_end()
            }
        }
    }

    /// A request that is no POST of a message gets the status that says why.
    fn break_rules(&mut self) -> Result<(), Failure> {
        const ROWS: [(u16, &str, &str); 9] = [
            (405, "GET / HTTP/1.1", "Host: HOST\r\nConnection: close\r\n\r\n"),
            (411, "POST / HTTP/1.1", "Host: HOST\r\nConnection: close\r\n\r\n"),
            (501, "POST / HTTP/1.1", "Host: HOST\r\nTransfer-Encoding: gzip\r\n\r\n"),
            (505, "POST / HTTP/2.0", "Host: HOST\r\nContent-Length: 2\r\n\r\n{}"),
            (400, "nonsense", "\r\n"),
            (400, "POST / HTTP/1.1", "Host: HOST\r\nContent-Length: -2\r\n\r\n{}"),
            (
                400,
                "POST / HTTP/1.1",
                "Host: HOST\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
            ),
            (403, "POST / HTTP/1.1", "Host: evil.example\r\nContent-Length: 2\r\n\r\n{}"),
            (403, "POST / HTTP/1.1", "Host: HOST\r\nOrigin: null\r\nContent-Length: 2\r\n\r\n{}"),
        ];
        self.all.count_end("closed as the rules were broken");
        let (status, first, rest) = *self.random.pick(&ROWS);
        self.write(format!("{first}\r\n{}", rest.replace("HOST", &self.raw.host)).as_bytes())?;
        self.receive(&Expected::Status(status))?;
        self.raw.shut_down(Shutdown::Write);
        self.expect_end()
    }
}
