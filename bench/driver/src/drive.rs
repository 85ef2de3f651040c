//! Load over one connection: keeps a fixed number of requests in flight, and checks every answer.

use std::io;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::load::Load;
use crate::payload;
use crate::server::Server;
use crate::wire::{self, FIRST_ID, IdPosition, LAST_ID, Verifier};

/// While fewer bytes than this are in flight, no pipe is full, so waiting for one direction never
/// blocks the other.
const NEVER_FULL: usize = 32 * 1024;

/// Number of slots for ids in flight. The lowest bits of an id select its slot, and no load has
/// more requests in flight.
const IN_FLIGHT: usize = 1 << 16;

const ROOM: usize = 1 << 20;

/// Prepares requests once, and sends them repeatedly with new ids.
pub struct Drive {
    load: Load,
    /// As many requests as may be in flight, one after the other.
    requests: Vec<u8>,
    request_length: usize,
    id_position: IdPosition,
    next_id: u32,
    /// Position in `requests` to continue from.
    at: usize,
    in_flight: Vec<u32>,
    verifier: Verifier,
    input: Vec<u8>,
    /// Number of processed input bytes.
    done: usize,
}

/// Times of the requests of a run.
pub struct Run {
    pub took: Duration,
    /// Latency of each request, if they were sent one by one.
    pub latencies: Vec<u32>,
}

impl Drive {
    pub fn new(load: Load, server: &Server) -> io::Result<Self> {
        let params = payload::params(load.shape, load.size);
        let (request, id_position) = wire::request(server.framing, load.handler.method(), &params);
        let mut drive = Drive {
            load,
            request_length: request.len(),
            requests: request.repeat(load.window),
            id_position,
            next_id: FIRST_ID,
            at: 0,
            in_flight: vec![0; IN_FLIGHT],
            verifier: Verifier::new(&params),
            input: Vec::with_capacity(ROOM),
            done: 0,
        };
        // The first answer is parsed.
        drive.run(server, 1)?;
        Ok(drive)
    }

    /// Sends `count` requests, and returns when all are answered.
    pub fn run(&mut self, server: &Server, count: usize) -> io::Result<Run> {
        let begun = Instant::now();
        let mut latencies = Vec::new();
        match self.requests.len() < NEVER_FULL {
            true => {
                server.set_blocking(true)?;
                if self.load.window == 1 {
                    latencies.reserve(count);
                }
                self.run_small(server, count, &mut latencies)?;
            }
            false => {
                server.set_blocking(false)?;
                self.run_large(server, count)?;
            }
        }
        Ok(Run { took: begun.elapsed(), latencies })
    }

    /// Writes everything that may be in flight, then reads some answers, and so on.
    fn run_small(
        &mut self,
        server: &Server,
        count: usize,
        latencies: &mut Vec<u32>,
    ) -> io::Result<()> {
        let (to, from) = server.pipes()?;
        let (mut to_send, mut to_receive) = (count, count);
        let mut room = self.load.window;
        let mut last = Instant::now();
        while to_receive > 0 {
            while room > 0 && to_send > 0 {
                let until_end = (self.requests.len() - self.at) / self.request_length;
                let next = room.min(to_send).min(until_end);
                let end = self.at + next * self.request_length;
                for start in (self.at..end).step_by(self.request_length) {
                    self.begin_request(start)?;
                }
                write_all(to, &self.requests[self.at..end])?;
                self.at = if end == self.requests.len() { 0 } else { end };
                (room, to_send) = (room - next, to_send - next);
            }
            if rustix::io::read(from, spare_capacity(&mut self.input))? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let answered = self.take_answers(server)?;
            (room, to_receive) = (room + answered, to_receive - answered);
            if self.load.window == 1 && answered == 1 {
                let now = Instant::now();
                latencies.push(u32::try_from((now - last).as_nanos()).unwrap_or(u32::MAX));
                last = now;
            }
        }
        Ok(())
    }

    /// Writes and reads as much as possible, in turns.
    fn run_large(&mut self, server: &Server, count: usize) -> io::Result<()> {
        let (to, from) = server.pipes()?;
        let (mut to_begin, mut to_receive) = (count, count);
        let mut room = self.load.window;
        // Requests up to here have their ids, and may be sent.
        let mut begun = self.at;
        while to_receive > 0 {
            while room > 0 && to_begin > 0 && begun < self.requests.len() {
                self.begin_request(begun)?;
                begun += self.request_length;
                (room, to_begin) = (room - 1, to_begin - 1);
            }
            let wants_to_send = self.at < begun;
            let mut fds = [
                PollFd::new(&from, PollFlags::IN),
                PollFd::new(&to, if wants_to_send { PollFlags::OUT } else { PollFlags::empty() }),
            ];
            rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
            let [readable, writable] = fds.map(|fd| !fd.revents().is_empty());
            if writable && wants_to_send {
                match rustix::io::write(to, &self.requests[self.at..begun]) {
                    Ok(count) => self.at += count,
                    Err(Errno::AGAIN) => {}
                    Err(error) => return Err(error.into()),
                }
                if self.at == self.requests.len() {
                    (self.at, begun) = (0, 0);
                }
            }
            if readable {
                match rustix::io::read(from, spare_capacity(&mut self.input)) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(_) => {
                        let answered = self.take_answers(server)?;
                        (room, to_receive) = (room + answered, to_receive - answered);
                    }
                    Err(Errno::AGAIN) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Gives the request at this position a new id.
    #[inline]
    fn begin_request(&mut self, start: usize) -> io::Result<()> {
        let id = self.next_id;
        self.next_id = if id == LAST_ID { FIRST_ID } else { id + 1 };
        let slot = &mut self.in_flight[id as usize % IN_FLIGHT];
        if std::mem::replace(slot, id) != 0 {
            return Err(io::Error::other("an old request was never answered"));
        }
        self.id_position.set(&mut self.requests[start..], id);
        Ok(())
    }

    /// Checks the received answers, and returns their number.
    fn take_answers(&mut self, server: &Server) -> io::Result<usize> {
        let mut count = 0;
        loop {
            let frame = server.framing.next(&self.input[self.done..]).map_err(io::Error::other)?;
            let Some((body, end)) = frame else { break };
            let id = self.verifier.id_of(body).map_err(io::Error::other)?;
            let slot = &mut self.in_flight[id as usize % IN_FLIGHT];
            if std::mem::take(slot) != id {
                return Err(io::Error::other(format!("a second answer to {id}")));
            }
            self.done += end;
            count += 1;
        }
        if self.done == self.input.len() {
            self.input.clear();
            self.done = 0;
        } else if self.done > ROOM / 2 || self.input.len() == self.input.capacity() {
            self.input.drain(..self.done);
            self.done = 0;
            self.input.reserve(ROOM);
        }
        Ok(count)
    }
}

fn write_all(to: impl std::os::fd::AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        bytes = &bytes[rustix::io::write(&to, bytes)?..];
    }
    Ok(())
}
