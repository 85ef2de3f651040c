//! Params of generated methods: accepted forms, sent forms, and errors.

use duet_rpc::proto::message::{Id, write_error};
use duet_rpc::{Error, Failure, Router};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::connect;

#[derive(Debug, Deserialize, Serialize)]
struct Point {
    x: i64,
    y: i64,
}

#[duet_rpc::service]
trait Shapes {
    async fn none(&self) -> Value;
    async fn one(&self, list: Vec<i64>) -> Value;
    async fn mixed(&self, a: i64, b: Option<i64>, #[rpc(default)] c: String) -> Value;
    async fn expressions(
        &self,
        #[rpc(default = 6 * 7)] a: i64,
        #[rpc(default = vec![1])] b: Vec<u8>,
    ) -> Value;
    /// The default is not `None`, so the client must write `None`.
    async fn option(&self, #[rpc(default = Some(9))] a: Option<i64>) -> Value;
    async fn whole(&self, #[rpc(whole)] point: Point) -> Value;
    async fn raw(&self, #[rpc(whole)] raw: Box<RawValue>) -> Value;
    async fn renamed(
        &self,
        #[rpc(name = "textDocument")] text_document: String,
        r#type: u8,
    ) -> Value;
    #[rpc(positional)]
    async fn places(&self, a: Option<i64>, b: i64, c: Option<i64>, d: Option<i64>) -> Value;
    #[rpc(positional)]
    async fn defaults(&self, a: i64, #[rpc(default = 4)] b: i64) -> Value;
}

struct Echo;

impl Shapes for Echo {
    async fn none(&self) -> Value {
        json!([])
    }
    async fn one(&self, list: Vec<i64>) -> Value {
        json!([list])
    }
    async fn mixed(&self, a: i64, b: Option<i64>, c: String) -> Value {
        json!([a, b, c])
    }
    async fn expressions(&self, a: i64, b: Vec<u8>) -> Value {
        json!([a, b])
    }
    async fn option(&self, a: Option<i64>) -> Value {
        json!([a])
    }
    async fn whole(&self, point: Point) -> Value {
        json!([point.x, point.y])
    }
    async fn raw(&self, raw: Box<RawValue>) -> Value {
        json!([raw.get()])
    }
    async fn renamed(&self, text_document: String, r#type: u8) -> Value {
        json!([text_document, r#type])
    }
    async fn places(&self, a: Option<i64>, b: i64, c: Option<i64>, d: Option<i64>) -> Value {
        json!([a, b, c, d])
    }
    async fn defaults(&self, a: i64, b: i64) -> Value {
        json!([a, b])
    }
}

#[tokio::test]
async fn p7_a_generated_method_takes_params_by_name_and_by_position() {
    let (_server, peer) = connect(Echo.into_router(), Router::new());
    for (method, params, expect) in [
        ("none", json!(null), json!([])),
        ("none", json!({"more": 1}), json!([])),
        ("one", json!({"list": [1, 2]}), json!([[1, 2]])),
        ("one", json!([[1, 2]]), json!([[1, 2]])),
        ("mixed", json!({"a": 1}), json!([1, null, ""])),
        ("mixed", json!({"c": "c", "b": 2, "a": 1, "unknown": 4}), json!([1, 2, "c"])),
        ("mixed", json!({"a": 1, "b": null}), json!([1, null, ""])),
        ("mixed", json!([1]), json!([1, null, ""])),
        ("mixed", json!([1, null]), json!([1, null, ""])),
        ("mixed", json!([1, 2, "c"]), json!([1, 2, "c"])),
        ("expressions", json!(null), json!([42, [1]])),
        ("expressions", json!([]), json!([42, [1]])),
        ("expressions", json!({"b": []}), json!([42, []])),
        ("option", json!(null), json!([9])),
        ("option", json!([null]), json!([null])),
        ("whole", json!({"x": 1, "y": 2}), json!([1, 2])),
        ("whole", json!([1, 2]), json!([1, 2])),
        ("raw", json!([1, {"a": 2}]), json!(["[1,{\"a\":2}]"])),
        ("renamed", json!({"textDocument": "t", "type": 1}), json!(["t", 1])),
        ("places", json!([1, 2]), json!([1, 2, null, null])),
        ("places", json!({"b": 2}), json!([null, 2, null, null])),
        ("defaults", json!([1]), json!([1, 4])),
    ] {
        let answer: Result<Value, Error> = peer.call(method, &params).await;
        assert_eq!(answer.expect(method), expect, "{method} {params}");
    }
}

#[tokio::test]
async fn e4_wrong_params_of_a_generated_method_are_named() {
    let (_server, peer) = connect(Echo.into_router(), Router::new());
    for (method, params, expect) in [
        ("one", json!({"list": [1, "two"]}), "list[1]: integer, not string"),
        ("one", json!(null), "list: array, not missing"),
        ("mixed", json!({"a": "1"}), "a: integer, not string"),
        ("mixed", json!({}), "a: integer, not missing"),
        ("mixed", json!(["1"]), "a: integer, not string"),
        ("mixed", json!([1, "2"]), "b: integer, not string"),
        ("mixed", json!([1, 2, 3]), "c: string, not number"),
        ("renamed", json!(["t", "1"]), "type: integer, not string"),
        ("renamed", json!([1, 1]), "textDocument: string, not number"),
        ("whole", json!({"x": 1, "y": "2"}), "y: integer, not string"),
    ] {
        let error = peer.call::<Value>(method, &params).await.expect_err(method);
        let remote = error.remote().expect("an answer");
        assert_eq!(remote.code, -32602, "{method} {params}");
        let data: Value =
            serde_json::from_str(remote.data.as_ref().expect("data").get()).expect("JSON");
        let word = |name| data[name].as_str().unwrap_or("nothing");
        let said = format!("{}: {}, not {}", word("param"), word("expected"), word("received"));
        assert_eq!(said, expect, "{method} {params}");
    }
}

/// A router whose methods return their raw params.
fn mirror() -> Router {
    ShapesClient::METHODS.iter().fold(Router::new(), |router, method| {
        let mirror = async |raw: Option<Box<RawValue>>| Ok::<_, Failure>(raw);
        router.method(method.name, mirror)
    })
}

#[tokio::test]
async fn p7_a_typed_client_sends_names_leaves_out_none_and_obeys_positional() {
    let (_server, peer) = connect(mirror(), Router::new());
    let shapes = ShapesClient::new(peer);
    let raw = RawValue::from_string("[7]".to_owned()).expect("JSON");
    for (call, expect) in [
        (shapes.none(), json!(null)),
        (shapes.one(vec![1]), json!({"list": [1]})),
        (shapes.mixed(1, None, "c".to_owned()), json!({"a": 1, "c": "c"})),
        (shapes.mixed(1, Some(2), String::new()), json!({"a": 1, "b": 2, "c": ""})),
        (shapes.expressions(1, vec![]), json!({"a": 1, "b": []})),
        (shapes.option(None), json!({"a": null})),
        (shapes.whole(Point { x: 1, y: 2 }), json!({"x": 1, "y": 2})),
        (shapes.raw(raw), json!([7])),
        (shapes.renamed("t".to_owned(), 1), json!({"textDocument": "t", "type": 1})),
        (shapes.places(None, 2, None, None), json!([null, 2])),
        (shapes.places(Some(1), 2, None, Some(4)), json!([1, 2, null, 4])),
        (shapes.places(None, 2, Some(3), None), json!([null, 2, 3])),
        (shapes.defaults(1, 2), json!([1, 2])),
    ] {
        assert_eq!(call.await.expect("the call is answered"), expect);
    }
}

/// A handwritten struct gets the same error as a generated method.
#[test]
fn e4_positional_params_are_named_as_in_a_struct() {
    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "the field is never read")]
    struct Mixed {
        a: i64,
        #[serde(default)]
        b: Option<i64>,
    }
    let params = duet_rpc::proto::message::Params::Array("[1,\"2\"]");
    let error = duet_rpc::params::read::<Mixed>(&params).expect_err("b is a string");
    let mut out = Vec::new();
    write_error(&mut out, &Id::NULL, &error);
    assert!(String::from_utf8_lossy(&out).contains("\"param\":\"b\""));
}
