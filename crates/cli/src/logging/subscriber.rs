//! `tracing` subscriber: turns events into log records.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use duet_rpc::{CONNECTION, TRAFFIC};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record as SpanRecord};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use super::Level;
use super::record::{LoggedId, Record, push_field};
use duet_rpc_trace::Timestamp;

/// Filter by level, adjustable at any time.
pub(super) struct Filter {
    least: AtomicU8,
    /// Level of requests and responses.
    traffic: Level,
    /// True if records name their connection, because there are several.
    shows_connections: AtomicBool,
}

impl Filter {
    pub(super) fn new(least: Level, traffic: Level) -> Self {
        let least = AtomicU8::new(least as u8);
        Filter { least, traffic, shows_connections: AtomicBool::new(false) }
    }

    /// Takes effect with the next event.
    pub(super) fn set(&self, least: Level) {
        self.least.store(least as u8, Ordering::SeqCst);
        tracing::callsite::rebuild_interest_cache();
    }

    /// Takes effect with the next connection.
    pub(super) fn show_connections(&self) {
        self.shows_connections.store(true, Ordering::SeqCst);
        tracing::callsite::rebuild_interest_cache();
    }

    pub(super) fn least(&self) -> Level {
        let least = self.least.load(Ordering::SeqCst);
        Level::ALL.into_iter().find(|level| *level as u8 == least).unwrap_or(Level::Debug)
    }

    fn severity(&self, metadata: &Metadata<'_>) -> Option<Level> {
        // The client of NATS writes about each message; `duet-rpc-nats` writes what matters.
        if metadata.is_span() || metadata.target().starts_with("async_nats") {
            return None;
        }
        if metadata.target() == TRAFFIC {
            return Some(self.traffic);
        }
        match *metadata.level() {
            tracing::Level::ERROR => Some(Level::Error),
            tracing::Level::WARN => Some(Level::Warn),
            tracing::Level::INFO => Some(Level::Info),
            tracing::Level::DEBUG => Some(Level::Debug),
            tracing::Level::TRACE => None,
        }
    }

    fn passes(&self, metadata: &Metadata<'_>) -> bool {
        if metadata.is_span() {
            return metadata.target() == CONNECTION
                && self.shows_connections.load(Ordering::SeqCst);
        }
        self.severity(metadata).is_some_and(|severity| severity >= self.least())
    }
}

/// Passes records to `take`.
pub(super) struct Recorder<F> {
    pub(super) filter: &'static Filter,
    pub(super) take: F,
}

impl<F: Fn(Record) + Send + Sync + 'static> Subscriber for Recorder<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.filter.passes(metadata)
    }

    /// `tracing` calls this once per call site, and again when the level changes, so a disabled event costs
    /// almost nothing.
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match self.filter.passes(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let least = self.filter.least();
        // For `tracing`, traffic always has the level `debug`.
        let least = if self.filter.traffic >= least { Level::Debug } else { least };
        Some(match least {
            Level::Debug => LevelFilter::DEBUG,
            Level::Info => LevelFilter::INFO,
            Level::Warn => LevelFilter::WARN,
            Level::Error => LevelFilter::ERROR,
        })
    }

    fn event(&self, event: &Event<'_>) {
        let Some(severity) = self.filter.severity(event.metadata()) else { return };
        let mut reader = Reader::default();
        event.record(&mut reader);
        let Reader { mut message, mut fields, method, id, .. } = reader;
        if let Ok(connection @ 1..) = CURRENT.try_with(Cell::get) {
            push_field(&mut fields, "connection", &connection);
        }
        message.push_str(&fields);
        (self.take)(Record { timestamp: Timestamp::now(), severity, message, method, id });
    }

    // Only connection spans pass, and their ids are the connection numbers. A driver is polled on one thread
    // at a time, and never inside another driver.

    fn new_span(&self, span: &Attributes<'_>) -> tracing::span::Id {
        let mut reader = Reader::default();
        span.record(&mut reader);
        Id::from_u64(reader.connection.max(1))
    }

    fn record(&self, _: &Id, _: &SpanRecord<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, connection: &Id) {
        let _ = CURRENT.try_with(|current| current.set(connection.into_u64()));
    }

    fn exit(&self, _: &Id) {
        let _ = CURRENT.try_with(|current| current.set(0));
    }
}

thread_local! {
    /// Connection that this thread works on, or 0.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// Fields of an event. A record has a message, a method and an id; all other fields become part of the
/// message.
#[derive(Default)]
struct Reader {
    message: String,
    fields: String,
    method: Option<String>,
    id: Option<LoggedId>,
    connection: u64,
}

impl Visit for Reader {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            "method" => self.method = Some(text),
            "id" => self.id = Some(LoggedId::from_display(&text)),
            name => push_field(&mut self.fields, name, &text),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "connection" => self.connection = value,
            _ => self.record_debug(field, &value),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            "method" => self.method = Some(value.to_owned()),
            "id" => self.id = Some(LoggedId::from_text(value)),
            name => push_field(&mut self.fields, name, &value),
        }
    }
}
