//! Ends: cancelled calls, deadlines, callers and workers that are gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use duet_rpc::{ErrorKind, Peer, Router};
use duet_rpc_nats::NatsPeer;

use super::link::Link;
use super::support::{Broker, has_nats};
use super::{Running, confirm, peer, router, within};

/// Counts handlers that began and that ended, however they ended.
#[derive(Clone, Default)]
struct Handlers {
    begun: Arc<AtomicU64>,
    ended: Arc<AtomicU64>,
}

struct Ending(Arc<AtomicU64>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Handlers {
    fn router(&self) -> Router {
        let handlers = self.clone();
        Router::new().method("wait", move || {
            let ending = Ending(Arc::clone(&handlers.ended));
            handlers.begun.fetch_add(1, Ordering::Relaxed);
            async move {
                tokio::time::sleep(Duration::from_secs(60)).await;
                drop(ending);
            }
        })
    }

    /// Waits until this many handlers have begun, and this many have ended.
    async fn wait_for(&self, begun: u64, ended: u64) {
        let reached = async {
            while self.begun.load(Ordering::Relaxed) < begun
                || self.ended.load(Ordering::Relaxed) < ended
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within(20, reached).await;
    }
}

#[tokio::test]
async fn n5_each_of_1000_cancelled_calls_reaches_its_handler() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let handlers = Handlers::default();
    let one = Running::start(&broker.url(), handlers.router()).await;
    let two = Running::start(&broker.url(), handlers.router()).await;
    let math = peer(&broker).await;
    let calls: Vec<_> = (0..1000)
        .map(|_| {
            let math = math.clone();
            tokio::spawn(async move { math.call::<()>("wait", ()).await })
        })
        .collect();
    handlers.wait_for(1000, 0).await;
    calls.iter().for_each(|call| call.abort());
    handlers.wait_for(1000, 1000).await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn n5_a_call_cancelled_before_its_worker_is_known_reaches_the_handler() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let handlers = Handlers::default();
    let worker = Running::start(&broker.url(), handlers.router()).await;
    let math = peer(&broker).await;
    for _ in 0..100 {
        let call = math.call::<()>("wait", ()).timeout(Duration::from_millis(1));
        let error = within(20, call).await.expect_err("no answer");
        assert_eq!(error.kind(), ErrorKind::Timeout);
    }
    handlers.wait_for(100, 100).await;
    worker.stop().await;
}

#[tokio::test]
async fn n5_the_deadline_of_a_request_drops_its_handler() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let handlers = Handlers::default();
    let worker = Running::start(&broker.url(), handlers.router()).await;
    let client = async_nats::connect(broker.url()).await.expect("a broker");
    let mut headers = HeaderMap::new();
    headers.insert("Duet-Deadline", "100");
    let wait = r#"{"jsonrpc":"2.0","id":1,"method":"wait"}"#;
    let answer = client.request_with_headers("rpc.math.wait", headers, wait.into());
    let answer = within(20, answer).await.expect("an answer");
    assert!(String::from_utf8_lossy(&answer.payload).contains("-32800"), "{answer:?}");
    handlers.wait_for(1, 1).await;
    worker.stop().await;
}

#[tokio::test]
async fn n5_a_caller_that_is_gone_cancels_its_handlers() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let handlers = Handlers::default();
    let worker = Running::start(&broker.url(), handlers.router()).await;
    // This client asks for signs, and is not there to take them.
    let client = async_nats::connect(broker.url()).await.expect("a broker");
    let wait = r#"{"jsonrpc":"2.0","id":1,"method":"wait"}"#;
    let sent = client.publish_with_reply("rpc.math.wait", "nobody.=.1", wait.into());
    sent.await.expect("sent");
    handlers.wait_for(1, 1).await;
    worker.stop().await;
}

#[tokio::test]
async fn n4_a_worker_without_a_sign_for_three_seconds_fails_its_calls() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    // A worker that takes requests and says nothing.
    let client = async_nats::connect(broker.url()).await.expect("a broker");
    let taken =
        client.queue_subscribe("rpc.math.*", "duet-rpc".to_owned()).await.expect("subscribed");
    confirm(&client).await;
    let math = peer(&broker).await;
    let begun = Instant::now();
    let error = within(20, math.call::<i64>("add", (1, 2))).await.expect_err("silence");
    assert!((3000..4000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    assert_eq!((error.kind(), error.was_sent()), (ErrorKind::Interrupted, true));
    assert!(format!("{error:#}").contains("gave no sign for 3 s"), "{error:#}");
    drop(taken);
}

#[tokio::test]
async fn n4_an_idempotent_call_goes_to_another_worker() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let client = async_nats::connect(broker.url()).await.expect("a broker");
    let mut silent =
        client.queue_subscribe("rpc.math.*", "duet-rpc".to_owned()).await.expect("subscribed");
    confirm(&client).await;
    let nats = NatsPeer::connect(&broker.url()).await.expect("a broker");
    let transport = nats.transport("math").await.expect("subscribed").idempotent(["add"]);
    let math = Peer::builder(transport).spawn();
    let call = tokio::spawn(math.call::<i64>("add", (1, 2)));
    let taken = within(20, futures_util::StreamExt::next(&mut silent)).await;
    assert!(taken.is_some());
    // The silent worker dies, and another one starts.
    silent.unsubscribe().await.expect("unsubscribed");
    confirm(&client).await;
    let worker = Running::start(&broker.url(), router()).await;
    assert_eq!(within(20, call).await.expect("no panic").expect("an answer"), 3);
    worker.stop().await;
}

#[tokio::test]
async fn n9_a_worker_that_stops_finishes_its_requests() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let worker = Running::start(&broker.url(), router()).await;
    let math = peer(&broker).await;
    let calls: Vec<_> = (0..50).map(|_| tokio::spawn(math.call::<u64>("sleep", [300]))).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (stopped, other) =
        (tokio::spawn(worker.stop()), Running::start(&broker.url(), router()).await);
    for call in calls {
        assert_eq!(within(20, call).await.expect("no panic").expect("an answer"), 300);
    }
    within(20, stopped).await.expect("stopped");
    assert_eq!(within(20, math.call::<i64>("add", (1, 2))).await.expect("the other one"), 3);
    other.stop().await;
}

#[tokio::test]
async fn n9_a_worker_that_stops_answers_requests_that_are_on_the_wire() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let mut link = Link::start(&broker).await;
    let (go, may_go) = tokio::sync::watch::channel(false);
    let waits = router().method("wait", move || {
        let mut may_go = may_go.clone();
        async move { may_go.wait_for(|it| *it).await.is_ok() }
    });
    let worker = Running::start(&link.url, waits).await;
    let math = peer(&broker).await;
    let slow = tokio::spawn(math.call::<bool>("wait", ()));
    link.client_sends("Duet-Accepted").await;
    link.hold(true);
    let calls: Vec<_> = (0..50).map(|n| tokio::spawn(math.call::<i64>("add", (n, 1)))).collect();
    link.broker_sends("MSG rpc.math.add", 50).await;
    let other = Running::start(&broker.url(), router()).await;
    let stopped = tokio::spawn(worker.stop());
    link.client_sends("UNSUB").await;
    // The worker goes on after it has unsubscribed.
    go.send_replace(true);
    assert!(within(20, slow).await.expect("no panic").expect("an answer"));
    link.hold(false);
    for (call, sum) in calls.into_iter().zip(1..) {
        assert_eq!(within(20, call).await.expect("no panic").expect("an answer"), sum);
    }
    within(20, stopped).await.expect("stopped");
    other.stop().await;
}

#[tokio::test]
async fn n6_n9_a_worker_that_stops_takes_answers_of_its_callers() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let worker = Running::start(&broker.url(), router()).await;
    let nats = NatsPeer::connect(&broker.url()).await.expect("a broker");
    let (asked, mut was_asked) = tokio::sync::mpsc::unbounded_channel();
    let (go, may_go) = tokio::sync::watch::channel(false);
    let ours = Router::new().method("answer", move |(question,): (String,)| {
        let (asked, mut may_go) = (asked.clone(), may_go.clone());
        async move {
            let _ = asked.send(());
            let _ = may_go.wait_for(|it| *it).await;
            format!("{question}!")
        }
    });
    let transport = nats.transport("math").await.expect("subscribed");
    let math = Peer::builder(transport).router(ours).spawn();
    let call = tokio::spawn(async move { math.call::<String>("ask", ["yes"]).await });
    within(20, was_asked.recv()).await.expect("a question");
    let stopping = tokio::spawn(worker.stop());
    // The worker takes no more requests, and the handler still waits.
    let client = async_nats::connect(broker.url()).await.expect("a broker");
    let has_left = async {
        let add = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;
        while client.request("rpc.math.add", add.into()).await.is_ok() {}
    };
    within(20, has_left).await;
    go.send_replace(true);
    assert_eq!(within(20, call).await.expect("no panic").expect("an answer"), "yes!");
    within(20, stopping).await.expect("a graceful end");
}

#[tokio::test]
async fn n4_something_else_than_an_answer_fails_the_call() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let client = async_nats::connect(broker.url()).await.expect("a broker");
    let mut taken =
        client.queue_subscribe("rpc.math.*", "duet-rpc".to_owned()).await.expect("subscribed");
    confirm(&client).await;
    let math = peer(&broker).await;
    let wrong_id = r#"{"jsonrpc":"2.0","id":"other","result":1}"#;
    let unreadable = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#;
    for (text, is_busy, code) in [
        ("", false, None),
        ("{nope", false, None),
        ("[]", false, None),
        (wrong_id, false, None),
        (r#"{"jsonrpc":"2.0","id":null,"error":"x"}"#, false, None),
        (r#"{"jsonrpc":"2.0","id":null,"result":1,"error":{"code":1}}"#, false, None),
        ("", true, None),
        (wrong_id, true, None),
        // The caller knows the id that is missing.
        (unreadable, false, Some(-32700)),
        (unreadable, true, Some(-32700)),
    ] {
        let call = tokio::spawn(math.call::<i64>("add", (1, 2)).no_timeout());
        // A busy answer is delivered again, twice.
        for _ in 0..if is_busy { 3 } else { 1 } {
            let request = within(20, futures_util::StreamExt::next(&mut taken)).await;
            let reply = request.expect("a request").reply.expect("a reply subject");
            let mut headers = HeaderMap::new();
            if is_busy {
                headers.insert("Duet-Busy", "1");
            }
            let sent = client.publish_with_headers(reply, headers, text.into());
            sent.await.expect("sent");
        }
        let error = within(20, call).await.expect("no panic").expect_err("no answer");
        assert_eq!(error.remote().map(|it| it.code), code, "{text}");
        if code.is_none() {
            assert_eq!((error.kind(), error.was_sent()), (ErrorKind::Exchange, true), "{text}");
        }
    }
}

#[tokio::test]
async fn n5_closing_a_caller_cancels_its_handlers() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let handlers = Handlers::default();
    let worker = Running::start(&broker.url(), handlers.router()).await;
    let math = peer(&broker).await;
    let call = tokio::spawn(math.call::<()>("wait", ()).no_timeout());
    handlers.wait_for(1, 0).await;
    // The first sign, which names the worker, is on its way after 5 ms.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    math.close().await;
    handlers.wait_for(1, 1).await;
    assert!(begun.elapsed() < Duration::from_secs(4), "it was not cancelled");
    call.abort();
    worker.stop().await;
}

#[tokio::test]
async fn n6_only_answers_reach_a_running_request() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let worker = Running::start(&broker.url(), router()).await;
    let client = async_nats::connect(broker.url()).await.expect("a broker");
    let mut taken = client.subscribe("x.*.*").await.expect("subscribed");
    confirm(&client).await;
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"ask","params":["?"]}"#;
    client.publish_with_reply("rpc.math.ask", "x.=.1", ask.into()).await.expect("sent");
    // The call of the handler names the subject of the request.
    let (question, reply) = loop {
        let message = within(20, futures_util::StreamExt::next(&mut taken)).await.expect("one");
        let text = String::from_utf8_lossy(&message.payload).into_owned();
        if text.contains("\"answer\"") {
            break (text, message.reply.expect("the worker"));
        }
    };
    let question: serde_json::Value = serde_json::from_str(&question).expect("JSON");
    let add = r#"{"jsonrpc":"2.0","id":9,"method":"add","params":[1,2]}"#;
    for text in [add, "{"] {
        client.publish(reply.clone(), text.into()).await.expect("sent");
    }
    let answer = serde_json::json!({"jsonrpc": "2.0", "id": question["id"], "result": "ok"});
    client.publish(reply, answer.to_string().into()).await.expect("sent");
    let end = loop {
        let message = within(20, futures_util::StreamExt::next(&mut taken)).await.expect("one");
        if !message.payload.is_empty() {
            break message.payload;
        }
    };
    assert_eq!(end, r#"{"jsonrpc":"2.0","id":1,"result":"ok"}"#);
    worker.stop().await;
}

#[tokio::test]
async fn n6_an_answer_at_another_subject_settles_no_call() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let client = async_nats::connect(broker.url()).await.expect("a broker");
    let mut taken =
        client.queue_subscribe("rpc.math.*", "duet-rpc".to_owned()).await.expect("subscribed");
    confirm(&client).await;
    let math = peer(&broker).await;
    for end in ["=.call", "=.other", "=5.call"] {
        let call = tokio::spawn(math.call::<String>("add", (1, 2)));
        let request = within(20, futures_util::StreamExt::next(&mut taken)).await;
        let request = request.expect("a request");
        let reply = request.reply.expect("a reply subject").to_string();
        let inbox = reply.rsplitn(3, '.').nth(2).expect("three tokens");
        let message: serde_json::Value = serde_json::from_slice(&request.payload).expect("JSON");
        for (subject, result) in [(format!("{inbox}.{end}"), "forged"), (reply.clone(), "real")] {
            let answer =
                serde_json::json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            client.publish(subject, answer.to_string().into()).await.expect("sent");
        }
        assert_eq!(within(20, call).await.expect("no panic").expect("an answer"), "real", "{end}");
    }
}
