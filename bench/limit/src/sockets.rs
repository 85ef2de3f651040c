//! The limit over TCP: it prints the address first, and ends with its stdin.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;

use crate::{Framing, ROOM, serve, serve_once};

/// One thread per connection, blocked in `read`: no server can be faster with one connection.
pub fn serve_each_on_a_thread() -> io::Result<()> {
    let listener = listen()?;
    loop {
        let stream = accept(&listener)?;
        std::thread::spawn(move || serve(Framing::Ndjson, &stream, &stream));
    }
}

struct Connection {
    stream: TcpStream,
    /// Received part of a message.
    input: Vec<u8>,
}

/// One thread for all connections, which waits for readiness, as every server with many connections
/// does.
pub fn serve_when_ready() -> io::Result<()> {
    let listener = listen()?;
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let new = || epoll::EventData::new_u64(u64::MAX);
    epoll::add(&ready, &listener, new(), epoll::EventFlags::IN)?;
    let mut connections = HashMap::new();
    let mut output = Vec::with_capacity(ROOM);
    let mut events = Vec::with_capacity(1024);
    loop {
        events.clear();
        epoll::wait(&ready, spare_capacity(&mut events), None)?;
        for event in &events {
            let key = event.data.u64();
            let Some(Connection { stream, input }) = connections.get_mut(&key) else {
                let stream = accept(&listener)?;
                let key = stream.as_raw_fd() as u64;
                let data = epoll::EventData::new_u64(key);
                epoll::add(&ready, &stream, data, epoll::EventFlags::IN)?;
                connections.insert(key, Connection { stream, input: Vec::new() });
                continue;
            };
            if input.capacity() == 0 {
                input.reserve(ROOM);
            }
            let goes_on = serve_once(Framing::Ndjson, &*stream, &*stream, input, &mut output);
            if !goes_on.unwrap_or(false) {
                // Dropping its last handle closes the connection, and removes it from epoll.
                connections.remove(&key);
            }
        }
    }
}

fn listen() -> io::Result<TcpListener> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    std::thread::spawn(|| {
        let _ = io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    Ok(listener)
}

fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
