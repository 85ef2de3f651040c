//! Handlers and routers: shapes, extractors, state, composition (P7).

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};

use duet_rpc::{
    Context, Failure, FromContext, Method, OrInternal, Request, Router, State, blocking, quick,
};
use serde_json::Value;
use serde_json::value::RawValue;

/// The answer to a request, without the members that all answers have.
async fn ask(router: &Router, method: &str, params: &str) -> String {
    let message = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    let answer = router.handle(message).await.expect("a request is answered");
    let answer = String::from_utf8(answer).expect("an answer is text");
    let answer = answer.strip_prefix(r#"{"jsonrpc":"2.0","id":1,"#).expect("the id comes back");
    answer.strip_suffix('}').expect("an object").to_owned()
}

async fn check(router: &Router, rows: &[(&str, &str, &str)]) {
    for (method, params, expected) in rows {
        assert_eq!(ask(router, method, params).await, *expected, "{method} {params}");
    }
}

struct App {
    name: &'static str,
}

/// The id of the request, as a type of the application.
struct RequestId(String);

impl FromContext for RequestId {
    fn from_context(context: Context) -> Result<Self, Failure> {
        let id = context.id().ok_or_else(|| Failure::new(-32001, "No id"))?;
        Ok(RequestId(id.to_string()))
    }
}

/// An extractor that never succeeds.
struct Locked;

impl FromContext for Locked {
    fn from_context(_: Context) -> Result<Self, Failure> {
        Err(Failure::new(-32001, "Locked"))
    }
}

fn divide((a, b): (i64, i64)) -> Result<i64, Failure> {
    a.checked_div(b).ok_or_else(|| Failure::not_found("no such quotient"))
}

async fn all(
    method: Method,
    app: State<App>,
    (number,): (u64,),
    cx: Context,
    id: RequestId,
) -> String {
    format!("{method} {} {number} {} {}", app.name, cx.id().is_some(), id.0)
}

#[tokio::test]
async fn p7_handlers_take_up_to_five_arguments_in_any_order_and_return_values_or_results() {
    let router = Router::with_state(App { name: "app" })
        .method("nothing", || ())
        .method("plain", async |(a, b): (i64, i64)| a + b)
        .method("sync", |(a, b): (i64, i64)| a + b)
        .method("divide", divide)
        .method("blocking", blocking(divide))
        .method("quick", quick(async |raw: Box<RawValue>| raw))
        .method("all", all)
        .method("last", async |app: State<App>, params: Value| (params, app.name))
        .method("locked", async |_: Locked, (n,): (u64,)| n)
        .method("request", async |request: Request| {
            let (n,): (u64,) = request.params()?;
            Ok::<_, Failure>((request.method().to_owned(), n))
        })
        .method("future", |(n,): (u64,)| std::future::ready(n))
        .method("internal", async |(text,): (String,)| {
            let port: u16 = text.parse().or_internal()?;
            Ok::<_, Failure>(port)
        })
        .method("wrong", || {
            Failure::invalid_params("range.to", "larger number", "number").object().code()
        })
        .method("error", || -> Result<(), Failure> {
            Err(Failure::invalid_params("range.to", "larger number", "number"))
        });
    check(
        &router,
        &[
            ("nothing", "[]", r#""result":null"#),
            ("plain", "[1,2]", r#""result":3"#),
            ("sync", "[1,2]", r#""result":3"#),
            ("divide", "[6,2]", r#""result":3"#),
            ("blocking", "[6,2]", r#""result":3"#),
            ("divide", "[6,0]", r#""error":{"code":-32004,"message":"no such quotient"}"#),
            ("blocking", "[6,0]", r#""error":{"code":-32004,"message":"no such quotient"}"#),
            ("quick", r#"{"a":[1]}"#, r#""result":{"a":[1]}"#),
            ("all", "[7]", r#""result":"all app 7 true 1""#),
            ("last", "[7]", r#""result":[[7],"app"]"#),
            ("locked", "[7]", r#""error":{"code":-32001,"message":"Locked"}"#),
            ("request", "[7]", r#""result":["request",7]"#),
            ("future", "[7]", r#""result":7"#),
            ("internal", r#"["7"]"#, r#""result":7"#),
            ("internal", r#"["x"]"#, r#""error":{"code":-32603,"message":"Internal error"}"#),
            ("wrong", "[]", r#""result":-32602"#),
            (
                "error",
                "[]",
                r#""error":{"code":-32602,"message":"Invalid params","data":{"param":"range.to","expected":"larger number","received":"number"}}"#,
            ),
        ],
    )
    .await;
    let wrong = ask(&router, "all", r#"["x"]"#).await;
    assert!(wrong.contains(r#""param":"[0]","expected":"integer","received":"string""#), "{wrong}");
}

/// The message of a panic.
fn panic_of(build: impl FnOnce() -> Router + std::panic::UnwindSafe) -> String {
    let panic = catch_unwind(build).expect_err("the closure panics");
    panic.downcast_ref::<String>().expect("a sentence").clone()
}

#[test]
fn p7_wrong_registration_panics_with_an_explanation() {
    let one = || Router::new().method("name", || 1);
    type Row = (&'static str, fn() -> Router, &'static [&'static str]);
    let rows: [Row; 5] = [
        (
            "no state",
            || Router::new().method("name", async |app: State<App>| app.name),
            &[r#""name""#, "App", "no state", "Router::with_state"],
        ),
        (
            "a fallback without its state",
            || Router::new().fallback(async |app: State<App>| app.name),
            &["cannot register the fallback: ", "App", "Router::with_state"],
        ),
        (
            "another state",
            || Router::with_state(1_u8).method("name", async |app: State<App>| app.name),
            &[r#""name""#, "App", "another type"],
        ),
        (
            "twice",
            || Router::new().method("a", || 1).merge(Router::new().method("a", || 2)),
            &[r#""a""#],
        ),
        (
            "two fallbacks",
            || Router::new().fallback(|| 1).merge(Router::new().fallback(|| 2)),
            &["fallback"],
        ),
    ];
    for (row, build, words) in rows {
        let sentence = panic_of(build);
        assert!(words.iter().all(|word| sentence.contains(word)), "{row}: {sentence}");
    }
    assert!(panic_of(move || one().nest("", one())).contains(r#""name""#));
}

#[derive(Default)]
struct Count(AtomicU64);

#[tokio::test]
async fn p7_routers_are_merged_and_nested_and_keep_their_states() {
    let count = |counter: State<Count>| counter.0.fetch_add(1, Ordering::Relaxed);
    let name = |app: State<App>| app.name;
    let router = Router::with_state(App { name: "outer" })
        .merge(Router::with_state(Count::default()).method("count", count))
        .nest("db/", Router::with_state(App { name: "inner" }).method("name", name))
        .nest("db/deep/", Router::new().method("method", |method: Method| method.to_string()))
        .method("name", name);
    check(
        &router,
        &[
            ("count", "[]", r#""result":0"#),
            ("count", "[]", r#""result":1"#),
            ("name", "[]", r#""result":"outer""#),
            ("db/name", "[]", r#""result":"inner""#),
            ("db/deep/method", "[]", r#""result":"db/deep/method""#),
            ("method", "[]", r#""error":{"code":-32601,"message":"Method not found: method"}"#),
        ],
    )
    .await;
}

#[tokio::test]
async fn p7_a_fallback_serves_unknown_methods_of_its_prefix() {
    let inner = Router::new().method("known", || 1).fallback(
        async |method: Method, params: Box<RawValue>| ("inner", method.to_string(), params),
    );
    let refusing = Router::new().fallback(|method: Method| -> Result<(), Failure> {
        Err(Failure::method_not_found(&method))
    });
    let router = Router::new()
        .fallback(async |method: Method, cx: Context| {
            tokio::task::yield_now().await;
            ("outer", method.to_string(), cx.id().map(ToString::to_string))
        })
        .nest("db/", inner)
        .nest("no/", refusing);
    check(
        &router,
        &[
            ("db/known", "[]", r#""result":1"#),
            ("db/other", "[2]", r#""result":["inner","db/other",[2]]"#),
            ("other", "[2]", r#""result":["outer","other","1"]"#),
            ("", "[2]", r#""result":["outer","","1"]"#),
            ("no/x", "[]", r#""error":{"code":-32601,"message":"Method not found: no/x"}"#),
        ],
    )
    .await;
}

#[tokio::test]
async fn p7_one_message_is_handled_without_a_connection() {
    let router = Router::new()
        .method("add", |(a, b): (i64, i64)| a + b)
        .method("later", async || {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            "later"
        })
        .shutdown_method("exit", || "bye");
    let rows: [(&str, Option<&str>); 8] = [
        (
            r#"{"jsonrpc":"2.0","id":"a","method":"add","params":[1,2]}"#,
            Some(r#"{"jsonrpc":"2.0","id":"a","result":3}"#),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"later"}"#,
            Some(r#"{"jsonrpc":"2.0","id":1,"result":"later"}"#),
        ),
        (r#"{"jsonrpc":"2.0","method":"add","params":[1,2]}"#, None),
        (r#"{"jsonrpc":"2.0","method":"later"}"#, None),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"later"},{"jsonrpc":"2.0","id":2,"method":"add","params":[1,2]}]"#,
            Some(
                r#"[{"jsonrpc":"2.0","id":2,"result":3},{"jsonrpc":"2.0","id":1,"result":"later"}]"#,
            ),
        ),
        (
            "nonsense",
            Some(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#),
        ),
        (
            "",
            Some(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"exit"}"#,
            Some(r#"{"jsonrpc":"2.0","id":1,"result":"bye"}"#),
        ),
    ];
    for (message, expected) in rows {
        let answer =
            router.handle(message).await.map(|answer| String::from_utf8(answer).expect("text"));
        assert_eq!(answer.as_deref(), expected, "{message}");
    }
    let oversize = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "x".repeat(2000));
    let profile = duet_rpc::Profile::agent().with(|it| it.limits.message_bytes = 1000);
    let answer = router.handle_with(&profile, oversize).await.expect("an answer");
    assert!(String::from_utf8_lossy(&answer).contains("oversize"));
}
