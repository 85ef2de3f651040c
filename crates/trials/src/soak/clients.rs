//! Many connections to one daemon that come and go, each with a game of its own. When all of a generation
//! are gone, the daemon must be as it was before.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::client::Client;
use super::config::{Config, Over};
use super::connection::Connection;
use super::counters::{Broken, Counters, Group};
use super::expect::Pages;
use super::ledger::Ledger;
use super::log::Log;
use super::ws;
use crate::random::Random;

/// What all connections share.
pub(super) struct Clients {
    pub(super) config: Config,
    pub(super) url: String,
    pub(super) log: Arc<Log>,
    pub(super) pages: Arc<Pages>,
    pub(super) counters: Arc<Counters>,
    pub(super) patience: Duration,
}

/// A socket of either kind.
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    pub(super) fn connect(url: &str) -> io::Result<Self> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        match scheme {
            "unix" => UnixStream::connect(rest).map(Socket::Unix),
            _ => {
                let stream = TcpStream::connect(rest.trim_end_matches('/'))?;
                // Pieces are sent as they are cut.
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
        }
    }

    pub(super) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Socket::Tcp(stream) => stream.try_clone().map(Socket::Tcp),
            Socket::Unix(stream) => stream.try_clone().map(Socket::Unix),
        }
    }

    pub(super) fn shutdown(&self, how: Shutdown) {
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(how),
            Socket::Unix(stream) => stream.shutdown(how),
        };
    }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(bytes),
            Socket::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The end that is written to: when it goes, the daemon sees the end of its input.
struct Sending(Socket);

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.shutdown(Shutdown::Write);
    }
}

impl Clients {
    /// A generation: so many connections at once, each with its own random numbers.
    pub(super) fn generation(&self, random: &mut Random, count: usize) -> Result<(), Broken> {
        let randoms: Vec<_> = (0..count).map(|_| random.fork()).collect();
        thread::scope(|scope| {
            let lives = randoms.into_iter().map(|random| scope.spawn(|| self.live(random)));
            let lives: Vec<_> = lives.collect();
            let ends = lives.into_iter().map(|life| {
                let end = life.join().unwrap_or_else(|_| Err(Broken::new("a client panicked")));
                end.inspect_err(|broken| self.counters.fail(broken.clone()))
            });
            // All are waited for, and the first that broke is told.
            let ends: Vec<_> = ends.collect();
            ends.into_iter().collect()
        })
    }

    /// One connection, from its beginning to its end.
    fn live(&self, random: Random) -> Result<(), Broken> {
        if self.config.over == Over::Http {
            return self.post(random);
        }
        self.with_connection(random, |client, socket| {
            client.greet()?;
            for _ in 0..1 + client.random.below(3) {
                client.mix()?;
                if client.random.once_in(3) {
                    client.act()?;
                }
            }
            client.unsubscribe()?;
            client.leave(socket)
        })
    }

    /// Alone: frames that do not come to their end, as the log is the whole daemon's.
    pub(super) fn stall(&self, random: Random) -> Result<(), Broken> {
        if self.config.over == Over::Http {
            return self.post_half(random);
        }
        self.with_connection(random, |client, _| {
            client.greet()?;
            client.stall()?;
            if self.config.over != Over::Ws {
                client.part();
            }
            Ok(())
        })
    }

    /// As many slow handlers as there are threads for them.
    pub(super) fn warm_up(&self, random: Random) -> Result<(), Broken> {
        if self.config.over == Over::Http {
            return self.post_slow(random);
        }
        self.with_connection(random, |client, _| {
            client.many_slow()?;
            client.part();
            Ok(())
        })
    }

    fn with_connection(
        &self,
        random: Random,
        play: impl FnOnce(&mut Client<'_>, &Socket) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let broken = |error: io::Error| Broken::new(format!("no connection: {error}"));
        let mut socket = Socket::connect(&self.url).map_err(broken)?;
        if self.config.over == Over::Ws {
            let host = self.url.trim_start_matches("ws://").trim_end_matches('/');
            ws::shake_hands(&mut socket, host).map_err(broken)?;
        }
        let pages = Arc::clone(&self.pages);
        let ledger = Ledger::new(self.config.order(), pages, Arc::clone(&self.counters));
        let (sending, receiving) =
            (Sending(socket.try_clone().map_err(broken)?), socket.try_clone().map_err(broken)?);
        let connection =
            Connection::new(self.config.carrier(), sending, receiving, ledger, &self.counters);
        let mut client =
            Client::new(random, self.config, &connection, &self.log, &self.counters, self.patience);
        let played = play(&mut client, &socket);
        if played.is_err() {
            connection.ledger.break_off();
            socket.shutdown(Shutdown::Both);
        }
        let ended = connection.finish(self.patience);
        played.and(ended)
    }

    /// Counts a connection that ended so.
    pub(super) fn count(counters: &Counters, how: &'static str) {
        counters.count(Group::Connections, how);
    }
}
