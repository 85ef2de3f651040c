//! The last words to a client that is not served.

use std::future::poll_fn;
use std::io;
use std::task::{Poll, ready};

use super::response::Reply;
use super::status::Refusal;
use crate::transport::Socket;

/// Tells a client why it is not served, and closes. It may still be sending.
pub(in crate::transport) async fn turn_away(mut socket: Socket, refusal: &Refusal) {
    let mut reply = Reply::to_refusal(refusal);
    reply.closes = true;
    let bytes = reply.write_refusal(refusal, false);
    // One that does not listen has only itself to blame.
    if write_all(&mut socket, &bytes).await.is_ok() {
        poll_fn(|cx| socket.poll_linger(cx)).await;
    }
}

pub(super) async fn write_all(socket: &mut Socket, bytes: &[u8]) -> io::Result<()> {
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
