//! A call, written down from its beginning to its end.

use std::time::Duration;

use duet_rpc::{Error, ErrorKind, Failure, Peer};

use crate::journal::{Call, Journal};
use crate::plan::{End, Plan};

/// The number of what was asked, and what makes the answer large.
pub(crate) type Answer = (u64, String);

pub(crate) struct Called<'a> {
    pub(crate) peer: &'a Peer,
    pub(crate) journal: &'a Journal,
    pub(crate) side: usize,
    pub(crate) number: u64,
}

pub(crate) struct Terms {
    pub(crate) timeout: u64,
    pub(crate) total: Option<u64>,
    pub(crate) dropped: Option<u64>,
}

/// Ends a call in the journal also if the handler that makes it is dropped.
struct Entry<'a> {
    journal: &'a Journal,
    place: usize,
    end: Option<End>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.journal.end(self.place, self.end.take());
    }
}

/// That a call was dropped.
#[derive(Debug)]
pub(crate) struct Dropped;

impl From<Dropped> for Failure {
    fn from(_: Dropped) -> Self {
        Failure::new(-1, "dropped")
    }
}

impl Called<'_> {
    pub(crate) async fn make(
        self,
        plan: Plan,
        pad: usize,
        terms: Terms,
    ) -> Result<Result<Answer, Error>, Dropped> {
        let params = (self.number, plan, "p".repeat(pad));
        self.ask("do", params, terms).await
    }

    pub(crate) async fn ask(
        self,
        method: &str,
        params: impl serde::Serialize,
        terms: Terms,
    ) -> Result<Result<Answer, Error>, Dropped> {
        let Terms { timeout, total, dropped } = terms;
        let mut call = self.peer.call::<Answer>(method, params).timeout(millis(timeout));
        if let Some(total) = total {
            call = call.restart_on_progress(self.number, millis(total));
        }
        let (side, number, begun, ended) = (self.side, self.number, 0, None);
        let id = call.id().as_raw().to_owned();
        let place = self.journal.begin(Call { side, id, number, begun, timeout, total, ended });
        let mut entry = Entry { journal: self.journal, place, end: None };
        let answer = match dropped {
            None => call.await,
            Some(time) => match tokio::time::timeout(millis(time), call).await {
                Ok(answer) => answer,
                Err(_) => return Err(Dropped),
            },
        };
        entry.end = Some(end_of(&answer));
        Ok(answer)
    }
}

fn end_of(answer: &Result<Answer, Error>) -> End {
    match answer {
        Ok((number, _)) => End::Value(*number),
        Err(error) => match (error.kind(), error.remote()) {
            (ErrorKind::Timeout, _) => End::Timeout,
            (ErrorKind::Remote, Some(remote)) => End::Code(remote.code),
            (ErrorKind::Capacity, _) => End::Capacity,
            (ErrorKind::Disconnected, _) => End::Disconnected,
            (kind, _) => End::Other(format!("{kind:?}")),
        },
    }
}

pub(crate) async fn sleep(ms: u64) {
    tokio::time::sleep(millis(ms)).await;
}

pub(crate) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
