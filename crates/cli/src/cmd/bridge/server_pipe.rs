//! The pipe to a server, and the decision about its framing.
//!
//! | first | framing of the server, without `--to-framing` |
//! |---|---|
//! | a message of the server | that of the message |
//! | `initialize` of MCP from a client | `ndjson` |
//! | another `initialize` from a client | `lsp` |
//! | another message of a client | that of the client, or `ndjson` if it has none |
//!
//! Bytes of the server that are not a message decide nothing: they may be stray output.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use duet_rpc::Profile;
use duet_rpc::proto::frame::Framing;
use duet_rpc::proto::text::{Member, Text};
use duet_rpc::transport::{ExitReport, MessagePipe, PipeEvent, Refused, TransportKind};

use super::rewrite::member;
use super::servers::ServerTransport;
use crate::cmd::call::address::ServerAddress;

/// A [`MessagePipe`] to a server.
pub(super) struct ServerPipe {
    pipe: MessagePipe<ServerTransport>,
    is_undecided: bool,
    /// The address of a server that was connected to.
    address: Option<Arc<ServerAddress>>,
    /// A message of the server has come.
    has_spoken: bool,
    is_refused: bool,
}

impl ServerPipe {
    /// A pipe whose framing is fixed, or detected from the first byte while it is undecided.
    pub(super) fn new(
        pipe: MessagePipe<ServerTransport>,
        is_undecided: bool,
        address: Option<Arc<ServerAddress>>,
    ) -> Self {
        ServerPipe { pipe, is_undecided, address, has_spoken: false, is_refused: false }
    }

    pub(super) fn kind(&self) -> TransportKind {
        self.pipe.kind()
    }

    /// Returns `true` if the server ended the connection with a refusal, and sent no message before.
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Returns `true` until the framing is decided.
    pub(super) fn is_undecided(&self) -> bool {
        self.is_undecided
    }

    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        mut handle: impl FnMut(PipeEvent<'_>),
    ) -> Poll<io::Result<bool>> {
        let ServerPipe { pipe, is_undecided, has_spoken, .. } = self;
        let received = pipe.poll_receive(cx, |event| {
            let is_message = matches!(event, PipeEvent::Message(_));
            *is_undecided &= !is_message;
            *has_spoken |= is_message;
            handle(event);
        });
        if let Poll::Ready(Err(error)) = &received {
            self.log_end(error);
        }
        received
    }

    /// Logs the error that ended the connection to a server, in the words of `call` if it is a refusal.
    fn log_end(&mut self, error: &io::Error) {
        let Some(address) = &self.address else { return };
        match address.refused_connection(error, !self.has_spoken) {
            Some(refusal) => {
                self.is_refused = !self.has_spoken;
                tracing::warn!("{refusal}");
            }
            None if self.kind() == TransportKind::Messages => {
                tracing::warn!(%error, "the connection to the server failed");
            }
            None => {}
        }
    }

    /// Adds a message to the outbox, from a client with this framing.
    pub(super) fn send(&mut self, message: &[u8], of_client: Option<Framing>) {
        if std::mem::take(&mut self.is_undecided) {
            let framing = detect(message, of_client);
            tracing::info!(%framing, "framing of the server guessed; --to-framing sets it");
            self.pipe.set_framing(framing);
        }
        self.pipe.send(message);
    }

    /// The framing for a client that has not shown its own: that of its server.
    pub(super) fn framing_for_client(&self) -> Framing {
        self.pipe.framing().unwrap_or(Framing::Ndjson)
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.pipe.poll_flush(cx);
        if let Poll::Ready(Err(error)) = &flushed
            && Refused::from_error(error).is_some()
        {
            self.log_end(error);
        }
        flushed
    }

    /// Says that nothing more will be sent, so that flushing an HTTP server waits for its answers.
    pub(super) fn settle(&mut self) {
        self.pipe.settle();
    }

    pub(super) fn signs_of_reading(&self) -> u64 {
        self.pipe.signs_of_reading()
    }

    pub(super) fn unsent(&self) -> usize {
        self.pipe.unsent()
    }

    pub(super) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        self.pipe.poll_close(cx)
    }

    pub(super) fn transport_mut(&mut self) -> &mut ServerTransport {
        self.pipe.transport_mut()
    }
}

/// The framing that a server probably speaks.
fn detect(first: &[u8], of_client: Option<Framing>) -> Framing {
    let depth = Profile::agent().limits.depth;
    let text = Text::check(first, depth).ok();
    let is_initialize = |text: &Text<'_>| {
        text.string_member(Member::Method).is_some_and(|method| method == "initialize")
    };
    match text.filter(is_initialize) {
        Some(text) => {
            let params = text.member(Member::Params).unwrap_or_default();
            let is_mcp = member(params, "protocolVersion").is_some();
            if is_mcp { Framing::Ndjson } else { Framing::Lsp }
        }
        None => of_client.unwrap_or(Framing::Ndjson),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b1_framing_of_the_server_follows_from_the_first_message() {
        let lsp = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":1}}"#;
        let mcp =
            br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"x"}}"#;
        let other = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        for (first, of_client, expected) in [
            (&lsp[..], None, Framing::Lsp),
            (lsp, Some(Framing::Ndjson), Framing::Lsp),
            (mcp, None, Framing::Ndjson),
            (mcp, Some(Framing::Lsp), Framing::Ndjson),
            (other, None, Framing::Ndjson),
            (other, Some(Framing::Lsp), Framing::Lsp),
            (other, Some(Framing::Length), Framing::Length),
            (b"[]", Some(Framing::Length), Framing::Length),
        ] {
            assert_eq!(detect(first, of_client), expected);
        }
    }
}
