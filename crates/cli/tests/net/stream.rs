//! A client connection: bytes in both directions.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

use crate::support::daemon::HANG;
use crate::support::listening::Url;

pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Connects, with a read timeout that fails the test.
    pub(crate) fn connect(url: &Url) -> Self {
        match url.scheme.as_str() {
            "unix" => {
                let stream = UnixStream::connect(&url.path).expect(&url.text);
                stream.set_read_timeout(Some(HANG)).expect("a time that can be");
                Stream::Unix(stream)
            }
            _ => {
                let stream = TcpStream::connect(url.address()).expect(&url.text);
                stream.set_read_timeout(Some(HANG)).expect("a time that can be");
                stream.set_nodelay(true).expect("it is TCP");
                Stream::Tcp(stream)
            }
        }
    }

    pub(crate) fn try_clone(&self) -> Self {
        match self {
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone().expect("a second one")),
            Stream::Unix(stream) => Stream::Unix(stream.try_clone().expect("a second one")),
        }
    }

    /// Closes our sending side.
    pub(crate) fn finish(&self) {
        // The other end may have closed the connection already.
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }

    /// Resets the connection: data in flight is lost, in both directions.
    pub(crate) fn reset(self) {
        if let Stream::Tcp(stream) = &self {
            let none = Some(std::time::Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(stream, none).expect("it is a socket");
        }
    }

    /// Reads to the end, orderly or not.
    pub(crate) fn read_out(&mut self) -> Vec<u8> {
        let (mut all, mut chunk) = (Vec::new(), [0; 4096]);
        loop {
            match self.read(&mut chunk) {
                Ok(0) => return all,
                Ok(count) => all.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    panic!("neither data nor an end: {:?}", String::from_utf8_lossy(&all))
                }
                Err(_) => return all,
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(into),
            Stream::Unix(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
