//! Event subscriptions of clients: log records, and connection statistics once a second.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duet_rpc::proto::message::ErrorObject;
use duet_rpc::{Context, EventStream, Peer, Priority};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::LogAccess;
use crate::choice;
use crate::logging::Log;

/// Notification that carries an event.
const METHOD: &str = "event";
/// Interval between statistics.
const PERIOD: Duration = Duration::from_secs(1);

pub(super) struct Events {
    pub(super) log: LogAccess,
}

/// What a subscriber gets. An [`EventStream`] sends it, so this trait only describes it.
#[duet_rpc::service(openrpc)]
trait Subscriber {
    /// An event of a topic.
    #[rpc(notification)]
    fn event(
        &self,
        topic: Topic,
        /// The number of the event in its topic, from 1.
        sequence: u64,
        /// A log record, or the figures of the connection.
        data: Box<RawValue>,
        /// The number of events before this one that had to be dropped.
        dropped: Option<u64>,
    );
}

#[duet_rpc::service(callbacks = Subscriber, prefix = "events.", openrpc)]
impl Events {
    /// Sends events of these topics from here on, as notifications.
    #[rpc(quick)]
    fn subscribe(
        &self,
        /// Log records, if the log is shared, and figures of the connection once a second.
        topics: Vec<Topic>,
        cx: Context,
    ) -> Result<Topics, ErrorObject> {
        let subscriptions = cx.peer().extension::<Subscriptions>();
        // All topics or none: a forbidden topic fails the whole request.
        let log = match topics.contains(&Topic::Log) {
            true => Some(self.log.log()?),
            false => None,
        };
        for topic in topics {
            subscriptions.begin(topic, cx.peer(), log);
        }
        Ok(subscriptions.topics())
    }

    /// Sends no more events of these topics.
    #[rpc(quick)]
    fn unsubscribe(
        &self,
        /// Log records, if the log is shared, and figures of the connection once a second.
        topics: Vec<Topic>,
        cx: Context,
    ) -> Topics {
        let subscriptions = cx.peer().extension::<Subscriptions>();
        for topic in topics {
            subscriptions.end(topic);
        }
        subscriptions.topics()
    }
}

#[derive(Serialize, JsonSchema)]
struct Topics {
    topics: Vec<Topic>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
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

/// Subscriptions of one connection's client.
#[derive(Default)]
struct Subscriptions(Mutex<Vec<Subscription>>);

/// One subscription. Dropping it ends it.
struct Subscription {
    topic: Topic,
    stream: Arc<EventStream>,
    ticker: Option<AbortHandle>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // Queued events must not follow the response that confirms the end.
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
                log.inspect(|log| log.add_listener(&stream));
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

/// Statistics of a connection.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConnectionStats {
    messages: u64,
    faults: u64,
    in_flight: usize,
    bytes_received: u64,
    bytes_sent: u64,
}

/// Starts a task that sends the statistics once a second.
fn tick(peer: Peer, stream: Arc<EventStream>) -> AbortHandle {
    let ticker = tokio::spawn(async move {
        let mut ticks = interval_at(Instant::now() + PERIOD, PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            let stats = peer.stats();
            let figures = ConnectionStats {
                messages: stats.messages,
                faults: stats.faults,
                in_flight: stats.running + stats.waiting,
                bytes_received: stats.bytes_received,
                bytes_sent: stats.bytes_sent,
            };
            // Statistics are valid JSON, so this cannot fail.
            let _ = stream.send(Priority::Low, &figures);
        }
    });
    ticker.abort_handle()
}
