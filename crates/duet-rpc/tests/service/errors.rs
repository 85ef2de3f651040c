//! `#[derive(RpcError)]`: errors on the wire, as text, and read back by the caller.

use std::io;

use duet_rpc::{Failure, Router, RpcError};
use serde_json::{Value, json};

use super::connect;

#[derive(Clone, Debug, PartialEq, RpcError)]
enum Inner {
    #[rpc(code = -32050)]
    ServerRange,
    #[rpc(code = 9)]
    SameCode(u8),
}

#[derive(Debug, RpcError)]
enum Outer {
    #[rpc(code = 1001, message = "Overflow")]
    Named { at: usize, r#type: Option<String> },
    #[rpc(code = 1002)]
    OneField(Vec<u8>),
    #[rpc(code = 1003)]
    TwoFields(u8, String),
    #[rpc(code = 1004)]
    NoFields,
    #[rpc(internal, from)]
    Disk(io::Error),
    #[rpc(internal)]
    Text(String),
    #[rpc(internal)]
    Bug,
    #[rpc(transparent, from)]
    Inner(Inner),
}

#[derive(Debug, PartialEq, RpcError)]
#[rpc(code = 5, message = "Locked")]
struct Locked {
    by: String,
}

#[derive(Debug, RpcError)]
#[rpc(no_display)]
enum Own {
    #[rpc(code = 1)]
    Shown,
}

impl std::fmt::Display for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("shown by hand")
    }
}

impl std::error::Error for Own {}

#[derive(Debug, RpcError)]
enum Never {}

fn every() -> Vec<(Outer, i64, &'static str, Value)> {
    let internal = (-32603, "Internal error", Value::Null);
    let named = Outer::Named { at: 3, r#type: Some("t".to_owned()) };
    vec![
        (named, 1001, "Overflow", json!({"at": 3, "type": "t"})),
        (Outer::OneField(vec![1]), 1002, "One field", json!([1])),
        (Outer::TwoFields(1, "b".to_owned()), 1003, "Two fields", json!([1, "b"])),
        (Outer::NoFields, 1004, "No fields", Value::Null),
        (io::Error::other("full").into(), internal.0, internal.1, internal.2.clone()),
        (Outer::Text("secret".to_owned()), internal.0, internal.1, internal.2.clone()),
        (Outer::Bug, internal.0, internal.1, internal.2),
        (Inner::ServerRange.into(), -32050, "Server range", Value::Null),
        (Outer::Inner(Inner::SameCode(4)), 9, "Same code", json!(4)),
    ]
}

#[duet_rpc::service]
trait Fails {
    async fn fail(&self, place: usize) -> Result<(), Outer>;
    fn lock(&self) -> Result<(), Locked>;
}

struct Failing;

impl Fails for Failing {
    async fn fail(&self, place: usize) -> Result<(), Outer> {
        Err(every().swap_remove(place).0)
    }
    fn lock(&self) -> Result<(), Locked> {
        Err(Locked { by: "me".to_owned() })
    }
}

#[tokio::test]
async fn e4_caller_reads_each_variant_back_from_the_wire() {
    let (_server, peer) = connect(Failing.into_router(), Router::new());
    let fails = FailsClient::new(peer);
    for (place, (variant, code, message, data)) in every().into_iter().enumerate() {
        let error = fails.fail(place).await.expect_err("the call fails");
        let remote = error.remote().expect("an answer");
        assert_eq!((remote.code, &*remote.message), (code, message));
        let received = remote.data.as_ref().map_or("null", |data| data.get());
        assert_eq!(serde_json::from_str::<Value>(received).expect("JSON"), data, "{variant:?}");
        let read = error.as_remote::<Outer>().map(|read| format!("{read:?}"));
        // An internal error has no content on the wire, so the caller cannot read the variant.
        let expect = (code != -32603).then(|| format!("{variant:?}"));
        assert_eq!(read, expect);
    }
    let error = fails.lock().await.expect_err("the call fails");
    assert_eq!(error.as_remote(), Some(Locked { by: "me".to_owned() }));
    assert!(error.as_remote::<Outer>().is_none(), "another type has no such code");
}

#[tokio::test]
async fn e4_data_that_does_not_fit_is_another_error() {
    let router = Router::new().method("fail", async |(data,): (Value,)| -> Result<(), Failure> {
        Err(Failure::new(1002, "One field").with_data(data))
    });
    let (_server, peer) = connect(router, Router::new());
    for (data, expect) in [(json!([1]), true), (json!(["a"]), false), (json!({}), false)] {
        let error = peer.call::<()>("fail", [&data]).await.expect_err("the call fails");
        assert_eq!(error.as_remote::<Outer>().is_some(), expect, "{data}");
    }
}

#[derive(Debug, PartialEq, RpcError)]
enum Shared {
    #[rpc(code = 9)]
    NoFields,
    #[rpc(transparent)]
    Inner(Inner),
}

#[tokio::test]
async fn e4_variant_with_matching_data_is_read_if_two_share_a_code() {
    let router = Router::new().method("fail", async |(data,): (Value,)| -> Result<(), Failure> {
        let failure = Failure::new(9, "Same code");
        Err(if data.is_null() { failure } else { failure.with_data(data) })
    });
    let (_server, peer) = connect(router, Router::new());
    let rows = [
        (Value::Null, Shared::NoFields),
        (json!(4), Shared::Inner(Inner::SameCode(4))),
        (json!("neither"), Shared::NoFields),
    ];
    for (data, expect) in rows {
        let error = peer.call::<()>("fail", [&data]).await.expect_err("the call fails");
        assert_eq!(error.as_remote(), Some(expect), "{data}");
    }
}

#[test]
fn e1_only_the_log_shows_the_cause_of_an_internal_error() {
    for (error, cause) in [
        (Outer::from(io::Error::other("full")), "full"),
        (Outer::Text("secret".to_owned()), "secret"),
        (Outer::Bug, "Outer::Bug"),
    ] {
        let failure = Failure::from(error);
        assert_eq!(failure.object().to_string(), "Internal error (-32603)");
        assert_eq!(failure.cause().map(ToString::to_string).as_deref(), Some(cause));
    }
}

#[test]
fn display_shows_the_message() {
    let shown: Vec<_> = every().iter().map(|(error, ..)| error.to_string()).collect();
    let expect = [
        "Overflow",
        "One field",
        "Two fields",
        "No fields",
        "Internal error: full",
        "Internal error: secret",
        "Internal error",
        "Server range",
        "Same code",
    ];
    assert_eq!(shown, expect);
    assert_eq!(Locked { by: String::new() }.to_string(), "Locked");
    assert_eq!(Own::Shown.to_string(), "shown by hand");
    fn is_error<E: std::error::Error + Into<Failure>>() {}
    is_error::<Never>();
    is_error::<Own>();
}
