//! The methods of the page. The page pulls: each method answers from the index within a slice of time, and `changes`
//! waits until there is something new.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use duet_rpc::Failure;
use serde::Serialize;

use super::entry::{IndexEntry, NONE};
use super::query::{Only, Selection, Sort};
use super::row::{self, RecordDetail, Row};
use super::sessions::{Changes, OpenSession, UNREADABLE, Watch, lock, unreadable};
use super::stats::{self, Bucket, Statistics};

/// Time between two looks at the files while a page waits for changes.
const LOOK: Duration = Duration::from_millis(150);
/// Time after which `changes` answers even if nothing has changed.
const LONGEST_POLL: Duration = Duration::from_secs(20);
/// Maximum number of rows in an answer, of buckets, and of bytes of a body.
const MOST_ROWS: u32 = 500;
const MOST_BUCKETS: u32 = 2000;
const MOST_BYTES: usize = 256 * 1024;

#[derive(Debug, Serialize)]
struct RowsAnswer {
    generation: u32,
    total: u32,
    records: u32,
    scanned: u32,
    rows: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u32>,
}

#[derive(Debug, Serialize)]
struct Overview {
    end: u64,
    buckets: Vec<Bucket>,
}

#[derive(Debug, Serialize)]
struct Piece {
    base64: String,
}

#[derive(Debug, Serialize)]
struct Previous {
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<u32>,
}

/// The methods.
pub(super) struct Page(pub(super) Arc<Watch>);

#[duet_rpc::service]
impl Page {
    /// Waits until the list of sessions or the session has changed since a version.
    #[rpc]
    async fn changes(
        &self,
        since: u64,
        session: Option<String>,
        late: Option<u64>,
    ) -> Result<Changes, Failure> {
        let deadline = Instant::now() + LONGEST_POLL;
        loop {
            let name = session.clone();
            let found = self.run(move |watch| Ok(watch.look(since, name, late))).await?;
            if found.version > since || Instant::now() >= deadline {
                return Ok(found);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// A window of the rows that match.
    #[rpc]
    #[expect(clippy::too_many_arguments, reason = "each is a member of the params")]
    async fn rows(
        &self,
        session: String,
        #[rpc(default)] filter: String,
        #[rpc(default)] only: Only,
        #[rpc(default)] sort: Sort,
        late: Option<u64>,
        from: Option<u64>,
        to: Option<u64>,
        offset: u32,
        count: u32,
        locate: Option<u32>,
    ) -> Result<RowsAnswer, Failure> {
        let selection = Selection { filter, only, sort, late, from, to };
        self.run(move |watch| {
            let session = watch.session(&session)?;
            let mut session = lock(&session);
            session.ask(selection, |index, query, is_running| {
                let total = query.total(index);
                let last = offset.saturating_add(count.min(MOST_ROWS)).min(total);
                let numbers: Vec<_> = (offset..last).filter_map(|place| query.at(place)).collect();
                let row = |number| row::row(index, number, is_running, late);
                let rows: io::Result<_> = numbers.into_iter().map(row).collect();
                Ok(RowsAnswer {
                    generation: index.generation,
                    total,
                    records: index.entries.len(),
                    scanned: query.scanned(),
                    position: locate.and_then(|number| query.position(number)),
                    rows: rows.map_err(|error| unreadable(&error))?,
                })
            })
        })
        .await
    }

    /// One record, without its body.
    #[rpc]
    async fn record(
        &self,
        session: String,
        record: u32,
        late: Option<u64>,
    ) -> Result<RecordDetail, Failure> {
        self.run(move |watch| {
            let session = watch.session(&session)?;
            let OpenSession { index, is_running, .. } = &mut *lock(&session);
            row::detail(index, record, *is_running, late).map_err(|error| unreadable(&error))
        })
        .await
    }

    /// A piece of the body of a record.
    #[rpc]
    async fn bytes(
        &self,
        session: String,
        record: u32,
        offset: usize,
        count: usize,
    ) -> Result<Piece, Failure> {
        self.run(move |watch| {
            let session = watch.session(&session)?;
            let index = &mut lock(&session).index;
            let piece = index.read(record, |record| {
                let body = record.body.as_ref().map(|body| body.as_bytes()).unwrap_or_default();
                let end = offset.saturating_add(count.min(MOST_BYTES)).min(body.len());
                STANDARD.encode(body.get(offset..end).unwrap_or_default())
            });
            index.trim();
            piece.map(|base64| Piece { base64 }).map_err(|error| unreadable(&error))
        })
        .await
    }

    /// The last record before this one with the same method, kind and direction.
    #[rpc]
    async fn previous(&self, session: String, record: u32) -> Result<Previous, Failure> {
        self.run(move |watch| {
            let session = watch.session(&session)?;
            let entries = &lock(&session).index.entries;
            let Some(this) = entries.get(record).filter(|it| it.method != NONE) else {
                return Ok(Previous { record: None });
            };
            let mut before = (0..record).rev();
            let is_like = |number: &u32| {
                let like = |it: &IndexEntry| {
                    (it.method, it.kind, it.dir) == (this.method, this.kind, this.dir)
                };
                entries.get(*number).is_some_and(like)
            };
            Ok(Previous { record: before.find(is_like) })
        })
        .await
    }

    /// Statistics of the records that match.
    #[rpc]
    async fn stats(
        &self,
        session: String,
        #[rpc(default)] filter: String,
        late: Option<u64>,
    ) -> Result<Statistics, Failure> {
        let selection = Selection { filter, late, ..Selection::default() };
        self.run(move |watch| {
            let session = watch.session(&session)?;
            let mut session = lock(&session);
            session.ask(selection, |index, query, _| {
                let (all, scanned) = (index.entries.len(), query.scanned());
                Ok(match scanned < all {
                    true => Statistics::unfinished(all, scanned),
                    false => stats::count(index, query.numbers()),
                })
            })
        })
        .await
    }

    /// The number of records over time.
    #[rpc]
    async fn overview(
        &self,
        session: String,
        buckets: u32,
        late: Option<u64>,
    ) -> Result<Overview, Failure> {
        self.run(move |watch| {
            let session = watch.session(&session)?;
            let index = &lock(&session).index;
            let buckets = stats::overview(index, buckets.clamp(1, MOST_BUCKETS), late);
            Ok(Overview { end: index.end, buckets })
        })
        .await
    }
}

impl Page {
    /// Reads files on a thread of its own: the runtime has one thread, for all connections.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Watch) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let watch = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&watch)).await;
        done.unwrap_or_else(|_| Err(Failure::new(UNREADABLE, "reading the trace failed")))
    }
}
