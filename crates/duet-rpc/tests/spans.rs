//! Spans: the records of a connection and of its handlers are inside its span (G3, G6).

mod links;

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};

use duet_rpc::{Failure, Router};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Notes each event with the spans around it, outermost first. It is used on one thread.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The fields of each span, and its parent.
    spans: Vec<(String, Option<u64>)>,
    entered: Vec<u64>,
    events: Vec<String>,
}

impl State {
    fn around(&self, span: Option<u64>) -> String {
        let Some(span) = span else { return String::new() };
        let (fields, parent) = &self.spans[span as usize - 1];
        format!("{}{fields} > ", self.around(*parent))
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "[{field}={value:?}]");
    }
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        let mut state = self.0.lock().expect("no panic");
        let current = state.entered.last().copied().filter(|_| span.is_contextual());
        state.spans.push((fields.0, span.parent().map(Id::into_u64).or(current)));
        Id::from_u64(state.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        let mut state = self.0.lock().expect("no panic");
        let around = state.around(state.entered.last().copied());
        state.events.push(around + &fields.0);
    }

    fn enter(&self, span: &Id) {
        self.0.lock().expect("no panic").entered.push(span.into_u64());
    }

    fn exit(&self, _: &Id) {
        self.0.lock().expect("no panic").entered.pop();
    }
}

impl Notes {
    /// The events that contain this text.
    fn containing(&self, part: &str) -> Vec<String> {
        let state = self.0.lock().expect("no panic");
        state.events.iter().filter(|event| event.contains(part)).cloned().collect()
    }
}

fn router() -> Router {
    Router::new()
        .method("work", async || {
            tracing::info!("before");
            tokio::task::yield_now().await;
            tracing::info!("after");
            Ok::<_, Failure>(())
        })
        .method("refuse", async |(name,): (String,)| match name.as_str() {
            "plain" => Err::<(), _>(Failure::new(-32001, "Overdrawn")),
            "data" => Err(Failure::new(-32001, "Overdrawn").with_data([1])),
            "cause" => Err(Failure::new(-32001, "Overdrawn").caused_by("no money")),
            name => Err(Failure::new(-32001, format!("no {name}"))),
        })
}

/// The number after this prefix in a text.
fn number(text: &str, before: &str) -> u64 {
    let (_, behind) = text.split_once(before).expect("the prefix is there");
    behind
        .chars()
        .map_while(|digit| digit.to_digit(10))
        .fold(0, |sum, digit| sum * 10 + u64::from(digit))
}

#[tokio::test]
async fn g3_records_of_a_handler_are_inside_a_span_with_connection_method_and_id() {
    let notes = Notes::default();
    let _guard = tracing::subscriber::set_default(notes.clone());
    let mut connections = Vec::new();
    for _ in 0..2 {
        let (client, server) = links::client_of(router());
        client.call::<()>("work", ()).await.expect("it works");
        client.call::<()>("nothing", ()).await.expect_err("there is no such method");
        connections.push((server, client));
    }
    for part in ["message=before", "message=after"] {
        let events = notes.containing(part);
        assert_eq!(events.len(), 2, "{events:?}");
        for event in &events {
            assert!(event.starts_with("connection[connection="), "{event}");
            assert!(event.contains(r#"] > request[method="work"][id=1] > ["#), "{event}");
        }
        assert_ne!(number(&events[0], "connection="), number(&events[1], "connection="));
    }
    let unknown = notes.containing("unknown method");
    assert_eq!(unknown.len(), 2, "{unknown:?}");
    assert!(unknown.iter().all(|event| event.starts_with("connection[connection=")), "{unknown:?}");
}

#[tokio::test]
async fn g6_message_of_a_failure_is_logged_if_it_is_static() {
    let notes = Notes::default();
    let _guard = tracing::subscriber::set_default(notes.clone());
    let (client, _server) = links::client_of(router());
    for name in ["plain", "data", "cause", "secret"] {
        client.call::<()>("refuse", [name]).await.expect_err("the call fails");
    }
    assert_eq!(notes.containing("handler failed").len(), 4);
    assert_eq!(notes.containing(r#"[answer="Overdrawn"]"#).len(), 3);
    assert_eq!(notes.containing("no money").len(), 1);
    assert_eq!(notes.containing("secret"), [""; 0], "the text may come from the remote");
}

#[tokio::test]
async fn m10_notification_whose_handler_waits_and_fails_is_logged_as_a_failed_handler() {
    let notes = Notes::default();
    let _guard = tracing::subscriber::set_default(notes.clone());
    let router = Router::new().method("later", async || {
        tokio::task::yield_now().await;
        Err::<(), _>(Failure::new(7, "Overdrawn"))
    });
    let (client, _server) = links::client_of(router);
    client.notify("later", ()).await.expect("the notification is sent");
    client.call::<()>("later", ()).await.expect_err("the call fails");
    let failed = notes.containing("handler failed");
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert_eq!(notes.containing("cancelled"), [""; 0]);
}
