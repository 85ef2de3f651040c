//! A WebSocket polled by hand, with a clock set by hand.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use duet_rpc_proto::frame::Event;
use duet_rpc_proto::session::Sink;
use duet_rpc_proto::ws::{self, WsDecoder, WsFrameWriter};
use tokio::time::advance;

use super::*;

/// One end, polled by hand, and the remote at the other.
struct Hand {
    transport: WebSocket,
    inbox: Inbox,
    outbox: Outbox,
    remote: UnixStream,
    writer: WsFrameWriter,
    decoder: WsDecoder,
    /// The part of a message that the remote has received.
    unfinished: Vec<u8>,
}

const SECOND: Duration = Duration::from_secs(1);

fn profile() -> Profile {
    let mut profile = Profile::agent();
    profile.limits.message_bytes = 1000;
    profile.read_timeout = Some(30 * SECOND);
    profile
}

impl Hand {
    fn new(role: Role) -> Self {
        Self::with(role, &[])
    }

    fn with(role: Role, leftover: &[u8]) -> Self {
        let (here, remote) = UnixStream::pair().expect("a pair");
        here.set_nonblocking(true).expect("a flag");
        remote.set_nonblocking(true).expect("a flag");
        let here = tokio::net::UnixStream::from_std(here).expect("in a runtime");
        let transport = WebSocket::new(Socket::unix(here), role, &profile(), leftover.to_vec());
        let its_role = match role {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        };
        Hand {
            inbox: Inbox::new(transport.kind(), &profile()),
            outbox: Outbox::for_web_socket(role),
            transport,
            remote,
            writer: WsFrameWriter::new(its_role, 1),
            decoder: WsDecoder::new(its_role, usize::MAX),
            unfinished: Vec::new(),
        }
    }

    /// The bytes of a message from the remote.
    fn message(&mut self, text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = self.writer.write(&mut bytes, |out| {
            out.extend_from_slice(text.as_bytes());
            Ok::<_, ()>(())
        });
        written.expect("it cannot fail");
        bytes
    }

    fn control(&mut self, kind: ControlKind, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.writer.write_control(&mut bytes, kind, &Control::new(payload));
        bytes
    }

    /// Polls once, after the runtime has looked for readable and writable sockets.
    async fn poll(&mut self) -> Poll<Received> {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        let mut cx = Context::from_waker(Waker::noop());
        let received = self.transport.poll_receive(&mut cx, &mut self.inbox);
        received.map(|received| received.expect("the socket is there"))
    }

    /// Sends these bytes from the remote, and receives them.
    async fn receive(&mut self, bytes: &[u8]) -> Received {
        self.remote.write_all(bytes).expect("there is room");
        match self.poll().await {
            Poll::Ready(received) => received,
            Poll::Pending => panic!("the sent bytes have not arrived"),
        }
    }

    fn send(&mut self) -> Poll<()> {
        let mut cx = Context::from_waker(Waker::noop());
        let sent = self.transport.poll_send(&mut cx, &mut self.outbox);
        sent.map(|sent| sent.expect("the remote is there"))
    }

    /// Whole messages that were received.
    fn messages(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        while let Some(event) = self.inbox.next_event() {
            found.push(match event {
                Event::Frame(text) => text.as_str().to_owned(),
                Event::Fault(fault) => fault.to_string(),
            });
        }
        found
    }

    /// The messages that the remote has received since the last call.
    fn heard(&mut self) -> Vec<String> {
        let mut bytes = vec![0; 1 << 20];
        let count = match self.remote.read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            count => count.expect("it can be read"),
        };
        let (mut found, mut rest) = (Vec::new(), &bytes[..count]);
        let message = &mut self.unfinished;
        while !rest.is_empty() {
            let (count, event) = self.decoder.decode(rest, message);
            rest = &rest[count..];
            found.extend(event.map(|event| match event {
                ws::WsEvent::Message => {
                    String::from_utf8(std::mem::take(message)).expect("it is text")
                }
                ws::WsEvent::Ping => {
                    format!("ping {}", self.decoder.ping().as_bytes().escape_ascii())
                }
                // The decoder keeps the payload of any control frame.
                ws::WsEvent::Pong => {
                    format!("pong {}", self.decoder.ping().as_bytes().escape_ascii())
                }
                event => format!("{event:?}"),
            }));
        }
        found
    }

    /// Closes it; returns the last messages for the remote, and the time that it took.
    async fn close(&mut self) -> (Vec<String>, Duration) {
        let begun = tokio::time::Instant::now();
        let mut heard = Vec::new();
        loop {
            let mut cx = Context::from_waker(Waker::noop());
            let is_closed = self.transport.poll_close(&mut cx).is_ready();
            heard.extend(self.heard());
            if is_closed {
                return (heard, begun.elapsed());
            }
            advance(Duration::from_millis(5)).await;
        }
    }
}

/// A pong that the remote has received.
fn pong(payload: &str) -> String {
    format!("pong {payload}")
}

/// Runs a test on a clock that stands still.
fn run(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(tokio::task::coop::unconstrained(pin!(test)));
}

#[test]
fn p8_an_idle_connection_is_small() {
    assert!(size_of::<WebSocket>() <= 520, "{} bytes", size_of::<WebSocket>());
}

#[test]
fn f6_read_timeout_runs_from_the_first_byte_of_a_message_to_its_last() {
    run(async {
        for role in [Role::Client, Role::Server] {
            let mut hand = Hand::new(role);
            // Silence is never late, however long.
            for _ in 0..5 {
                assert_eq!(hand.poll().await, Poll::Pending);
                advance(29 * SECOND).await;
                let pong = hand.control(ControlKind::Pong, b"");
                assert_eq!(hand.receive(&pong).await, Received::Data);
            }
            let message = hand.message(r#"{"some":"message"}"#);
            for byte in &message[..message.len() - 2] {
                assert_eq!(hand.receive(&[*byte]).await, Received::Data);
                assert_eq!(hand.poll().await, Poll::Pending);
                advance(SECOND).await;
            }
            let last = &message[message.len() - 2..];
            assert_eq!(hand.receive(&[last, &message].concat()).await, Received::Data);
            assert_eq!(hand.messages(), [r#"{"some":"message"}"#; 2]);
            // The next message has the whole time again, and bytes that trickle in do not extend it.
            assert_eq!(hand.receive(&message[..1]).await, Received::Data);
            for byte in &message[1..15] {
                assert_eq!(hand.poll().await, Poll::Pending);
                advance(2 * SECOND).await;
                assert_eq!(hand.receive(&[*byte]).await, Received::Data);
            }
            assert_eq!(hand.poll().await, Poll::Pending);
            advance(2 * SECOND).await;
            // One more look, because the runtime may not have had one.
            assert_eq!(hand.poll().await, Poll::Pending);
            advance(SECOND).await;
            assert_eq!(hand.poll().await, Poll::Ready(Received::Eof));
            assert_eq!(hand.poll().await, Poll::Ready(Received::Eof));
            assert_eq!(hand.messages().len(), 0);
            assert_eq!(hand.close().await.0, ["Close(Some(1008))"]);
        }
    });
}

#[test]
fn f6_read_timeout_stops_while_reading_is_paused() {
    run(async {
        let mut hand = Hand::new(Role::Server);
        let message = hand.message("[1]");
        assert_eq!(hand.receive(&message[..3]).await, Received::Data);
        assert_eq!(hand.poll().await, Poll::Pending);
        advance(20 * SECOND).await;
        for _ in 0..10 {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(hand.transport.poll_remote_closed(&mut cx).is_pending());
            advance(20 * SECOND).await;
        }
        assert_eq!(hand.poll().await, Poll::Pending);
        advance(9 * SECOND).await;
        assert_eq!(hand.poll().await, Poll::Pending);
        assert_eq!(hand.receive(&message[3..]).await, Received::Data);
        assert_eq!(hand.messages(), ["[1]"]);
    });
}

#[test]
fn f6_bytes_that_have_arrived_are_read_before_the_read_timeout_fires() {
    run(async {
        let mut hand = Hand::new(Role::Server);
        let message = hand.message("[1]");
        assert_eq!(hand.receive(&message[..3]).await, Received::Data);
        assert_eq!(hand.poll().await, Poll::Pending);
        // As if a handler had blocked the thread: the rest has arrived, and the runtime has not checked.
        hand.remote.write_all(&message[3..]).expect("there is room");
        advance(100 * SECOND).await;
        assert_eq!(hand.poll().await, Poll::Ready(Received::Data));
        assert_eq!(hand.messages(), ["[1]"]);
    });
}

#[test]
fn t2_silent_remote_is_pinged_and_then_disconnected() {
    run(async {
        for role in [Role::Client, Role::Server] {
            let mut hand = Hand::new(role);
            for sign in [ControlKind::Pong, ControlKind::Ping, ControlKind::Pong] {
                assert_eq!(hand.poll().await, Poll::Pending);
                advance(29 * SECOND).await;
                assert_eq!(hand.poll().await, Poll::Pending);
                advance(SECOND).await;
                assert_eq!(hand.poll().await, Poll::Ready(Received::Drained));
                assert_eq!(hand.send(), Poll::Ready(()));
                assert_eq!(hand.heard(), ["ping "]);
                assert_eq!(hand.poll().await, Poll::Pending);
                advance(29 * SECOND).await;
                let sign = hand.control(sign, b"");
                assert_eq!(hand.receive(&sign).await, Received::Data);
                assert_eq!(hand.send(), Poll::Ready(()));
                hand.heard();
            }
            assert_eq!(hand.poll().await, Poll::Pending);
            advance(30 * SECOND).await;
            assert_eq!(hand.poll().await, Poll::Ready(Received::Drained));
            assert_eq!(hand.send(), Poll::Ready(()));
            assert_eq!(hand.heard(), ["ping "]);
            advance(29 * SECOND).await;
            assert_eq!(hand.poll().await, Poll::Pending);
            advance(SECOND).await;
            assert_eq!(hand.poll().await, Poll::Pending);
            advance(SECOND).await;
            assert_eq!(hand.poll().await, Poll::Ready(Received::Eof));
        }
    });
}

#[test]
fn t2_no_pings_while_reading_is_paused_or_keep_alive_is_off() {
    run(async {
        let mut hand = Hand::new(Role::Server);
        assert_eq!(hand.poll().await, Poll::Pending);
        for _ in 0..5 {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(hand.transport.poll_remote_closed(&mut cx).is_pending());
            advance(100 * SECOND).await;
        }
        assert_eq!(hand.poll().await, Poll::Pending);
        hand.transport = hand.transport.keep_alive(None);
        advance(1000 * SECOND).await;
        assert_eq!(hand.poll().await, Poll::Pending);
    });
}

#[test]
fn t2_every_ping_gets_its_pong_with_its_payload_and_in_order() {
    run(async {
        for role in [Role::Client, Role::Server] {
            let mut hand = Hand::new(role);
            let payloads = ["one".to_owned(), String::new(), "x".repeat(125), "four".to_owned()];
            let pings: Vec<_> = payloads
                .iter()
                .flat_map(|payload| hand.control(ControlKind::Ping, payload.as_bytes()))
                .collect();
            let pongs = payloads.each_ref().map(|payload| pong(payload));
            // All together with a message between them, and then one by one.
            let stream = [&pings[..], &hand.message("[1]"), &pings].concat();
            assert_eq!(hand.receive(&stream).await, Received::Data);
            assert_eq!(hand.send(), Poll::Ready(()));
            assert_eq!(hand.heard(), [&pongs[..], &pongs].concat());
            for payload in &payloads {
                let ping = hand.control(ControlKind::Ping, payload.as_bytes());
                assert_eq!(hand.receive(&ping).await, Received::Data);
                assert_eq!(hand.send(), Poll::Ready(()));
                assert_eq!(hand.heard(), [pong(payload)]);
            }
        }
    });
}

#[test]
fn t2_p9_pings_of_a_remote_that_does_not_read_cost_bounded_memory() {
    run(async {
        for (count, answered) in [(1_000, 1_000..=1_000), (20_000, 2..=6_000)] {
            let mut hand = Hand::new(Role::Server);
            // Bytes wait, and the remote takes a part of them.
            let large = "x".repeat(2_000_000);
            let sent = hand.outbox.send(|out| {
                out.extend_from_slice(large.as_bytes());
                Ok::<_, ()>(())
            });
            sent.expect("it cannot fail");
            assert_eq!(hand.send(), Poll::Pending);
            for number in 0..count {
                let ping = hand.control(ControlKind::Ping, format!("number {number}").as_bytes());
                assert_eq!(hand.receive(&ping).await, Received::Data);
                assert_eq!(hand.send(), Poll::Pending);
            }
            assert!(hand.outbox.len() < large.len());
            let mut heard = Vec::new();
            while hand.send().is_pending() {
                heard.extend(hand.heard());
                tokio::task::yield_now().await;
            }
            heard.extend(hand.heard());
            let pongs: Vec<_> = heard.iter().filter(|it| it.starts_with("pong")).collect();
            assert_eq!(heard.len(), pongs.len() + 1, "and the message");
            // All of them, or else the first, which was written after the message, and the last of the others.
            assert!(answered.contains(&pongs.len()), "{} of {count}", pongs.len());
            assert_eq!(pongs.first(), Some(&&pong("number 0")));
            assert_eq!(pongs.last(), Some(&&pong(&format!("number {}", count - 1))));
        }
    });
}

#[test]
fn t2_bytes_read_with_the_handshake_are_decoded_first() {
    run(async {
        let mut hand = Hand::new(Role::Server);
        let stream = [hand.message("[1]"), hand.message("[2]")].concat();
        let mut hand = Hand::with(Role::Server, &stream[..stream.len() - 1]);
        assert_eq!(hand.receive(&stream[stream.len() - 1..]).await, Received::Data);
        assert_eq!(hand.messages(), ["[1]"]);
        assert_eq!(hand.poll().await, Poll::Ready(Received::Data));
        assert_eq!(hand.messages(), ["[2]"]);
    });
}

#[test]
fn t2_each_kind_of_end_has_its_close_code() {
    run(async {
        for role in [Role::Client, Role::Server] {
            let mut hand = Hand::new(role);
            assert_eq!(hand.close().await.0, ["Close(Some(1000))"]);

            let mut hand = Hand::new(role);
            let flag = Arc::new(AtomicBool::new(false));
            hand.transport = hand.transport.going_away(Arc::clone(&flag));
            flag.store(true, Ordering::Relaxed);
            assert_eq!(hand.close().await.0, ["Close(Some(1001))"]);

            for (payload, answer) in [
                (&b""[..], "Close(None)"),
                (b"\x03\xe8", "Close(Some(1000))"),
                (b"\x0b\xb8bye", "Close(Some(3000))"),
                (b"\x03", "Close(Some(1002))"),
                (b"\x03\xe8\xff", "Close(Some(1007))"),
            ] {
                let mut hand = Hand::new(role);
                let close = hand.control(ControlKind::Close, payload);
                let message = hand.message("[1]");
                let stream = [&message[..], &close, &message].concat();
                assert_eq!(hand.receive(&stream).await, Received::Eof);
                assert_eq!(hand.messages(), ["[1]"]);
                assert_eq!(hand.close().await.0, [answer]);
            }

            let mut hand = Hand::new(role);
            let stream = [hand.message("[1]"), hand.message(&"x".repeat(1001))].concat();
            assert_eq!(hand.receive(&stream).await, Received::Eof);
            assert_eq!(hand.messages(), ["[1]"]);
            assert_eq!(hand.close().await.0, ["Close(Some(1009))"]);
        }
    });
}

#[test]
fn t2_l5_a_remote_that_takes_nothing_does_not_hold_up_the_end() {
    run(async {
        for is_midway in [false, true] {
            let mut hand = Hand::new(Role::Server);
            // The socket is full: with whole frames, or with a part of one.
            let mut count = 0;
            loop {
                let sent = hand.outbox.send(|out| {
                    out.extend_from_slice(&vec![b'x'; if is_midway { 2_000_000 } else { 0 }]);
                    Ok::<_, ()>(())
                });
                sent.expect("it cannot fail");
                count += 1;
                // The runtime has looked for room.
                let _ = hand.poll().await;
                if hand.send().is_pending() {
                    break;
                }
            }
            assert_eq!(hand.transport.is_midway, is_midway);
            let begun = tokio::time::Instant::now();
            loop {
                let mut cx = Context::from_waker(Waker::noop());
                if hand.transport.poll_close(&mut cx).is_ready() {
                    break;
                }
                advance(Duration::from_millis(5)).await;
            }
            assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
            // In the end the remote reads frames, up to the cut.
            drop(hand.transport);
            hand.remote.set_nonblocking(false).expect("a flag");
            let mut bytes = Vec::new();
            hand.remote.read_to_end(&mut bytes).expect("it can be read");
            let mut message = Vec::new();
            let (mut rest, mut messages) = (&bytes[..], 0);
            while !rest.is_empty() {
                let (taken, event) = hand.decoder.decode(rest, &mut message);
                rest = &rest[taken..];
                assert!(matches!(event, None | Some(ws::WsEvent::Message)), "{event:?}");
                messages += usize::from(event.is_some());
            }
            assert!(messages < count);
        }
    });
}

#[test]
fn debug_output_shows_no_received_bytes() {
    run(async {
        let mut hand = Hand::new(Role::Server);
        let message = hand.message("\"secret\"");
        assert_eq!(hand.receive(&message[..12]).await, Received::Data);
        let shown = format!("{:?}", hand.transport);
        assert!(shown.starts_with("WebSocket { role: Server"), "{shown}");
        assert!(!shown.contains("115"), "{shown}");
    });
}
