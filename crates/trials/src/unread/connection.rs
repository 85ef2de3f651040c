//! A client that asks and does not read.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::ChildStdin;
use std::time::{Duration, Instant};

use super::Over;
use crate::soak::ws;

/// How long a ping may take before it counts as never answered.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection to the daemon.
pub(super) struct Connection {
    over: Over,
    stream: Stream,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Stdin(ChildStdin),
}

impl Over {
    /// Where the daemon listens; nowhere on stdio.
    pub(super) fn url(self) -> Option<String> {
        let name = std::process::id();
        match self {
            Over::Stdio => None,
            Over::Tcp => Some("tcp://127.0.0.1:0".to_owned()),
            Over::Unix => {
                let path = std::env::temp_dir().join(format!("duet-rpc-unread-{name}.sock"));
                Some(format!("unix://{}", path.display()))
            }
            Over::Ws => Some("ws://127.0.0.1:0/".to_owned()),
            Over::Http => Some("http://127.0.0.1:0/".to_owned()),
        }
    }
}

impl Connection {
    pub(super) fn stdin(stdin: ChildStdin) -> Self {
        Connection { over: Over::Stdio, stream: Stream::Stdin(stdin) }
    }

    pub(super) fn open(over: Over, address: &str) -> io::Result<Self> {
        let (_, place) = address.split_once("://").unwrap_or(("", address));
        if over == Over::Unix {
            let stream = UnixStream::connect(place)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            return Ok(Connection { over, stream: Stream::Unix(stream) });
        }
        let mut stream = TcpStream::connect(place.trim_end_matches('/'))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        if over == Over::Ws {
            ws::shake_hands(&mut stream, "localhost")?;
        }
        Ok(Connection { over, stream: Stream::Tcp(stream) })
    }

    /// Sends this request so many times, as far as the daemon reads.
    pub(super) fn send_unread(&mut self, request: &str, count: usize) -> io::Result<()> {
        let mut bytes = Vec::new();
        for id in 0..count {
            bytes.extend(self.message(&format!(r#"{{"jsonrpc":"2.0","id":{id},{request}}}"#)));
        }
        match &self.stream {
            Stream::Tcp(stream) => stream.set_nonblocking(true)?,
            Stream::Unix(stream) => stream.set_nonblocking(true)?,
            Stream::Stdin(_) => {}
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match self.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Asks for a small answer, and waits for it.
    pub(super) fn ping(&mut self) -> io::Result<()> {
        let mut rest = &self.message(r#"{"jsonrpc":"2.0","id":1,"method":"version"}"#)[..];
        while !rest.is_empty() {
            let count = self.write(rest)?;
            rest = &rest[count..];
        }
        let mut reader = BufReader::new(Reading(self));
        let mut answer = Vec::new();
        // Every way of framing it ends an answer to this with the same brackets.
        while !answer.ends_with(b"}}") {
            if reader.read_until(b'}', &mut answer)? == 0 {
                return Err(io::Error::other("the connection was closed"));
            }
        }
        Ok(())
    }

    /// How long a ping takes.
    pub(super) fn time_ping(&mut self) -> io::Result<Duration> {
        let sent = Instant::now();
        self.ping()?;
        Ok(sent.elapsed())
    }

    fn message(&self, text: &str) -> Vec<u8> {
        match self.over {
            Over::Ws => ws::frame(ws::LAST | ws::TEXT, text.as_bytes(), [1, 2, 3, 4]),
            Over::Http => format!(
                "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n{text}",
                text.len()
            )
            .into_bytes(),
            Over::Stdio | Over::Tcp | Over::Unix => format!("{text}\n").into_bytes(),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Stdin(stream) => stream.write(bytes),
        }
    }
}

struct Reading<'a>(&'a mut Connection);

impl Read for Reading<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.0.stream {
            Stream::Tcp(stream) => stream.read(into),
            Stream::Unix(stream) => stream.read(into),
            Stream::Stdin(_) => Ok(0),
        }
    }
}
