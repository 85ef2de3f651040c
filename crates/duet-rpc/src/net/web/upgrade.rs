//! WebSocket handshake of a client on a socket.

use std::future::poll_fn;
use std::io;
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::time::timeout;

use super::authorization;
use super::handshake;
use super::head::{HeadReader, Response};
use super::status::HttpRefusal;
use crate::net::Socket;

/// Asks a server for a WebSocket. What is asked for with is 16 bytes that nobody can foretell; what
/// comes back too is what was read behind the head.
pub(in crate::net) async fn ask_for_upgrade(
    mut socket: Socket,
    request: &Ask<'_>,
    header_bytes: usize,
    patience: Option<Duration>,
) -> io::Result<(Socket, Vec<u8>)> {
    let &Ask { host, target, token, nonce } = request;
    let bytes = handshake::request_of(host, target, &authorization(token)?, nonce);
    let check = |head: &[u8]| {
        Ok(Response::read(head).and_then(|response| handshake::check_answer(&response, nonce)))
    };
    let exchange = async {
        write_all(&mut socket, &bytes).await?;
        read_head(&mut socket, header_bytes, check).await
    };
    let (answer, rest) = within(patience, exchange).await?;
    match answer {
        Ok(checked) => checked.map(|()| (socket, rest)),
        Err(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "the server does not speak HTTP")),
    }
}

/// What a server is asked for.
#[derive(Clone, Copy)]
pub(in crate::net) struct Ask<'a> {
    /// The server, with its port.
    pub(in crate::net) host: &'a str,
    /// The path, and the query if there is one.
    pub(in crate::net) target: &'a str,
    pub(in crate::net) token: Option<&'a str>,
    pub(in crate::net) nonce: [u8; 16],
}

/// Reads a head, and what `read` makes of it; behind it, what else was read.
async fn read_head<T>(
    socket: &mut Socket,
    header_bytes: usize,
    read: impl Fn(&[u8]) -> Result<T, HttpRefusal>,
) -> io::Result<(Result<T, HttpRefusal>, Vec<u8>)> {
    let mut reader = HeadReader::new(header_bytes);
    poll_fn(|cx| {
        loop {
            let step = ready!(socket.poll_read(cx, |piece| {
                if piece.is_empty() {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
                }
                let taken = reader.take(piece);
                let rest = piece.get(taken.used..).unwrap_or_default();
                Ok(match taken.head {
                    Ok(None) => None,
                    Ok(Some(head)) => Some((read(head), rest.to_vec())),
                    Err(refusal) => Some((Err(refusal), Vec::new())),
                })
            }))??;
            if let Some(outcome) = step {
                return Poll::Ready(Ok(outcome));
            }
        }
    })
    .await
}

async fn write_all(socket: &mut Socket, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    poll_fn(|cx| {
        while !rest.is_empty() {
            let written = ready!(socket.poll_write(cx, rest))?;
            rest = rest.get(written..).unwrap_or_default();
        }
        Poll::Ready(Ok(()))
    })
    .await
}

/// Does it in that time, or not at all.
async fn within<T>(
    patience: Option<Duration>,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let Some(patience) = patience else { return work.await };
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
    timeout(patience, work).await.map_err(late)?
}

#[cfg(test)]
#[path = "upgrade_tests.rs"]
mod tests;
