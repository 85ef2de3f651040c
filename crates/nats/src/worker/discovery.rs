//! Discovery: PING, INFO and STATS, as the service protocol of NATS (ADR-32) has them (N10).
//!
//! Tools such as `nats micro list` find workers with these three requests. Each goes to all workers, to those of one
//! service, or to one worker: `$SRV.PING`, `$SRV.PING.math`, `$SRV.PING.math.ID`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use async_nats::{Client, Message, Subscriber};
use bytes::Bytes;
use duet_rpc::Error;
use futures_util::StreamExt;
use futures_util::stream::select_all;
use serde_json::{Value, json};

use super::QUEUE;
use super::methods::Method;
use super::stats::rfc3339;
use crate::broker::broken;

/// What a worker says about itself.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) service: String,
    pub(super) version: String,
    pub(super) text: String,
    /// The id of this worker.
    pub(super) id: String,
    pub(super) started: SystemTime,
    /// By subject.
    pub(super) methods: BTreeMap<String, Arc<Method>>,
}

impl Description {
    /// Subscribes to the requests.
    pub(super) async fn subscribe(&self, client: &Client) -> Result<Vec<Subscriber>, Error> {
        let (service, id) = (&self.service, &self.id);
        let mut subscribers = Vec::new();
        for scope in [String::new(), format!(".{service}"), format!(".{service}.{id}")] {
            let subject = format!("$SRV.*{scope}");
            subscribers.push(client.subscribe(subject).await.map_err(broken)?);
        }
        Ok(subscribers)
    }

    /// Answers the requests until it is dropped.
    pub(super) async fn serve(&self, client: &Client, subscribers: Vec<Subscriber>) {
        let mut requests = select_all(subscribers);
        while let Some(Message { subject, reply, .. }) = requests.next().await {
            let answer = subject.split('.').nth(1).and_then(|verb| self.answer(verb));
            // Anybody can publish a message that asks for no answer.
            let (Some(reply), Some(answer)) = (reply, answer) else { continue };
            // A broker that is out of reach asks again.
            let _ = client.publish(reply, Bytes::from(answer.to_string())).await;
        }
    }

    fn answer(&self, verb: &str) -> Option<Value> {
        let Description { service, version, text, id, started, methods } = self;
        let kind = verb.to_ascii_lowercase();
        let mut answer = json!({
            "type": format!("io.nats.micro.v1.{kind}_response"),
            "name": service,
            "id": id,
            "version": version,
            "metadata": {},
        });
        let endpoint = |name: &str, subject: &str| json!({"name": name, "subject": subject, "queue_group": QUEUE});
        match verb {
            "PING" => {}
            "INFO" => {
                answer["description"] = text.as_str().into();
                let endpoints =
                    methods.iter().map(|(subject, method)| endpoint(&method.name, subject));
                answer["endpoints"] = endpoints.collect();
            }
            "STATS" => {
                answer["started"] = rfc3339(*started).into();
                let endpoints = methods.iter().map(|(subject, method)| {
                    let (requests, errors, nanoseconds) = method.counters.get();
                    let mut endpoint = endpoint(&method.name, subject);
                    endpoint["num_requests"] = requests.into();
                    endpoint["num_errors"] = errors.into();
                    endpoint["last_error"] = "".into();
                    endpoint["processing_time"] = nanoseconds.into();
                    endpoint["average_processing_time"] =
                        nanoseconds.checked_div(requests).unwrap_or(0).into();
                    endpoint
                });
                answer["endpoints"] = endpoints.collect();
            }
            _ => return None,
        }
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn n10_ping_info_and_stats_are_answered_and_nothing_else() {
        let add = Arc::new(Method::new("add".to_owned()));
        add.counters.answered(Duration::from_nanos(30), false);
        add.counters.answered(Duration::from_nanos(10), true);
        let description = Description {
            service: "math".to_owned(),
            version: "1.2.0".to_owned(),
            text: "Sums".to_owned(),
            id: "A7".to_owned(),
            started: UNIX_EPOCH,
            methods: [("rpc.math.add".to_owned(), add)].into(),
        };
        let common = r#""id":"A7","metadata":{},"name":"math""#;
        let endpoint = r#""name":"add""#;
        for (verb, expected) in [
            (
                "PING",
                Some(format!(
                    r#"{{{common},"type":"io.nats.micro.v1.ping_response","version":"1.2.0"}}"#
                )),
            ),
            (
                "INFO",
                Some(format!(
                    r#"{{"description":"Sums","endpoints":[{{{endpoint},"queue_group":"duet-rpc","subject":"rpc.math.add"}}],{common},"type":"io.nats.micro.v1.info_response","version":"1.2.0"}}"#
                )),
            ),
            (
                "STATS",
                Some(format!(
                    r#"{{"endpoints":[{{"average_processing_time":20,"last_error":"",{endpoint},"num_errors":1,"num_requests":2,"processing_time":40,"queue_group":"duet-rpc","subject":"rpc.math.add"}}],{common},"started":"1970-01-01T00:00:00.000000000Z","type":"io.nats.micro.v1.stats_response","version":"1.2.0"}}"#
                )),
            ),
            ("SCHEMA", None),
            ("ping", None),
        ] {
            let expected: Option<Value> =
                expected.map(|it| serde_json::from_str(&it).expect("JSON"));
            assert_eq!(description.answer(verb), expected, "{verb}");
        }
    }
}
