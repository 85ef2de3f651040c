//! Events for clients that want to see what goes on: log records, and figures once a second.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duet_rpc::{Context, EventStream, Failure, Peer, Priority, quick};
use serde::{Deserialize, Deserializer, Serialize};
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::LogAccess;
use super::catalog::{About, Catalog, Param, Params};
use super::shape::Shape;
use crate::choice;
use crate::logging::Log;

/// The notification that an event comes in.
const METHOD: &str = "event";
/// How often there are figures.
const PERIOD: Duration = Duration::from_secs(1);

const TOPICS: Shape = Shape::Array(&Shape::OneOf(&Topic::NAMES));

pub(super) fn add(catalog: &mut Catalog, log: LogAccess) {
    const PARAMS: &[Param] = &[Param {
        name: "topics",
        description: "Log records, if the log is shared, and figures of the connection once a second.",
        shape: TOPICS,
        is_required: true,
    }];
    const RESULT: Shape = Shape::Object(&[("topics", TOPICS)]);
    catalog.add(
        About {
            name: "events.subscribe",
            description: "Sends events of these topics from here on, as notifications.",
            params: Params::Named(PARAMS),
            result: RESULT,
        },
        |router, name| {
            let subscribe = move |wanted: Topics, cx: Context| -> Result<Topics, Failure> {
                let subscriptions = cx.peer().extension::<Subscriptions>();
                // A client that may not have one of them gets none.
                let log = match wanted.topics.contains(&Topic::Log) {
                    true => Some(log.log()?),
                    false => None,
                };
                for topic in wanted.topics {
                    subscriptions.begin(topic, cx.peer(), log);
                }
                Ok(subscriptions.topics())
            };
            router.method(name, quick(subscribe))
        },
    );
    catalog.add(
        About {
            name: "events.unsubscribe",
            description: "Sends no more events of these topics.",
            params: Params::Named(PARAMS),
            result: RESULT,
        },
        |router, name| router.method(name, quick(unsubscribe)),
    );
}

fn unsubscribe(unwanted: Topics, cx: Context) -> Topics {
    let subscriptions = cx.peer().extension::<Subscriptions>();
    for topic in unwanted.topics {
        subscriptions.end(topic);
    }
    subscriptions.topics()
}

#[derive(Deserialize, Serialize)]
struct Topics {
    topics: Vec<Topic>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Topic {
    Log,
    Stats,
}

impl<'de> Deserialize<'de> for Topic {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Topic, D::Error> {
        let find = |name: &str| Topic::ALL.into_iter().find(|topic| topic.name() == name);
        choice::deserialize(deserializer, &Topic::NAMES, find)
    }
}

impl Topic {
    const ALL: [Topic; 2] = [Topic::Log, Topic::Stats];
    const NAMES: [&'static str; 2] = [Topic::Log.name(), Topic::Stats.name()];

    const fn name(self) -> &'static str {
        match self {
            Topic::Log => "log",
            Topic::Stats => "stats",
        }
    }
}

/// What the client of a connection has subscribed to.
#[derive(Default)]
struct Subscriptions(Mutex<Vec<Subscription>>);

/// Ends when it is dropped.
struct Subscription {
    topic: Topic,
    stream: Arc<EventStream>,
    ticker: Option<AbortHandle>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // What waits would come after the answer that says that nothing comes any more.
        self.stream.close();
        if let Some(ticker) = &self.ticker {
            ticker.abort();
        }
    }
}

impl Subscriptions {
    fn begin(&self, topic: Topic, peer: &Peer, log: Option<&Log>) {
        let mut all = self.all();
        if all.iter().any(|subscription| subscription.topic == topic) {
            return;
        }
        let stream = Arc::new(peer.events(METHOD, topic.name()));
        let ticker = match topic {
            Topic::Log => {
                log.inspect(|log| log.tell(&stream));
                None
            }
            Topic::Stats => Some(tick(peer.clone(), Arc::clone(&stream))),
        };
        all.push(Subscription { topic, stream, ticker });
    }

    fn end(&self, topic: Topic) {
        self.all().retain(|subscription| subscription.topic != topic);
    }

    fn topics(&self) -> Topics {
        let all = self.all();
        let is_subscribed =
            |topic: &Topic| all.iter().any(|subscription| subscription.topic == *topic);
        Topics { topics: Topic::ALL.into_iter().filter(is_subscribed).collect() }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Subscription>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The figures of a connection.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    messages: u64,
    faults: u64,
    in_flight: usize,
    bytes_received: u64,
    bytes_sent: u64,
}

/// Sends the figures once a second.
fn tick(peer: Peer, stream: Arc<EventStream>) -> AbortHandle {
    let ticker = tokio::spawn(async move {
        let mut ticks = interval_at(Instant::now() + PERIOD, PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            let stats = peer.stats();
            let figures = Figures {
                messages: stats.messages,
                faults: stats.faults,
                in_flight: stats.running + stats.waiting,
                bytes_received: stats.bytes_received,
                bytes_sent: stats.bytes_sent,
            };
            // Figures are JSON.
            let _ = stream.send(Priority::Low, &figures);
        }
    });
    ticker.abort_handle()
}
