//! Wrappers: functions around handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duet_rpc::{Context, Failure, Next, Profile, Request, Router, State, blocking};
use serde_json::{Value, json};

use super::remote;
use super::{answers, outcome, request};

#[tokio::test]
async fn p7_wrapper_that_never_runs_the_handler_gives_exactly_one_answer() {
    let rows: [(&str, Router); 3] = [
        ("value", Router::new().wrap(async |_, _| "instead")),
        ("waits", {
            Router::new().wrap(async |_, _| {
                tokio::task::yield_now().await;
                "instead"
            })
        }),
        ("synchronous", Router::new().wrap(|_, _| "instead")),
    ];
    for (row, router) in rows {
        let router = router.method("a", || "a").method("end", || "end").fallback(|| "other");
        let messages = [request(1, "a"), request(2, "x"), request(3, "end")];
        let messages = [&*messages[0], &*messages[1], &*messages[2]];
        let mut ids = Vec::new();
        for answer in answers(router, &messages, 3).await {
            assert_eq!(answer["result"], "instead", "{row}");
            ids.push(answer["id"].as_u64());
        }
        ids.sort_unstable();
        assert_eq!(ids, [Some(1), Some(2), Some(3)], "{row}");
    }
}

async fn twice(request: Request, next: Next) -> Result<Vec<Value>, Failure> {
    let mut results = Vec::new();
    for _ in 0..2 {
        let result = next.run(request.clone()).await?;
        results.push(serde_json::from_str(result.get())?);
    }
    Ok(results)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn p7_wrappers_change_params_and_results_retry_and_limit_time() {
    let add = |(a, b): (i64, i64)| a + b;
    let later = async |(a, b): (i64, i64)| {
        tokio::task::yield_now().await;
        a + b
    };
    let shift = |mut request: Request, next: Next| async move {
        let (a, b): (i64, i64) = request.params()?;
        request.set_params((a * 10, b))?;
        next.run(request).await
    };
    let limit = async |request, next: Next| {
        let answer = tokio::time::timeout(Duration::from_millis(20), next.run(request));
        answer.await.unwrap_or_else(|_| Err(Failure::new(-32001, "Too slow")))
    };
    let panic = async |_: Request, _: Next| -> Result<(), Failure> { panic!("in the wrapper") };
    let count = Arc::new(AtomicUsize::new(0));
    let flaky = move |_: (i64, i64)| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Err(Failure::new(-32001, "Not yet")),
        tries => Ok(tries),
    };
    let retry = async |request: Request, next: Next| match next.run(request.clone()).await {
        Ok(result) => Ok(result),
        Err(_) => next.run(request).await,
    };
    let hang = async |_: (i64, i64)| std::future::pending::<()>().await;
    let rows: [(&str, Router, Value); 12] = [
        ("params", Router::new().method("m", add).wrap(shift), json!(12)),
        ("params, later", Router::new().method("m", later).wrap(shift), json!(12)),
        ("params, blocking", Router::new().method("m", blocking(add)).wrap(shift), json!(12)),
        ("twice", Router::new().wrap(twice).method("m", add), json!([3, 3])),
        (
            "first is outermost",
            Router::new().wrap(twice).wrap(shift).method("m", add),
            json!([12, 12]),
        ),
        (
            "deep",
            Router::new().wrap(shift).nest("", Router::new().wrap(shift).method("m", add)),
            json!(102),
        ),
        ("time", Router::new().method("m", hang).wrap(limit), json!(-32001)),
        ("in time", Router::new().method("m", later).wrap(limit), json!(3)),
        ("retry", Router::new().method("m", flaky).wrap(retry), json!(1)),
        ("panics", Router::new().method("m", add).wrap(panic), json!(-32603)),
        (
            "inner panics",
            Router::new().method("m", |_: (i64, i64)| -> () { panic!("in it") }).wrap(limit),
            json!(-32603),
        ),
        ("wrong params", Router::new().method("m", |(_,): (String,)| 1).wrap(limit), json!(-32602)),
    ];
    for (row, router, expected) in rows {
        let message = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1,2]}"#;
        let got = answers(router, &[message], 1).await;
        assert_eq!(*outcome(&got[0]), expected, "{row}: {}", got[0]);
    }
}

#[tokio::test]
async fn p7_extractors_work_inside_wrappers() {
    let router = Router::with_state(7_u64)
        .method("m", async |state: State<u64>, cx: Context, params: Value| {
            (*state, cx.id().map(ToString::to_string), params)
        })
        .wrap(async |request, next| next.run(request).await);
    let rows = [
        (r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#, json!([7, "1", null])),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}"#, json!([7, "1", {"a": 1}])),
    ];
    for (message, expected) in rows {
        let got = answers(router.clone(), &[message], 1).await;
        assert_eq!(got[0]["result"], expected, "{message}");
    }
}

/// Adds one to a counter until it is dropped.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Alive(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn p3_a_cancellation_reaches_a_handler_through_three_wrappers() {
    let (alive, cancelled) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (begun, noticed) = (Arc::clone(&alive), Arc::clone(&cancelled));
    let pass = async |request: Request, next: Next| {
        tokio::task::yield_now().await;
        next.run(request).await
    };
    let router = Router::new()
        .method("hang", move |cx: Context| {
            let (alive, noticed) = (Alive::new(&begun), Arc::clone(&noticed));
            tokio::spawn(async move {
                cx.cancelled().await;
                noticed.fetch_add(1, Ordering::SeqCst);
            });
            async move {
                let _alive = alive;
                std::future::pending::<()>().await;
            }
        })
        .wrap(pass)
        .wrap(pass)
        .wrap(pass);
    let (_peer, mut remote) = remote::serve(&Profile::agent(), router);
    remote.send(&request(1, "hang")).await;
    while alive.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#;
    assert_eq!(remote.ask(cancel).await["error"]["code"], -32800);
    for _ in 0..1000 {
        if (alive.load(Ordering::SeqCst), cancelled.load(Ordering::SeqCst)) == (0, 1) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("the handler was not dropped, or its context was not cancelled");
}
