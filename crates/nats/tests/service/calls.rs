//! Calls, notifications, batches and calls back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duet_rpc::{Context, ErrorKind, Peer, Router};
use duet_rpc_nats::NatsPeer;
use tokio::sync::mpsc;

use super::support::{Broker, has_nats};
use super::{Running, confirm, peer, router, within};

#[tokio::test]
async fn n3_each_call_gets_its_own_answer() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let (one, two) = (
        Running::start(&broker.url(), router()).await,
        Running::start(&broker.url(), router()).await,
    );
    let math = peer(&broker).await;
    let calls = (0..1000).map(|n: i64| {
        let math = math.clone();
        tokio::spawn(async move { (n, math.call::<i64>("add", (n, 1)).await) })
    });
    for call in calls.collect::<Vec<_>>() {
        let (n, sum) = within(20, call).await.expect("no panic");
        assert_eq!(sum.expect("an answer"), n + 1);
    }
    let error = math.call::<()>("fail", ()).await.expect_err("an error");
    assert_eq!(error.remote().map(|it| (it.code, &*it.message)), Some((7, "no\nway")));
    let error = math.call::<()>("nothing/there", ()).await.expect_err("no such method");
    assert_eq!(error.remote().map(|it| it.code), Some(-32601));
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn n3_a_slow_call_lives_as_long_as_its_worker_gives_signs() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let worker = Running::start(&broker.url(), router()).await;
    let math = peer(&broker).await;
    assert_eq!(within(20, math.call::<u64>("sleep", [4500])).await.expect("an answer"), 4500);
    worker.stop().await;
}

#[tokio::test]
async fn n4_without_a_worker_a_call_fails_immediately_and_was_not_sent() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let math = peer(&broker).await;
    let begun = Instant::now();
    let error = within(20, math.call::<i64>("add", (1, 2))).await.expect_err("no worker");
    assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
    assert_eq!((error.kind(), error.was_sent()), (ErrorKind::Exchange, false));
    assert!(format!("{error:#}").contains("no worker serves math"), "{error:#}");
    // The connection is usable.
    let worker = Running::start(&broker.url(), router()).await;
    assert_eq!(within(20, math.call::<i64>("add", (1, 2))).await.expect("an answer"), 3);
    worker.stop().await;
}

#[tokio::test]
async fn n6_a_handler_calls_its_caller_back() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let (one, two) = (
        Running::start(&broker.url(), router()).await,
        Running::start(&broker.url(), router()).await,
    );
    let nats = NatsPeer::connect(&broker.url()).await.expect("a broker");
    let asked = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&asked);
    let ours = Router::new()
        .method("answer", async |(question,): (String,)| {
            tokio::time::sleep(Duration::from_millis(5)).await;
            format!("{question}!")
        })
        .method("asked", move |_: (String,)| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
    let transport = nats.transport("math").await.expect("subscribed");
    let math = Peer::builder(transport).router(ours).spawn();
    let calls = (0..100).map(|n: u64| {
        let math = math.clone();
        tokio::spawn(async move { (n, math.call::<String>("ask", [n.to_string()]).await) })
    });
    for call in calls.collect::<Vec<_>>() {
        let (n, answer) = within(20, call).await.expect("no panic");
        assert_eq!(answer.expect("an answer"), format!("{n}!"));
    }
    assert_eq!(asked.load(Ordering::Relaxed), 100);
    // A caller without methods answers, too.
    let error = peer(&broker).await.call::<String>("ask", ["?"]).await.expect_err("no method");
    assert_eq!(error.remote().map(|it| it.code), Some(-32603));
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn n3_a_notification_reaches_one_worker() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let (told, mut heard) = mpsc::unbounded_channel();
    let router = Router::new().method("log", move |(n,): (u64,)| {
        let _ = told.send(n);
    });
    let (one, two) = (
        Running::start(&broker.url(), router.clone()).await,
        Running::start(&broker.url(), router).await,
    );
    let math = peer(&broker).await;
    for n in 0..100_u64 {
        math.notify("log", [n]).await.expect("sent");
    }
    let mut all = Vec::new();
    while all.len() < 100 {
        all.push(within(20, heard.recv()).await.expect("workers run"));
    }
    one.stop().await;
    two.stop().await;
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
    assert!(heard.try_recv().is_err(), "each one once");
}

#[tokio::test]
async fn n2_a_request_of_another_client_needs_no_header() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let worker = Running::start(&broker.url(), router()).await;
    let client = async_nats::connect(broker.url()).await.expect("a broker");
    let add = r#"{"jsonrpc":"2.0","id":"a","method":"add","params":[1,2]}"#;
    let slow = r#"{"jsonrpc":"2.0","id":1,"method":"sleep","params":[50]}"#;
    for (subject, payload, expected) in [
        ("rpc.math.add", add.to_owned(), r#"{"jsonrpc":"2.0","id":"a","result":3}"#.to_owned()),
        // It takes longer than 5 ms, and no sign comes before the answer.
        ("rpc.math.sleep", slow.to_owned(), r#"{"jsonrpc":"2.0","id":1,"result":50}"#.to_owned()),
        (
            "rpc.math.=batch",
            format!("[{add},{slow}]"),
            r#"[{"jsonrpc":"2.0","id":"a","result":3},{"jsonrpc":"2.0","id":1,"result":50}]"#
                .to_owned(),
        ),
    ] {
        let answer = client.request(subject, payload.into()).await.expect("an answer");
        assert_eq!(String::from_utf8_lossy(&answer.payload), expected);
        assert!(answer.headers.is_none());
    }
    // Handlers cannot call this client back, and errors have the headers of the service protocol.
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"fail"}"#;
    let answer = client.request("rpc.math.fail", ask.into()).await.expect("an answer");
    let headers = answer.headers.expect("headers");
    assert_eq!(headers.get("Nats-Service-Error-Code").map(|it| it.as_str()), Some("7"));
    assert_eq!(headers.get("Nats-Service-Error").map(|it| it.as_str()), Some("no way"));
    let broken = client.request("rpc.math.add", "{".into()).await.expect("an answer");
    assert!(String::from_utf8_lossy(&broken.payload).contains("-32700"), "{broken:?}");
    worker.stop().await;
}

#[tokio::test]
async fn n10_other_clients_discover_workers() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let worker = Running::start(&broker.url(), router()).await;
    let math = peer(&broker).await;
    for n in 0..3 {
        assert_eq!(math.call::<i64>("add", (n, n)).await.expect("an answer"), 2 * n);
    }
    let client = async_nats::connect(broker.url()).await.expect("a broker");
    let ask = async |subject: String| -> serde_json::Value {
        let answer = within(20, client.request(subject, "".into())).await.expect("an answer");
        serde_json::from_slice(&answer.payload).expect("JSON")
    };
    // A message that asks for no answer ends nothing.
    client.publish("$SRV.PING", "".into()).await.expect("sent");
    let id = ask("$SRV.PING".to_owned()).await["id"].as_str().expect("an id").to_owned();
    for (verb, scope) in
        [("PING", ".math".to_owned()), ("INFO", String::new()), ("STATS", format!(".math.{id}"))]
    {
        let answer = ask(format!("$SRV.{verb}{scope}")).await;
        assert_eq!(answer["name"], "math");
        assert_eq!(answer["version"], "1.2.0");
        let endpoint = answer["endpoints"]
            .as_array()
            .and_then(|all| all.iter().find(|it| it["name"] == "add"));
        match verb {
            "PING" => assert!(endpoint.is_none()),
            "INFO" => assert_eq!(endpoint.expect("add")["subject"], "rpc.math.add"),
            _ => assert_eq!(endpoint.expect("add")["num_requests"], 3),
        }
    }
    worker.stop().await;
}

#[tokio::test]
async fn n2_the_timeout_of_each_call_travels_as_its_deadline() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    // A worker that takes requests, and shows their headers.
    let client = async_nats::connect(broker.url()).await.expect("a broker");
    let taken = client.queue_subscribe("rpc.math.*", "duet-rpc".to_owned()).await;
    let mut taken = taken.expect("subscribed");
    confirm(&client).await;
    let nats = NatsPeer::connect(&broker.url()).await.expect("a broker");
    let transport = nats.transport("math").await.expect("subscribed");
    let math = Peer::builder(transport.trace_context("00-ab-cd-01")).spawn();
    for (call, expected) in [
        (math.call::<()>("add", ()).timeout(Duration::from_millis(2500)), Some(2000..=2500)),
        // The timeout of the profile.
        (math.call::<()>("add", ()), Some(29_000..=30_000)),
        (math.call::<()>("add", ()).no_timeout(), None),
        // Progress may move the timeout, up to the total.
        (
            math.call::<()>("add", ())
                .timeout(Duration::from_secs(1))
                .restart_on_progress(7, Duration::from_secs(60)),
            Some(59_000..=60_000),
        ),
    ] {
        let call = tokio::spawn(call);
        let request = within(20, futures_util::StreamExt::next(&mut taken)).await;
        let request = request.expect("a request");
        let headers = request.headers.expect("headers");
        let trace = headers.get("traceparent").map(|it| it.as_str());
        assert_eq!(trace, Some("00-ab-cd-01"));
        let reply = request.reply.expect("a reply subject");
        let token = reply.rsplit('.').nth(1).and_then(|it| it.strip_prefix('=')).expect("a caller");
        let deadline = (!token.is_empty()).then(|| token.parse().expect("milliseconds"));
        match (deadline, &expected) {
            (None, None) => {}
            (Some(ms), Some(range)) => assert!(range.contains(&ms), "{ms} of {expected:?}"),
            _ => panic!("{deadline:?} instead of {expected:?}"),
        }
        call.abort();
    }
}

#[tokio::test]
async fn n2_handlers_see_the_trace_context_of_their_request() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let router = Router::new()
        .method("trace", async |cx: Context| cx.peer().remote().trace_context().map(str::to_owned));
    let worker = Running::start(&broker.url(), router).await;
    let nats = NatsPeer::connect(&broker.url()).await.expect("a broker");
    let transport = || async { nats.transport("math").await.expect("subscribed") };
    let without = Peer::builder(transport().await).spawn();
    let with = Peer::builder(transport().await.trace_context("00-ab\r\n-cd-01")).spawn();
    let trace = |peer: Peer| async move { peer.call::<Option<String>>("trace", ()).await };
    assert_eq!(within(20, trace(without)).await.expect("an answer"), None);
    assert_eq!(within(20, trace(with)).await.expect("one line").as_deref(), Some("00-ab  -cd-01"));
    // Any other client sends it as well.
    let client = async_nats::connect(broker.url()).await.expect("a broker");
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("traceparent", "00-ef-01-00");
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"trace"}"#;
    let answer = client.request_with_headers("rpc.math.trace", headers, request.into());
    let answer = within(20, answer).await.expect("an answer");
    assert!(String::from_utf8_lossy(&answer.payload).contains("00-ef-01-00"), "{answer:?}");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n3_handlers_that_compute_do_not_hold_up_other_requests() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let router = router().method("compute", || std::thread::sleep(Duration::from_millis(400)));
    let worker = Running::start(&broker.url(), router).await;
    let math = peer(&broker).await;
    // Its pace is measured now.
    within(20, math.call::<()>("compute", ())).await.expect("an answer");
    let long: Vec<_> = (0..4).map(|_| tokio::spawn(math.call::<()>("compute", ()))).collect();
    for n in 0..100 {
        assert_eq!(within(20, math.call::<i64>("add", (n, 1))).await.expect("an answer"), n + 1);
    }
    assert!(long.iter().any(|call| !call.is_finished()), "the quick calls came first");
    for call in long {
        within(20, call).await.expect("no panic").expect("an answer");
    }
    worker.stop().await;
}
