//! Polled stdio does not exist here: the runtime cannot wait for a synchronous handle. These types have no values, so
//! that `stdio` is the same on every system.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{Descriptor, Owned};
use crate::stdio::handoff::Handoff;
use crate::transport::{Inbox, Outbox, Received};

// Same name: the interface of `unix/polled.rs`.
pub(crate) enum StdinReader {}

impl StdinReader {
    pub(crate) fn new(_: Arc<Descriptor>) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn duplicate(&self) -> io::Result<Owned> {
        match *self {}
    }

    pub(crate) fn handoff(&self) -> Option<(Arc<Handoff>, Owned)> {
        match *self {}
    }

    pub(crate) fn poll_receive(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        match *self {}
    }

    pub(crate) fn poll_remote_closed(&mut self, _: &mut Context<'_>) -> Poll<()> {
        match *self {}
    }
}

// Same name: the interface of `unix/polled.rs`.
pub(crate) enum StdoutWriter {}

impl StdoutWriter {
    pub(crate) fn new(_: Arc<Descriptor>) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn poll_send(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Outbox,
    ) -> Poll<io::Result<()>> {
        match *self {}
    }

    pub(crate) fn poll_reader_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        match *self {}
    }
}
