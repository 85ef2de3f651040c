//! A subscriber that keeps log records, as text.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// Keeps the records up to a level: one line for each event, as `LEVEL;name=value;name=value;`.
#[derive(Clone)]
pub(crate) struct Log(Arc<Mutex<String>>, Level);

impl Log {
    pub(crate) fn up_to(level: Level) -> Self {
        // While there is one subscriber, tracing asks that of the first thread that logs a record, which may have
        // none, and remembers the answer for all threads.
        static SECOND: OnceLock<Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| Dispatch::new(Log(Arc::default(), Level::ERROR)));
        Log(Arc::default(), level)
    }

    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.1
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = format!("{};", event.metadata().level());
        event.record(&mut |field: &tracing::field::Field, value: &dyn fmt::Debug| {
            let _ = write!(line, "{field}={value:?};");
        });
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.push_str(&line);
        log.push('\n');
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
