//! The reader and the writer of one side of the link.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::Link;
use super::way::WayEnd;
use crate::journal::Event;

/// The reading end of a side.
pub(crate) struct Reader {
    pub(super) link: Link,
    pub(super) side: usize,
    pub(super) sleep: Option<Pin<Box<Sleep>>>,
}

/// The writing end of a side.
pub(crate) struct Writer {
    pub(super) link: Link,
    pub(super) side: usize,
    pub(super) is_shut: bool,
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let mut inner = this.link.inner();
        inner.ask();
        let way = &mut inner.ways[1 - this.side];
        if let Some(hesitates) = way.hesitates(cx) {
            return hesitates.map(Err);
        }
        loop {
            let later = match inner.give(this.side, buf) {
                Ok(read) => return Poll::Ready(read),
                Err(later) => later,
            };
            inner.ways[1 - this.side].reader = Some(cx.waker().clone());
            let Some(later) = later else { return Poll::Pending };
            let sleep = this.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(later)));
            if sleep.deadline() != later {
                sleep.as_mut().reset(later);
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl AsyncWrite for Writer {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut inner = self.link.inner();
        let side = self.side;
        inner.ask();
        if bytes.len() > inner.most_waiting[side] {
            let (waiting, most) = (bytes.len(), inner.most_waiting[side]);
            inner.journal.object(format!("side {side} has {waiting} bytes waiting, over {most}"));
        }
        if let Some(hesitates) = inner.ways[side].hesitates(cx) {
            return hesitates.map(Err);
        }
        loop {
            if let Some(kind) = inner.ways[side].cannot_write {
                inner.journal.note(Event::WriteFailed(side));
                return Poll::Ready(Err(kind.into()));
            }
            let count = inner.take(side, bytes);
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
            match inner.mishap {
                Some((by, byte, mishap)) if by == side && byte == inner.ways[side].written => {
                    inner.break_down(mishap);
                }
                _ => {
                    inner.ways[side].flush();
                    inner.ways[side].writer = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.link.inner();
        if let Some(Poll::Pending) = inner.ways[self.side].hesitates(cx) {
            return Poll::Pending;
        }
        inner.ways[self.side].flush();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.link.inner();
        let way = &mut inner.ways[self.side];
        way.flush();
        if way.terms.lingers && way.load > 0 && way.cannot_write.is_none() {
            way.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        drop(inner);
        self.shut();
        Poll::Ready(Ok(()))
    }
}

impl Writer {
    fn shut(&mut self) {
        if std::mem::replace(&mut self.is_shut, true) {
            return;
        }
        let mut inner = self.link.inner();
        inner.journal.note(Event::Shut(self.side));
        let way = &mut inner.ways[self.side];
        way.flush();
        way.end.get_or_insert(WayEnd::Eof);
        way.wake();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shut();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut inner = self.link.inner();
        inner.journal.note(Event::StoppedReading(self.side));
        let way = &mut inner.ways[1 - self.side];
        way.cannot_write.get_or_insert(io::ErrorKind::BrokenPipe);
        way.wake();
    }
}
