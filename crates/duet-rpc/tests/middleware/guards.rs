//! Guards: functions that refuse messages before their handlers run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use duet_rpc::{Arrival, Failure, Router, blocking};
use serde_json::json;

use super::{answers, outcome, request};

fn refuse(_: &Arrival<'_>) -> Result<(), Failure> {
    Err(Failure::new(-32050, "Refused"))
}

fn panics(_: &Arrival<'_>) -> Result<(), Failure> {
    panic!("in the guard")
}

/// An error type of the application.
struct Closed;

impl From<Closed> for Failure {
    fn from(_: Closed) -> Self {
        Failure::new(-32051, "Closed")
    }
}

#[tokio::test]
async fn p7_guard_refuses_and_a_panicking_guard_answers_with_an_internal_error() {
    let called = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&called);
    let open = move || count.fetch_add(1, Ordering::Relaxed);
    let rows: [(&str, Router, i64); 7] = [
        ("before", Router::new().guard(refuse).method("open", open.clone()), -32050),
        ("after", Router::new().method("open", open.clone()).guard(refuse), -32050),
        ("blocking", Router::new().method("open", blocking(open.clone())).guard(refuse), -32050),
        ("panics", Router::new().method("open", open.clone()).guard(panics), -32603),
        ("fallback", Router::new().fallback(open.clone()).guard(refuse), -32050),
        ("own error", Router::new().method("open", open.clone()).guard(|_| Err(Closed)), -32051),
        (
            "question mark",
            Router::new().method("open", open.clone()).guard(|_| -> Result<(), Failure> {
                Err(Closed)?;
                Ok(())
            }),
            -32051,
        ),
    ];
    for (row, router, code) in rows {
        let got = answers(router, &[&request(1, "open")], 1).await;
        assert_eq!(*outcome(&got[0]), json!(code), "{row}");
    }
    assert_eq!(called.load(Ordering::Relaxed), 0, "no handler ran");
}

#[tokio::test]
async fn p7_guards_of_outer_routers_apply_to_merged_and_nested_ones_and_not_the_other_way() {
    let guarded = || Router::new().method("in", || 1).guard(refuse);
    let open = || Router::new().method("open", || 2);
    let rows: [(&str, Router, &str, i64); 7] = [
        ("merged", open().merge(guarded()), "in", -32050),
        ("merged", open().merge(guarded()), "open", 2),
        ("merging", guarded().merge(open()), "open", -32050),
        ("nested", open().nest("a/", guarded()), "a/in", -32050),
        ("nested", open().nest("a/", guarded()), "open", 2),
        ("nesting", open().nest("a/", open()).guard(refuse), "a/open", -32050),
        ("unknown", guarded(), "unknown", -32050),
    ];
    for (row, router, method, expected) in rows {
        let got = answers(router, &[&request(1, method)], 1).await;
        assert_eq!(*outcome(&got[0]), json!(expected), "{row} {method}");
    }
}

/// A guard can keep a login in the extensions of a connection.
#[tokio::test]
async fn p7_a_guard_sees_method_params_id_and_the_values_of_its_connection() {
    #[derive(Default)]
    struct Login(AtomicBool);

    let router =
        Router::new().method("secret", || "gold").method("login", || "hello").guard(|it| {
            let login = it.peer().extension::<Login>();
            let is_login = it.method() == "login" && it.params().as_raw() == Some(r#"["sesame"]"#);
            match is_login || login.0.load(Ordering::Relaxed) {
                true => login.0.store(true, Ordering::Relaxed),
                false => {
                    let id = it.id().map(|id| id.to_string());
                    return Err(
                        Failure::new(-32001, "Not logged in").with_data((it.is_request(), id))
                    );
                }
            }
            Ok(())
        });
    let login = r#"{"jsonrpc":"2.0","id":2,"method":"login","params":["sesame"]}"#;
    let got = answers(router, &[&request(1, "secret"), login, &request(3, "secret")], 3).await;
    assert_eq!(got[0]["error"]["data"], json!([true, "1"]));
    assert_eq!(got[1]["result"], "hello");
    assert_eq!(got[2]["result"], "gold");
}

#[tokio::test]
async fn m6_a_batch_passes_guards_and_wrappers_entry_by_entry() {
    let passed = Arc::new(AtomicUsize::new(0));
    let wrapped = Arc::clone(&passed);
    let router = Router::new()
        .method("a", || "a")
        .method("b", async || {
            tokio::task::yield_now().await;
            "b"
        })
        .guard(|it| match it.method() {
            "a" => Err(Failure::new(-32050, "Refused")),
            _ => Ok(()),
        })
        .wrap(move |request, next| {
            wrapped.fetch_add(1, Ordering::Relaxed);
            async move { next.run(request).await }
        });
    let batch = format!(
        r#"[{},{},{{"jsonrpc":"2.0","method":"b"}},{}]"#,
        request(1, "a"),
        request(2, "b"),
        request(3, "b")
    );
    let got = answers(router, &[&batch], 1).await;
    let entries = got[0].as_array().expect("the batch has one answer");
    assert_eq!(entries.len(), 3);
    for entry in entries {
        let expected = if entry["id"] == 1 { json!(-32050) } else { json!("b") };
        assert_eq!(*outcome(entry), expected, "{entry}");
    }
    assert_eq!(passed.load(Ordering::Relaxed), 3, "the notification passed too");
}
