//! Requests and notifications to a server, one at a time, with the reasons for a missing answer.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use duet_rpc::{Error, ErrorKind, Peer, RemoteError, UnusableAnswer};
use serde_json::value::RawValue;

use super::address::ServerAddress;
use super::first_bytes::FirstSign;
use super::report::{self, Clue, Via};
use super::tracked::TransportProgress;
use crate::exit::{Exit, Problem};
use crate::settings;

/// One conversation with a server.
pub(super) struct Conversation<'a> {
    pub(super) peer: &'a Peer,
    pub(super) progress: Arc<TransportProgress>,
    pub(super) via: Via,
    /// `None` for a child process.
    pub(super) address: Option<&'a ServerAddress>,
    pub(super) timeout: Duration,
    /// Start of the current wait: that of the server, or the last answer.
    pub(super) waits_since: Cell<Instant>,
}

/// The outcome of a request.
enum Answer {
    Result(Box<RawValue>),
    Error(Error),
    /// An error response with `id: null`.
    Uncorrelated(RemoteError),
    Unusable(UnusableAnswer),
    /// First bytes that are no answer, and announce none.
    None(FirstSign),
}

impl Conversation<'_> {
    fn time_left(&self) -> Option<Duration> {
        let timeout = settings::limited(self.timeout)?;
        Some(timeout.saturating_sub(self.waits_since.get().elapsed()))
    }

    /// Sends a request and waits for its result.
    pub(super) async fn call(
        &self,
        method: &str,
        params: Option<Box<RawValue>>,
    ) -> Result<Box<RawValue>, Problem> {
        let messages_before = self.peer.stats().messages;
        let call = self.peer.call::<Box<RawValue>>(method, params);
        let call = match self.time_left() {
            Some(time) => call.timeout(time),
            None => call.no_timeout(),
        };
        // A server that cannot read the request answers with `id: null`.
        let mut call = pin!(call);
        let mut uncorrelated = pin!(self.next_uncorrelated_error(messages_before));
        let mut unusable = pin!(self.peer.unusable_answer());
        let mut sign = pin!(self.progress.sign());
        let answer = poll_fn(|cx| {
            if let Poll::Ready(uncorrelated) = uncorrelated.as_mut().poll(cx) {
                return Poll::Ready(Answer::Uncorrelated(uncorrelated));
            }
            // A usable answer may follow an unusable one.
            let called = call.as_mut().poll(cx);
            let is_answered = match &called {
                Poll::Ready(Ok(_)) => true,
                Poll::Ready(Err(error)) => error.remote().is_some(),
                Poll::Pending => false,
            };
            if !is_answered && let Poll::Ready(sign) = sign.as_mut().poll(cx) {
                return Poll::Ready(Answer::None(sign));
            }
            match (called, unusable.as_mut().poll(cx)) {
                (Poll::Ready(Ok(result)), _) => Poll::Ready(Answer::Result(result)),
                (Poll::Ready(Err(error)), _) if is_answered => Poll::Ready(Answer::Error(error)),
                (_, Poll::Ready(why)) => Poll::Ready(Answer::Unusable(why)),
                (Poll::Ready(Err(error)), Poll::Pending) => Poll::Ready(Answer::Error(error)),
                (Poll::Pending, Poll::Pending) => Poll::Pending,
            }
        });
        let answer = answer.await;
        self.waits_since.set(Instant::now());
        let (exit, message) = match answer {
            Answer::Result(result) => return Ok(result),
            Answer::Error(error) => self.explain(&error).await,
            Answer::Uncorrelated(error) if report::is_refusal(&error) => {
                (Exit::NotStarted, report::error_answer(&error))
            }
            Answer::Uncorrelated(error) => (Exit::ErrorAnswer, report::error_answer(&error)),
            Answer::Unusable(why) => (Exit::BrokenProtocol, report::unusable(why, self.via)),
            Answer::None(sign) => (Exit::BrokenProtocol, report::hopeless(sign)),
        };
        Err(Problem { exit, message })
    }

    /// Waits for an error response with `id: null` that can only refer to the current request, because nothing else
    /// arrived since.
    async fn next_uncorrelated_error(&self, messages_before: u64) -> RemoteError {
        let uncorrelated = self.peer.next_uncorrelated_error().await;
        let stats = self.peer.stats();
        match stats.messages > messages_before + 1 || stats.faults > 0 {
            true => std::future::pending().await,
            false => uncorrelated,
        }
    }

    async fn explain(&self, error: &Error) -> (Exit, String) {
        match (error.kind(), error.remote()) {
            (_, Some(answer)) => (Exit::ErrorAnswer, report::error_answer(answer)),
            (ErrorKind::Timeout, _) => {
                (Exit::Timeout, report::no_answer_within(self.timeout, &self.clue()))
            }
            (ErrorKind::Disconnected | ErrorKind::Transport, _) => {
                // Wait for the end, so that the server's stderr is printed first.
                let end = self.peer.closed().await;
                match self.address.and_then(|it| it.refused(&end, self.is_new())) {
                    Some(refused) => (Exit::NotStarted, refused),
                    None => (Exit::BrokenProtocol, report::gone(&end, &self.clue())),
                }
            }
            (ErrorKind::Exchange | ErrorKind::Interrupted, _) => {
                match self.address.and_then(|it| it.refused_exchange(error, self.is_new())) {
                    Some(refused) => (Exit::NotStarted, refused),
                    None => (Exit::BrokenProtocol, report::failed_exchange(error)),
                }
            }
            _ => (Exit::BrokenProtocol, report::broken_answer(error)),
        }
    }

    /// Returns `true` if no message has come from the server.
    fn is_new(&self) -> bool {
        self.peer.stats().messages == 0
    }

    /// Sends a notification, and waits until it is on its way.
    pub(super) async fn notify(
        &self,
        method: &str,
        params: Option<Box<RawValue>>,
    ) -> Result<(), Problem> {
        let before = self.progress.flushes();
        let sent = async {
            let notified = self.peer.notify(method, params).await;
            notified.is_ok() && self.progress.sent_after(before).await
        };
        let sent = match self.time_left() {
            Some(time) => tokio::time::timeout(time, sent).await.ok(),
            None => Some(sent.await),
        };
        let (exit, message) = match sent {
            Some(true) => return Ok(()),
            Some(false) => {
                let end = self.peer.closed().await;
                (Exit::BrokenProtocol, report::gone_before_sent(&end))
            }
            None => (Exit::Timeout, report::not_read_within(self.timeout)),
        };
        Err(Problem { exit, message })
    }

    /// Waits until the server has sent nothing for this time, or the time of the next answer is over.
    pub(super) async fn settle(&self, quiet: Duration) {
        loop {
            let before = self.peer.stats().messages;
            let time = self.time_left().unwrap_or(quiet);
            tokio::time::sleep(quiet.min(time)).await;
            if time.is_zero() || self.peer.stats().messages == before {
                return self.waits_since.set(Instant::now());
            }
        }
    }

    fn clue(&self) -> Clue {
        let stats = self.peer.stats();
        if stats.faults > 0 {
            // Later text may have other reasons.
            let is_first = stats.messages == 0;
            Clue::Garbage(self.via, is_first.then(|| self.progress.first_line()))
        } else if stats.unmatched_answers > 0 {
            Clue::OtherAnswer
        } else if stats.messages > 0 {
            Clue::OtherMessages
        } else if stats.bytes_received > 0 {
            Clue::Part(self.via)
        } else {
            Clue::Silence(self.via)
        }
    }
}
