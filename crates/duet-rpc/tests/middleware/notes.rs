//! Notes: an observer that records messages, and an observer that panics.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use duet_rpc::{Arrival, End, Ended, Observer, SentMessage};

/// A method and its end; `None` for its beginning.
pub(crate) type Note = (String, Option<End>);

/// Records received messages, or sent messages.
#[derive(Clone)]
pub(crate) struct Notes {
    sees: Sees,
    notes: Arc<Mutex<Vec<Note>>>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Sees {
    Incoming,
    Outgoing,
}

impl Notes {
    pub(crate) fn new(sees: Sees) -> Self {
        Notes { sees, notes: Arc::default() }
    }

    pub(crate) fn all(&self) -> Vec<Note> {
        self.notes.lock().expect("no panic").clone()
    }

    /// Waits until there are `count` notes, and returns all of them.
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<Note> {
        for _ in 0..1000 {
            if self.all().len() >= count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.all()
    }

    fn note(&self, sees: Sees, method: &str, end: Option<End>) {
        if self.sees == sees {
            self.notes.lock().expect("no panic").push((method.to_owned(), end));
        }
    }
}

impl Observer for Notes {
    fn arrived(&self, message: &Arrival<'_>) {
        self.note(Sees::Incoming, message.method(), None);
    }

    fn ended(&self, message: &Ended<'_>) {
        assert!(message.took() < Duration::from_secs(20) && message.id().is_some());
        self.note(Sees::Incoming, message.method(), Some(message.end()));
    }

    fn sent(&self, message: &SentMessage<'_>) {
        assert_eq!(message.id().is_some(), !message.method().starts_with("note"));
        self.note(Sees::Outgoing, message.method(), None);
    }

    fn answered(&self, call: &Ended<'_>) {
        let is_number = call.id().is_some_and(|id| id.as_u64().is_some());
        assert!(call.took() < Duration::from_secs(20) && is_number);
        self.note(Sees::Outgoing, call.method(), Some(call.end()));
    }
}

/// An observer that panics in every method.
pub(crate) struct Panicking;

impl Observer for Panicking {
    fn arrived(&self, _: &Arrival<'_>) {
        panic!("in arrived");
    }

    fn ended(&self, _: &Ended<'_>) {
        panic!("in ended");
    }

    fn sent(&self, _: &SentMessage<'_>) {
        panic!("in sent");
    }

    fn answered(&self, _: &Ended<'_>) {
        panic!("in answered");
    }
}
