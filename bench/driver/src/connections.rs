//! Load over many connections: sends one request at a time on each, and checks every answer.

use std::io;
use std::net::TcpStream;
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;

use crate::drive::Run;
use crate::load::Load;
use crate::payload;
use crate::server::Server;
use crate::wire::{self, FIRST_ID, Framing, IdPosition, LAST_ID, Verifier};

pub struct Connections {
    framing: Framing,
    request: Vec<u8>,
    id_position: IdPosition,
    next_id: u32,
    verifier: Verifier,
    connections: Vec<Connection>,
    ready: OwnedFd,
}

struct Connection {
    stream: TcpStream,
    /// Id of the request in flight.
    id: u32,
    sent: Instant,
    /// Received part of the answer.
    input: Vec<u8>,
    /// Number of answered requests in this run.
    answered: u32,
}

impl Connections {
    pub fn new(load: Load, server: &Server) -> io::Result<Self> {
        let params = payload::params(load.shape, load.size);
        let (request, id_position) = wire::request(server.framing, load.handler.method(), &params);
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::new();
        for number in 0..load.connections {
            let stream = server.connect()?;
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&ready, &stream, data, epoll::EventFlags::IN)?;
            connections.push(Connection {
                stream,
                id: 0,
                sent: Instant::now(),
                input: Vec::with_capacity(2 * request.len() + 1024),
                answered: 0,
            });
        }
        let mut connections = Connections {
            framing: server.framing,
            request,
            id_position,
            next_id: FIRST_ID,
            verifier: Verifier::new(&params),
            connections,
            ready,
        };
        connections.run(load.connections)?;
        Ok(connections)
    }

    /// Sends `count` requests, each on a connection without a request in flight, and returns
    /// when all are answered.
    pub fn run(&mut self, count: usize) -> io::Result<Run> {
        let begun = Instant::now();
        let mut latencies = Vec::with_capacity(count);
        let mut events = Vec::with_capacity(self.connections.len());
        let mut to_send = count;
        for number in 0..self.connections.len() {
            self.connections[number].answered = 0;
            if to_send > 0 {
                self.send(number)?;
                to_send -= 1;
            }
        }
        while latencies.len() < count {
            events.clear();
            epoll::wait(&self.ready, spare_capacity(&mut events), None)?;
            for event in &events {
                let number = event.data.u64() as usize;
                let Some(nanos) = self.receive(number)? else { continue };
                latencies.push(nanos);
                if to_send > 0 {
                    self.send(number)?;
                    to_send -= 1;
                }
            }
        }
        Ok(Run { took: begun.elapsed(), latencies })
    }

    /// The fewest and the most requests that a connection had answered in the last run.
    pub fn answered(&self) -> (u32, u32) {
        let counts = || self.connections.iter().map(|connection| connection.answered);
        (counts().min().unwrap_or_default(), counts().max().unwrap_or_default())
    }

    fn send(&mut self, number: usize) -> io::Result<()> {
        let connection = &mut self.connections[number];
        connection.id = self.next_id;
        self.next_id = if self.next_id == LAST_ID { FIRST_ID } else { self.next_id + 1 };
        self.id_position.set(&mut self.request, connection.id);
        connection.sent = Instant::now();
        // Nothing else is in flight, so the socket has room for the whole request.
        match rustix::io::write(&connection.stream, &self.request)? == self.request.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// Reads once. Returns the latency if the answer is complete.
    fn receive(&mut self, number: usize) -> io::Result<Option<u32>> {
        let connection = &mut self.connections[number];
        if rustix::io::read(&connection.stream, spare_capacity(&mut connection.input))? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let frame = self.framing.next(&connection.input).map_err(io::Error::other)?;
        let Some((body, end)) = frame else { return Ok(None) };
        let id = self.verifier.id_of(body).map_err(io::Error::other)?;
        if id != connection.id || end != connection.input.len() {
            return Err(io::Error::other(format!("a response does not answer {}", connection.id)));
        }
        connection.input.clear();
        connection.answered += 1;
        Ok(Some(u32::try_from(connection.sent.elapsed().as_nanos()).unwrap_or(u32::MAX)))
    }
}
