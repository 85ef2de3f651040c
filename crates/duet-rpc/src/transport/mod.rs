//! Transports carry messages between two peers.
//!
//! A [`Transport`] receives into an [`Inbox`] and sends from an [`Outbox`]. Both belong to the driver, so
//! a transport holds no message of its own, and cannot lose one. Most transports carry bytes, and the
//! profile's framing cuts messages out of them. Some carry whole messages, as WebSockets do.

pub(crate) mod buffer_pool;
mod deadlines;
mod exchange;
mod exit_report;
mod fifo;
mod inbox;
mod largest;
pub mod memory;
mod outbox;
mod pipe;
mod stream;

use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

pub(crate) use self::exchange::{Exchange, ExchangeTransport};
pub use self::exit_report::{ExitReport, Stopped};
pub use self::inbox::Inbox;
pub use self::outbox::Outbox;
pub use self::pipe::{MessagePipe, PipeEvent};
pub use self::stream::Stream;
/// Made by a [`Connector`].
#[cfg(feature = "http")]
#[doc(hidden)]
pub use crate::net::HttpClient;
/// The cause of an error with an [HTTP status](crate::Error::http_status).
#[cfg(any(feature = "http", feature = "websocket"))]
#[doc(hidden)]
pub use crate::net::Refused;
#[cfg(feature = "websocket")]
pub use crate::net::WebSocket;
#[cfg(any(feature = "http", feature = "websocket"))]
pub use crate::net::{AccessPolicy, OriginPattern, OriginPatternError, TokenFile, TokenFileError};
pub use crate::net::{Address, Child, Connect, Connector, Incoming, Listener, Place, Socket};
/// Parts of an address. Most applications write an address as text and never need them.
#[doc(hidden)]
pub use crate::net::{AddressError, Security, Target};
#[cfg(feature = "tls")]
pub use crate::net::{ClientCertificates, TlsBinder, TlsClient, TlsError, TlsErrorKind, TlsServer};
pub use crate::stdio::Stdio;

/// One end of a connection.
///
/// The driver polls it from one task. Every method may be called again after it was pending or ready, and
/// none is called after [`poll_close`](Transport::poll_close) was ready.
pub trait Transport: Send + 'static {
    /// The kind of traffic that it carries.
    fn kind(&self) -> TransportKind {
        TransportKind::Bytes
    }

    /// Receives: appends bytes to [`Inbox::space`], or a message with [`Inbox::push`].
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>>;

    /// Sends the contents of the outbox. Ready when all bytes are sent. It is also called with an empty
    /// outbox: after data was received that the transport may have to answer itself, and when the outbox has
    /// a signal ([`is_closing`](Outbox::is_closing), [`take_settled`](Outbox::take_settled),
    /// [`next_abandoned`](Outbox::next_abandoned)).
    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>>;

    /// Ready when the remote has closed its end. Detects this without reading data. It is polled while
    /// back-pressure stops reading. A transport that cannot tell stays pending.
    fn poll_remote_closed(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Ready when the remote reads nothing any more, for example because its process has ended. Detects this without
    /// sending data. A transport that cannot tell stays pending: TCP shows only that the remote sends nothing more.
    fn poll_reader_gone(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Closes the connection, and reports how the other end ended. The contents of the outbox are lost.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport>;

    /// Returns `true` if [`poll_send`](Transport::poll_send) only hands messages to another task, without a system call.
    /// Then a caller whose peer was [spawned](crate::PeerBuilder::spawn) sends its call itself, on its own thread, which
    /// saves waking the task of the connection. Messages of several callers leave one by one.
    fn sends_inline(&self) -> bool {
        false
    }

    /// Returns `true` if [`poll_close`](Transport::poll_close) reports the exit of a process. After the exit, pending
    /// calls fail with the report in their error, if the report comes within half a second.
    fn reports_exit(&self) -> bool {
        false
    }
}

/// The kind of traffic that a transport carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// A stream of bytes; a framing cuts messages out of it.
    Bytes,
    /// Whole messages.
    Messages,
    /// Receives whole messages. Sends WebSocket frames, already encoded for this role in
    /// [`Outbox::bytes`].
    WebSocket(duet_rpc_proto::ws::Role),
    /// One message and then its answer, as in an HTTP request. Nothing else can go to the remote: calls,
    /// notifications and events fail. The message is answered, or [settled](Outbox::take_settled) without
    /// an answer.
    Exchange,
    /// One message, and then notifications, events and its answer, as in an HTTP request whose client takes a stream of
    /// events. Calls fail.
    ExchangeStream,
    /// One message, and then calls, notifications, events and its answer, as in a request behind a broker. The answers to
    /// the calls arrive after the message.
    ExchangeTwoWay,
}

/// The outcome of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Data arrived. More may be available already.
    Data,
    /// There is no more data for now. Also returned if nothing came, but `poll_send` must run.
    Drained,
    /// The remote will send no more.
    Eof,
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn kind(&self) -> TransportKind {
        (**self).kind()
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        (**self).poll_receive(cx, inbox)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        (**self).poll_send(cx, outbox)
    }

    fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        (**self).poll_remote_closed(cx)
    }

    fn poll_reader_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        (**self).poll_reader_gone(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        (**self).poll_close(cx)
    }

    fn sends_inline(&self) -> bool {
        (**self).sends_inline()
    }

    fn reports_exit(&self) -> bool {
        (**self).reports_exit()
    }
}

/// Wakes this task after all other tasks have run and the runtime has polled for events. Waking it directly
/// would not work, because a runtime runs many woken tasks before it polls for events.
pub(crate) fn let_others_run(cx: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}
