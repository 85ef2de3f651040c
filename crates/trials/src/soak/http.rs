//! HTTP: each message is the body of a POST, and each answer that of its response (T2).

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::Ordering;

use super::bad;
use super::clients::{Clients, Socket};
use super::config::MESSAGE_LIMIT;
use super::counters::{Broken, Group};
use super::expect::{Due, Outcome, is_batch};
use super::good;
use super::texts::{self, envelope};
use crate::random::Random;
use crate::wire::Message;

/// What a response must be.
#[derive(Debug)]
enum Expected {
    /// 200, with this answer.
    Answer(Due),
    /// 200, with these answers in an array.
    Batch(Vec<Due>),
    /// 202, and nothing in it.
    Accepted,
    /// This status, whatever it says.
    Status(u16),
    /// 413, with the answer to what is too long.
    TooLong,
}

struct Response {
    status: u16,
    body: String,
}

/// A client of HTTP, which keeps its connection.
struct Poster<'c> {
    clients: &'c Clients,
    random: Random,
    host: String,
    input: BufReader<Socket>,
    output: Socket,
    numbers: u64,
    /// The last bytes that were sent.
    sent: Vec<u8>,
}

impl Clients {
    /// One connection, from its beginning to its end.
    pub(super) fn post(&self, random: Random) -> Result<(), Broken> {
        let mut poster = Poster::connect(self, random).map_err(lost)?;
        let count = 10 + poster.random.below(60);
        let played = (0..count).try_for_each(|_| poster.exchange());
        played.and_then(|()| poster.leave()).map_err(|mut broken| {
            broken.sent = poster.sent[poster.sent.len().saturating_sub(2048)..].to_vec();
            broken
        })
    }

    /// As many slow handlers as there are threads for them, each in a batch of its own connection.
    pub(super) fn post_slow(&self, random: Random) -> Result<(), Broken> {
        let mut poster = Poster::connect(self, random).map_err(lost)?;
        let ids: Vec<_> = (1..=40).map(|id: u64| id.to_string()).collect();
        let slow = good::sleep("test.block", 20, false);
        let texts: Vec<_> = ids.iter().map(|id| poster.text(&slow, id)).collect();
        let body = format!("[{}]", texts.join(","));
        let expected = match self.config.has_batches() {
            true => Expected::Batch(ids.iter().map(|id| slow.due(id)).collect()),
            false => Expected::Answer(batch_refused()),
        };
        poster.send_post(body.as_bytes()).map_err(lost)?;
        poster.receive(&expected)
    }

    /// A request that does not come to its end.
    pub(super) fn post_half(&self, random: Random) -> Result<(), Broken> {
        let mut poster = Poster::connect(self, random).map_err(lost)?;
        let whole = poster.request(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"version\"}");
        let cut = 1 + poster.random.below(whole.len() - 1);
        poster.write(&whole[..cut]).map_err(lost)?;
        poster.receive(&Expected::Status(408))?;
        self.counters.count(Group::Actions, "read timeouts");
        poster.expect_end()
    }
}

fn lost(error: io::Error) -> Broken {
    Broken::new(format!("the connection breaks: {error}"))
}

fn batch_refused() -> Due {
    Due::refusal(Outcome::invalid_because("batch-not-supported"))
}

impl<'c> Poster<'c> {
    fn connect(clients: &'c Clients, random: Random) -> io::Result<Self> {
        let output = Socket::connect(&clients.url)?;
        let input = BufReader::new(output.try_clone()?);
        let host = clients.url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Ok(Poster { clients, random, host, input, output, numbers: 0, sent: Vec::new() })
    }

    fn id(&mut self) -> String {
        self.numbers += 1;
        texts::id(&mut self.random, self.numbers)
    }

    fn text(&mut self, asked: &good::Asked, id: &str) -> String {
        let params = asked.params.as_deref();
        envelope(&mut self.random, Some(id), &asked.method, params, &["", " ", "\n"])
    }

    /// A request and its response, or a few in line.
    fn exchange(&mut self) -> Result<(), Broken> {
        let count = if self.random.once_in(5) { 2 + self.random.below(6) } else { 1 };
        let mut expected = Vec::new();
        for _ in 0..count {
            let (body, due) = if count == 1 { self.any() } else { self.small() };
            if self.random.once_in(25) && count == 1 {
                self.ask_first(&body)?;
            } else {
                self.send_post(&body).map_err(lost)?;
            }
            expected.push(due);
        }
        expected.iter().try_for_each(|expected| self.receive(expected))
    }

    fn small(&mut self) -> (Vec<u8>, Expected) {
        let (asked, id) = (good::quick(self.clients.config), self.id());
        (self.text(&asked, &id).into_bytes(), Expected::Answer(asked.due(&id)))
    }

    /// A body, and what is said to it.
    fn any(&mut self) -> (Vec<u8>, Expected) {
        let (config, counters) = (self.clients.config, &self.clients.counters);
        let id = self.id();
        match self.random.below(20) {
            0..=9 => {
                let asked = good::any(&mut self.random, config, &["", " ", "\n"]);
                if let Some(method) = asked.error_of {
                    self.clients.log.cause_error(method);
                }
                (self.text(&asked, &id).into_bytes(), Expected::Answer(asked.due(&id)))
            }
            10..=12 => {
                let (method, params, error_of) = good::notification(&mut self.random);
                if let Some(method) = error_of {
                    self.clients.log.cause_error(method);
                }
                counters.count(Group::Actions, "notifications");
                let text = envelope(&mut self.random, None, &method, params.as_deref(), &[""]);
                (text.into_bytes(), Expected::Accepted)
            }
            13..=16 => {
                let request = self.text(&good::quick(config), &id);
                let bad = bad::any(&mut self.random, config, &request, &id);
                self.clients.counters.count(Group::BadInput, bad.kind);
                (
                    bad.bytes,
                    Expected::Answer(bad.answers.into_iter().next().unwrap_or_else(batch_refused)),
                )
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
            let asked = good::any(&mut self.random, self.clients.config, &[""]);
            if self.random.once_in(4) || !asked.is_plain {
                entries.push(r#"{"jsonrpc":"2.0","method":"version"}"#.to_owned());
                continue;
            }
            dues.push(asked.due(&id));
            entries.push(self.text(&asked, &id));
        }
        let body = format!("[{}]", entries.join(",")).into_bytes();
        match (self.clients.config.has_batches(), dues.is_empty()) {
            (false, _) => (body, Expected::Answer(batch_refused())),
            (true, true) => (body, Expected::Accepted),
            (true, false) => (body, Expected::Batch(dues)),
        }
    }

    /// A POST of this body, with its length or in chunks.
    fn request(&mut self, body: &[u8]) -> Vec<u8> {
        let head = format!("POST / HTTP/1.1\r\nHost: {}\r\n", self.host);
        if !self.random.once_in(4) {
            let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
            return [head.as_bytes(), body].concat();
        }
        let mut bytes = format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
        let mut rest = body;
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(1 + self.random.below(rest.len()));
            bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
            rest = after;
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        bytes
    }

    fn send_post(&mut self, body: &[u8]) -> io::Result<()> {
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

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sent.extend_from_slice(&bytes[bytes.len().saturating_sub(4096)..]);
        let surplus = self.sent.len().saturating_sub(4096);
        self.sent.drain(..surplus);
        self.clients.counters.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.output.write_all(bytes)
    }

    /// Sends the head, and the body only when it is asked for.
    fn ask_first(&mut self, body: &[u8]) -> Result<(), Broken> {
        let length = body.len();
        let head = format!(
            "POST / HTTP/1.1\r\nHost: {}\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n",
            self.host
        );
        self.write(head.as_bytes()).map_err(lost)?;
        // What is empty need not be asked for, and is not sent as bad input.
        self.receive(&Expected::Status(100))?;
        self.write(body).map_err(lost)
    }

    /// Reads a response, and checks it.
    fn receive(&mut self, expected: &Expected) -> Result<(), Broken> {
        let response = self.read().map_err(lost)?;
        let Some(Response { status, body }) = response else {
            return Err(Broken::because("the connection ends", expected, ""));
        };
        let (counters, pages) = (&self.clients.counters, &self.clients.pages);
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
        if is_right { Ok(()) } else { Err(Broken::because("a response", expected, &came())) }
    }

    fn read(&mut self) -> io::Result<Option<Response>> {
        let odd = |what: &str| io::Error::other(format!("malformed: {what:?}"));
        let mut length = None;
        let Some(first) = self.line()? else { return Ok(None) };
        let status =
            first.strip_prefix("HTTP/1.1 ").and_then(|it| it.split(' ').next()?.parse().ok());
        let status: u16 = status.ok_or_else(|| odd(&first))?;
        loop {
            let line = self.line()?.ok_or_else(|| odd("the end of a head"))?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").ok_or_else(|| odd(&line))?;
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse::<usize>().ok();
            }
        }
        let mut body = vec![0; length.filter(|_| status >= 200).unwrap_or(0)];
        self.input.read_exact(&mut body)?;
        self.clients.counters.received.fetch_add(body.len() as u64, Ordering::Relaxed);
        let body = String::from_utf8(body).map_err(io::Error::other)?;
        Ok(Some(Response { status, body }))
    }

    fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        self.input.read_line(&mut line)?;
        self.clients.counters.received.fetch_add(line.len() as u64, Ordering::Relaxed);
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(Some(line.to_owned())),
            None if line.is_empty() => Ok(None),
            None => Err(io::Error::other(format!("a torn line: {line:?}"))),
        }
    }

    /// Nothing more comes.
    fn expect_end(&mut self) -> Result<(), Broken> {
        let mut rest = Vec::new();
        // Who was refused in the middle of sending may find the connection reset.
        let _ = self.input.read_to_end(&mut rest);
        match rest.is_empty() {
            true => Ok(()),
            false => Err(Broken::because("the end", "", &String::from_utf8_lossy(&rest))),
        }
    }

    fn leave(&mut self) -> Result<(), Broken> {
        let counters = &self.clients.counters;
        match self.random.below(8) {
            0 => {
                Clients::count(counters, "broken off");
                let body = vec![b'x'; 1000];
                let bytes = self.request(&body);
                let _ = self.write(&bytes[..bytes.len() / 2]);
                self.output.shutdown(Shutdown::Both);
                Ok(())
            }
            1 => {
                Clients::count(counters, "closed as a message was too long");
                let body = vec![b' '; MESSAGE_LIMIT + 1];
                let bytes = self.request(&body);
                // It may be refused before all of it is sent.
                let _ = self.write(&bytes);
                self.receive(&Expected::TooLong)?;
                self.expect_end()
            }
            2..=4 => self.break_rules(),
            _ => {
                Clients::count(counters, "ended when all was answered");
                self.output.shutdown(Shutdown::Write);
                self.expect_end()
            }
        }
    }

    /// What is no POST of a message gets the status that says why.
    fn break_rules(&mut self) -> Result<(), Broken> {
        Clients::count(&self.clients.counters, "closed as the rules were broken");
        let rows = [
            (405, "GET / HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"),
            (411, "POST / HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"),
            (501, "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: gzip\r\n\r\n"),
            (505, "POST / HTTP/2.0\r\nHost: HOST\r\nContent-Length: 2\r\n\r\n{}"),
            (400, "nonsense\r\n\r\n"),
            (400, "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: -2\r\n\r\n{}"),
            (
                400,
                "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
            ),
            (403, "POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\n{}"),
            (403, "POST / HTTP/1.1\r\nHost: HOST\r\nOrigin: null\r\nContent-Length: 2\r\n\r\n{}"),
        ];
        let (status, text) = *self.random.pick(&rows);
        self.write(text.replace("HOST", &self.host).as_bytes()).map_err(lost)?;
        self.receive(&Expected::Status(status))?;
        self.output.shutdown(Shutdown::Write);
        self.expect_end()
    }
}
