//! Message pipe: whole messages over any transport, without a session.
//!
//! A [`Peer`](crate::Peer) reads messages, routes them to handlers and matches answers. A program that only passes
//! messages on, such as a bridge or a proxy, needs none of that: it takes each message as it came, and sends others.
//! This type has the buffers and the framing of a connection, and nothing else.

use std::fmt;
use std::io;
use std::task::{Context, Poll};

use duet_rpc_proto::Profile;
use duet_rpc_proto::fault::Fault;
use duet_rpc_proto::frame::{Event, Framing, FramingChoice};
use duet_rpc_proto::message::Id;
use duet_rpc_proto::session::Sink;
use duet_rpc_proto::text::Text;

use super::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};

/// A message of this size or more keeps its own buffer until it is sent.
const LARGE: usize = 64 * 1024;

/// After a larger message, memory is freed as soon as nothing more has arrived.
const HUGE: usize = 1024 * 1024;

/// A transport with its buffers: sends and receives whole messages.
///
/// It checks that each received message is JSON within the limits of the profile, and knows nothing else about
/// messages. Stop calling [`poll_receive`](MessagePipe::poll_receive) while [`unsent`](MessagePipe::unsent) of the
/// other side is large: the remote then has to wait, and memory stays bounded.
///
/// ```
/// use std::future::poll_fn;
/// use duet_rpc::Profile;
/// use duet_rpc::transport::{MessagePipe, PipeEvent, memory};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (here, there) = memory::pair();
/// let mut here = MessagePipe::new(here, &Profile::agent());
/// let mut there = MessagePipe::new(there, &Profile::agent());
/// here.send(br#"{"jsonrpc":"2.0","method":"hello"}"#);
/// poll_fn(|cx| here.poll_flush(cx)).await?;
///
/// let mut received = Vec::new();
/// let is_open = poll_fn(|cx| {
///     there.poll_receive(cx, |event| {
///         if let PipeEvent::Message(text) = event {
///             received.push(text.as_str().to_owned());
///         }
///     })
/// });
/// assert!(is_open.await?);
/// assert_eq!(received, [r#"{"jsonrpc":"2.0","method":"hello"}"#]);
/// # Ok(())
/// # }
/// ```
pub struct MessagePipe<T> {
    transport: T,
    inbox: Inbox,
    outbox: Outbox,
    framing_is_open: bool,
    has_ended: bool,
    /// `true` if a huge message arrived, and its memory is not freed yet.
    is_swollen: bool,
}

/// An arrival on a [`MessagePipe`].
#[derive(Debug)]
pub enum PipeEvent<'a> {
    /// A message, as it came.
    Message(Text<'a>),
    /// Bytes that are not a message.
    Fault(Fault<'a>),
    /// The request with this id cannot be answered, for this reason. Only transports that carry each request
    /// separately, as HTTP does, report this.
    Failed(Id, io::Error),
}

impl Outbox {
    /// An empty outbox for a transport of this kind. `framing` is `None` if it is still to be detected.
    pub(crate) fn for_transport(kind: TransportKind, framing: Option<Framing>) -> Self {
        match kind {
            TransportKind::WebSocket(role) => Outbox::for_web_socket(role),
            // Most programs understand headers, if a message is sent before the framing is detected.
            TransportKind::Bytes => Outbox::new(Some(framing.unwrap_or(Framing::Lsp))),
            TransportKind::Messages
            | TransportKind::Exchange
            | TransportKind::ExchangeStream
            | TransportKind::ExchangeTwoWay => Outbox::new(None),
        }
    }

    /// The number of waiting messages, if they are not framed.
    #[cfg(feature = "http")]
    pub(crate) fn message_count(&self) -> usize {
        self.lengths.len()
    }
}

impl Inbox {
    /// Sets the framing of the bytes that are not handled yet.
    pub(crate) fn set_framing(&mut self, framing: Framing) {
        if let Some(decoder) = &mut self.decoder {
            decoder.set_framing(framing);
        }
    }
}

impl<T: Transport> MessagePipe<T> {
    /// A pipe over this transport, with the framing and the limits of the profile.
    pub fn new(transport: T, profile: &Profile) -> Self {
        let framing = match profile.framing {
            FramingChoice::Fixed(framing) => Some(framing),
            FramingChoice::Auto => None,
        };
        let kind = transport.kind();
        let outbox = Outbox::for_transport(kind, framing);
        MessagePipe {
            inbox: Inbox::new(kind, profile),
            framing_is_open: kind == TransportKind::Bytes && framing.is_none(),
            outbox,
            transport,
            has_ended: false,
            is_swollen: false,
        }
    }

    /// Receives once, and calls `handle` for each message that is whole. Ready with `true` if something arrived, and
    /// with `false` at the end of the input.
    pub fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        mut handle: impl FnMut(PipeEvent<'_>),
    ) -> Poll<io::Result<bool>> {
        if self.has_ended {
            return Poll::Ready(Ok(false));
        }
        let received = self.transport.poll_receive(cx, &mut self.inbox);
        while let Some((id, error)) = self.inbox.next_failed_call() {
            handle(PipeEvent::Failed(id, error));
        }
        let is_over = match received {
            Poll::Pending => {
                if std::mem::take(&mut self.is_swollen) {
                    self.inbox.shrink();
                }
                return Poll::Pending;
            }
            Poll::Ready(Err(error)) => {
                self.has_ended = true;
                return Poll::Ready(Err(error));
            }
            Poll::Ready(Ok(Received::Eof)) => {
                self.inbox.finish();
                true
            }
            Poll::Ready(Ok(Received::Data | Received::Drained)) => false,
        };
        if self.framing_is_open
            && let Some(framing) = self.inbox.framing()
        {
            self.outbox.set_framing(framing);
            self.framing_is_open = false;
        }
        while let Some(event) = self.inbox.next_event() {
            match event {
                Event::Frame(text) => {
                    self.is_swollen |= text.as_str().len() > HUGE;
                    handle(PipeEvent::Message(text));
                }
                Event::Fault(fault) => handle(PipeEvent::Fault(fault)),
            }
        }
        self.inbox.give_buffer_back();
        self.inbox.recycle_buffer();
        self.has_ended = is_over;
        match self.inbox.take_end() {
            Some(reason) if is_over => Poll::Ready(Err(reason)),
            _ => Poll::Ready(Ok(!is_over)),
        }
    }

    /// Adds a message to the outbox. [`poll_flush`](MessagePipe::poll_flush) sends it.
    ///
    /// The message must be one JSON text. It is sent as it is; only line ends between its tokens become spaces, where
    /// a line end would end the message (`ndjson`, and HTTP).
    pub fn send(&mut self, message: &[u8]) {
        match message.len() {
            LARGE.. => self.outbox.send_text(message.to_vec()),
            _ => self.outbox.push(message),
        }
    }

    /// The number of bytes that wait to be sent.
    pub fn unsent(&self) -> usize {
        self.outbox.len()
    }

    /// A count of signs that the remote reads. While it stays the same and there are unsent bytes, the remote takes
    /// nothing.
    pub fn signs_of_reading(&self) -> u64 {
        self.outbox.signs()
    }

    /// Sends the contents of the outbox. Ready when all of it was sent. Call it after receiving, too, because the
    /// transport may have to answer by itself, as WebSockets answer pings.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = self.transport.poll_send(cx, &mut self.outbox);
        if sent.is_ready() {
            self.outbox.recycle_buffer();
        }
        sent
    }

    /// Says that nothing more will be sent. A transport that carries one message and its answer
    /// ([`TransportKind::Exchange`]) ends with the next flush. An HTTP client flushes until the server has answered
    /// every notification.
    pub fn settle(&mut self) {
        self.outbox.set_closing();
        self.outbox.set_settled();
    }

    /// Says that nobody waits for the answer to this request any more, so that the transport can free what belongs to
    /// it.
    pub fn abandon(&mut self, id: Id) {
        self.outbox.abandon(id);
    }

    /// Ready when the remote has closed its end; see [`Transport::poll_remote_closed`].
    pub fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.transport.poll_remote_closed(cx)
    }

    /// Ready when the remote reads nothing any more; see [`Transport::poll_reader_gone`].
    pub fn poll_reader_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.transport.poll_reader_gone(cx)
    }

    /// Closes the connection. Unsent messages are lost.
    pub fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        self.transport.poll_close(cx)
    }

    /// The kind of traffic of the transport.
    pub fn kind(&self) -> TransportKind {
        self.transport.kind()
    }

    /// The framing of received messages; `None` while it is not detected, and if the transport carries whole messages.
    pub fn framing(&self) -> Option<Framing> {
        self.inbox.framing()
    }

    /// Sets the framing of both directions, from here on. For a pipe with [`FramingChoice::Auto`] whose framing follows
    /// from something else than the first byte of the remote. Nothing happens if the transport carries whole messages.
    pub fn set_framing(&mut self, framing: Framing) {
        if self.kind() == TransportKind::Bytes {
            self.inbox.set_framing(framing);
            self.outbox.set_framing(framing);
            self.framing_is_open = false;
        }
    }

    /// Sets the framing of messages that are sent before the framing of the remote is detected. Without this, it is
    /// [`Framing::Lsp`].
    pub fn set_first_framing(&mut self, framing: Framing) {
        if self.framing_is_open {
            self.outbox.set_framing(framing);
        }
    }

    /// The transport, for its own methods. Do not receive or send through it.
    pub fn transport_mut(&mut self) -> &mut T {
        &mut self.transport
    }
}

impl<T> fmt::Debug for MessagePipe<T> {
    /// Shows the state, but no contents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("MessagePipe");
        shown.field("inbox", &self.inbox).field("outbox", &self.outbox).finish_non_exhaustive()
    }
}
