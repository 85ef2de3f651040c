//! Sockets of this machine that a tap stands between: there are none. A thread that reads a named pipe keeps others from
//! writing to it, so a tap cannot pump both directions.

use std::convert::Infallible;
use std::io;
use std::io::Read;
use std::net::{Shutdown, TcpStream};

use duet_rpc::transport::Address;
use duet_rpc_trace::ByteStream;

/// A connected socket.
// Same name: the interface of `unix/local.rs`.
pub(crate) type LocalSocket = Infallible;

/// A listening socket.
// Same name: the interface of `unix/local.rs`.
pub(crate) type LocalListener = Infallible;

/// The place of such a socket.
// Same name: the interface of `unix/local.rs`.
pub(crate) type LocalPlace = Infallible;

/// `None`: an address names none of these.
pub(crate) fn place(_: &Address) -> Option<LocalPlace> {
    None
}

/// The transports that a tap can stand between.
pub(crate) const TAPPED: &str = "tcp://, ws:// or http://";

pub(crate) fn connect(place: &LocalPlace) -> io::Result<LocalSocket> {
    match *place {}
}

pub(crate) fn bind(place: &LocalPlace) -> io::Result<LocalListener> {
    match *place {}
}

pub(crate) fn accept(listener: &LocalListener) -> io::Result<LocalSocket> {
    match *listener {}
}

pub(crate) fn remove(place: &LocalPlace) {
    match *place {}
}

/// A connection of a tap.
// Same name: the interface of `unix/local.rs`.
pub(crate) enum TappedSocket {
    Tcp(TcpStream),
    Local(LocalSocket),
}

impl TappedSocket {
    pub(crate) fn shutdown(&self, how: Shutdown) {
        // It fails if the other side has closed the connection.
        let _ = self.tcp().shutdown(how);
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            TappedSocket::Tcp(socket) => socket,
            TappedSocket::Local(socket) => match *socket {},
        }
    }
}

impl ByteStream for TappedSocket {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        ByteStream::read(self.tcp(), buffer)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        ByteStream::write(self.tcp(), bytes)
    }

    fn duplicate(&self) -> io::Result<Box<dyn Read + Send>> {
        self.tcp().duplicate()
    }
}
