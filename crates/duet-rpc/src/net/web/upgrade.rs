//! WebSocket handshakes on sockets: reads one head, and writes one answer.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::time::timeout;

use super::access::AccessPolicy;
use super::authorization;
use super::handshake;
use super::head::{HeadReader, HttpRequest, Response};
use super::response::final_response;
use super::status::HttpRefusal;
use crate::net::Socket;
use crate::remote::Identity;

/// Takes a connection that is to become a WebSocket. A remote that is refused is told why, and the
/// connection is closed.
pub(in crate::net) async fn upgrade(
    mut socket: Socket,
    access: &AccessPolicy,
    path: &str,
    header_bytes: usize,
    patience: Duration,
) -> io::Result<Upgraded> {
    let patience = Some(patience);
    let judge =
        |head: &[u8]| HttpRequest::read(head).and_then(|request| admit(&request, access, path));
    let reading = within(patience, read_head(&mut socket, header_bytes, judge));
    let (answer, rest) = match reading.await {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            (Err(HttpRefusal::LATE), Vec::new())
        }
        outcome => outcome?,
    };
    match answer {
        Ok((answer, identity)) => {
            within(patience, write_all(&mut socket, &answer)).await?;
            Ok(Upgraded { socket, rest, identity })
        }
        Err(refusal) => {
            refusal.log();
            // One that does not listen has only itself to blame.
            if within(patience, write_all(&mut socket, &final_response(&refusal))).await.is_ok() {
                poll_fn(|cx| socket.poll_linger(cx)).await;
            }
            Err(io::Error::other(format!("a client was refused: {}", refusal.status)))
        }
    }
}

/// A connection that has become a WebSocket.
pub(in crate::net) struct Upgraded {
    pub(in crate::net) socket: Socket,
    /// The bytes that were read behind the head.
    pub(in crate::net) rest: Vec<u8>,
    /// The identity that the remote has proved.
    pub(in crate::net) identity: Option<Arc<Identity>>,
}

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

/// Checks all that can be wrong with a request for a WebSocket, and answers it.
fn admit(
    request: &HttpRequest<'_>,
    access: &AccessPolicy,
    path: &str,
) -> Result<(Vec<u8>, Option<Arc<Identity>>), HttpRefusal> {
    access.check_origin(request)?;
    let identity = access.check_token(request)?;
    if request.path != path {
        return Err(HttpRefusal::NO_SUCH_PATH);
    }
    Ok((handshake::accept(request)?, identity))
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
        socket.poll_flush(cx)
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
