//! The TLS handshake of a server and of a client.
//!
//! A server inspects the first bytes before it begins:
//!
//! | first bytes | the server |
//! |---|---|
//! | a TLS record | begins the handshake |
//! | an HTTP request | answers 400 in plain text, and closes |
//! | anything else | closes |

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::error::{Side, TlsError, explain};
use super::stream::TlsSocket;
use super::{Inside, TlsClient, TlsServer, certificate};
use crate::log_limit::LogLimiter;
use crate::net::{Place, Socket};

/// The first byte of a TLS handshake.
const HANDSHAKE: u8 = 0x16;

/// The HTTP methods to recognise, and the beginning of HTTP/2.
const METHODS: [&[u8]; 8] =
    [b"GET ", b"POST ", b"HEAD ", b"OPTIONS ", b"PUT ", b"DELETE ", b"PATCH ", b"PRI "];

/// The answer to a plain HTTP request.
const SPEAKS_TLS: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 73\r\nConnection: close\r\n\r\n\
    This port speaks TLS. Use an address that begins with https, wss or tls.\n";

/// Accepts the handshake of a client, within this time.
pub(in crate::net) async fn accept(
    socket: Socket,
    settings: &TlsServer,
    inside: Inside,
    patience: Duration,
) -> io::Result<Socket> {
    let accepted = match timeout(patience, begin(socket, settings, inside)).await {
        Ok(accepted) => accepted,
        Err(_) => Err(late()),
    };
    accepted.inspect_err(|error| {
        static LIMIT: LogLimiter = LogLimiter::new(20);
        // A client that connects and sends nothing, as a health check does, is not worth a warning.
        if TlsError::from_error(error).is_some() {
            LIMIT.log("TLS handshakes failed", || tracing::warn!(%error, "TLS handshake failed"));
        }
    })
}

async fn begin(socket: Socket, settings: &TlsServer, inside: Inside) -> io::Result<Socket> {
    let stream = socket.into_tcp()?;
    let mut first = [0; 8];
    let count = stream.peek(&mut first).await?;
    match first.get(..count).unwrap_or_default() {
        [] => return Err(io::ErrorKind::UnexpectedEof.into()),
        [HANDSHAKE, ..] => {}
        first if METHODS.iter().any(|it| it.starts_with(first) || first.starts_with(it)) => {
            answer_in_plain_text(stream).await;
            return Err(TlsError::not_tls("the client speaks HTTP without TLS"));
        }
        _ => {
            close(stream).await;
            return Err(TlsError::not_tls("the client does not speak TLS"));
        }
    }
    let acceptor = TlsAcceptor::from(settings.config(inside));
    match acceptor.accept(stream).into_fallible().await {
        Ok(stream) => {
            let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
            let identity = certificates.first().map(certificate::identity);
            Ok(Socket::tls(TlsSocket::new(TlsStream::Server(stream), identity)))
        }
        Err((error, stream)) => {
            // The client still has to read the alert.
            close(stream).await;
            Err(explain(error, Side::Server))
        }
    }
}

async fn answer_in_plain_text(stream: TcpStream) {
    // Nothing was sent before, so the system takes these few bytes. Ignore errors: the client may be gone.
    let _ = stream.try_write(SPEAKS_TLS);
    close(stream).await;
}

/// Closes when the client has had a moment to read.
async fn close(stream: TcpStream) {
    let mut socket = Socket::tcp(stream);
    poll_fn(|cx| socket.poll_shutdown(cx)).await;
}

/// Makes the handshake with a server, within this time.
pub(in crate::net) async fn connect(
    socket: Socket,
    place: &Place,
    settings: &TlsClient,
    inside: Inside,
    patience: Option<Duration>,
) -> io::Result<Socket> {
    let name = settings.name_of(&place.host)?;
    if !settings.checks_certificates() {
        tracing::warn!("the certificate of {} is not checked", place.host.escape_debug());
    }
    let host = name.to_str().into_owned();
    let connector = TlsConnector::from(settings.config(inside)?);
    let connecting = connector.connect(name, socket.into_tcp()?);
    let connected = match patience {
        Some(patience) => timeout(patience, connecting).await.map_err(|_| late())?,
        None => connecting.await,
    };
    let stream = connected.map_err(|error| explain(error, Side::Client(&host)))?;
    Ok(Socket::tls(TlsSocket::new(TlsStream::Client(stream), None)))
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake took too long")
}

#[cfg(test)]
mod tests {
    use super::SPEAKS_TLS;

    #[test]
    fn t5_the_answer_to_plain_http_has_its_length() {
        let text = std::str::from_utf8(SPEAKS_TLS).expect("it is text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
    }
}
