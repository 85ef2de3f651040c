//! The connection to the broker, and its settings.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectError, ConnectOptions, Event};
use duet_rpc::{Error, ErrorKind};
use tokio::sync::watch;
use tokio::time::timeout;

/// Messages of one subscription that wait in memory. Beyond it, async-nats drops messages, and reports a slow consumer.
const ROOM: usize = 64 * 1024;

/// The longest pause between two attempts to reconnect.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Time for async-nats to report an error that the broker has sent already.
const REPORTED_WITHIN: Duration = Duration::from_millis(50);

/// Messages that were dropped because nobody read them in time.
pub(crate) type SlowConsumers = Arc<AtomicU64>;

/// A connection to the broker. It reconnects by itself.
#[derive(Clone, Debug)]
pub(crate) struct Broker {
    pub(crate) client: Client,
    pub(crate) slow_consumers: SlowConsumers,
    /// The last error that the broker reported.
    reported: watch::Receiver<String>,
}

impl Broker {
    /// Connects with these options, such as credentials and certificates.
    pub(crate) async fn connect(url: &str, options: ConnectOptions) -> Result<Self, Error> {
        // async-nats takes the provider of the process. If the application has set one, it stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let slow_consumers = SlowConsumers::default();
        let counter = Arc::clone(&slow_consumers);
        let was_lost = AtomicBool::new(false);
        let (report, reported) = watch::channel(String::new());
        let options = options
            .subscription_capacity(ROOM)
            .reconnect_delay_callback(pause)
            .event_callback(move |event| {
                log(&event, &counter, &was_lost);
                if let Event::ServerError(error) = event {
                    report.send_replace(error.to_string());
                }
                async {}
            });
        let client = options.connect(url).await;
        let client = client.map_err(|error| unreachable(url, &error))?;
        Ok(Broker { client, slow_consumers, reported })
    }

    /// Fails if the broker has refused the subscription to this subject. Call it after the broker has confirmed a later
    /// message.
    pub(crate) async fn check_subscription(&self, subject: &str) -> Result<(), Error> {
        let refusal = format!("subscription to \"{}\"", subject.to_lowercase());
        let mut reported = self.reported.clone();
        let refused = reported.wait_for(|error| error.to_lowercase().contains(&refusal));
        match timeout(REPORTED_WITHIN, refused).await {
            Ok(Ok(error)) => {
                let why = format!("the broker refuses this worker: {}", *error);
                Err(Error::new(ErrorKind::Connect).caused_by(why))
            }
            Ok(Err(_)) | Err(_) => Ok(()),
        }
    }
}

/// The pause before an attempt to reconnect. A broker that restarts is back soon.
fn pause(attempts: usize) -> Duration {
    let doubled = Duration::from_millis(50).checked_mul(1 << attempts.min(10));
    doubled.map_or(LONGEST_PAUSE, |pause| pause.min(LONGEST_PAUSE))
}

fn log(event: &Event, slow_consumers: &AtomicU64, was_lost: &AtomicBool) {
    match event {
        Event::SlowConsumer(_) => {
            slow_consumers.fetch_add(1, Ordering::Relaxed);
            tracing::error!("messages dropped: a subscription is not read in time");
        }
        Event::Disconnected => {
            was_lost.store(true, Ordering::Relaxed);
            tracing::warn!("connection to the broker lost, reconnecting");
        }
        Event::Connected if was_lost.load(Ordering::Relaxed) => {
            tracing::info!("connected to the broker again");
        }
        // The caller of `connect` knows.
        Event::Connected | Event::Closed | Event::Draining => {}
        Event::ServerError(error) => tracing::error!(%error, "the broker reported an error"),
        Event::ClientError(error) => tracing::warn!(%error, "cannot reach the broker"),
        event => tracing::info!("broker: {event}"),
    }
}

/// The error of a failed connection. Its cause names the broker, without credentials.
fn unreachable(url: &str, error: &ConnectError) -> Error {
    let place = url.rsplit(['@', '/']).find(|it| !it.is_empty()).unwrap_or(url);
    let system = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    let kind = system.map_or(io::ErrorKind::Other, io::Error::kind);
    Error::new(ErrorKind::Connect)
        .caused_by(io::Error::new(kind, format!("broker {place}: {error}")))
}

/// The error of a subscription that the broker refused, or that ended.
pub(crate) fn broken(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::Transport).caused_by(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n9_reconnects_wait_at_most_a_second() {
        for (attempts, expected) in [(0, 50), (1, 100), (3, 400), (5, 1000), (usize::MAX, 1000)] {
            assert_eq!(pause(attempts), Duration::from_millis(expected));
        }
    }
}
