//! Rules of documents: rows of a service and the place in its document.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use duet_rpc::openrpc::{DescribeErrors, Document, ErrorInfo, HasSchema};
use duet_rpc::{Failure, Router, RpcError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::connect;

/// Checks values at JSON pointers. `Null` means that there is nothing.
fn check(document: &Document, rows: &[(&str, Value)]) {
    let document = document.to_value();
    for (pointer, expect) in rows {
        let found = document.pointer(pointer).unwrap_or(&Value::Null);
        assert_eq!(found, expect, "{pointer} of {document:#}");
    }
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Tree {
    leaf: Option<String>,
    children: Vec<Tree>,
    by_name: BTreeMap<String, Box<Tree>>,
}

/// Two types that contain each other.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Question {
    answers: Vec<Answer>,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
enum Answer {
    Text(String),
    Counter(Box<Question>),
}

/// Types that lead back to themselves.
#[duet_rpc::service(openrpc)]
trait Recursive {
    async fn grow(&self, #[rpc(whole)] tree: Tree) -> Tree;
    async fn ask(&self, question: Question) -> Option<Answer>;
}

#[test]
fn d1_recursive_types_refer_to_themselves() {
    let tree = json!({"$ref": "#/components/schemas/Tree"});
    check(
        &RecursiveClient::openrpc(),
        &[
            ("/methods/0/x-params", tree.clone()),
            ("/methods/0/result/schema", tree.clone()),
            ("/methods/0/params/0/schema/items", tree.clone()),
            ("/components/schemas/Tree/properties/children/items", tree.clone()),
            ("/components/schemas/Tree/properties/by_name/additionalProperties", tree),
            ("/methods/1/params/0/schema/$ref", json!("#/components/schemas/Question")),
            ("/components/schemas/TreeOutput", Value::Null),
            (
                "/components/schemas/Question/properties/answers/items/$ref",
                json!("#/components/schemas/Answer"),
            ),
        ],
    );
}

struct Clock;

/// Tells the time.
#[duet_rpc::service(openrpc)]
impl Clock {
    /// Only `serde` reads this param, so its default cannot be written.
    pub fn now(&self, #[rpc(default)] zone: Zone) -> &'static str {
        zone.name
    }
}

#[derive(Default, Deserialize, JsonSchema)]
struct Zone {
    #[serde(skip)]
    name: &'static str,
}

struct Carton<T>(T);

#[duet_rpc::service(openrpc)]
impl<T: JsonSchema + Clone + Serialize + Send + Sync + 'static> Carton<T> {
    pub fn first(&self) -> T {
        self.0.clone()
    }
}

#[test]
fn d1_impl_blocks_have_documents_too() {
    check(
        &Clock::openrpc(),
        &[
            ("/info/title", json!("Clock")),
            ("/info/version", json!(env!("CARGO_PKG_VERSION"))),
            ("/info/description", json!("Tells the time.")),
            ("/openrpc", json!("1.3.2")),
            ("/methods/0/result/schema", json!({"type": "string"})),
            ("/methods/0/params/0/required", json!(false)),
            ("/methods/0/params/0/schema", json!({"$ref": "#/components/schemas/Zone"})),
        ],
    );
    check(&Carton::<bool>::openrpc(), &[("/methods/0/result/schema/type", json!("boolean"))]);
    check(&Carton::<String>::openrpc(), &[("/methods/0/result/schema/type", json!("string"))]);
    let answers = [Clock.now(Zone { name: "UTC" }), Carton("one").first()];
    assert_eq!(answers, ["UTC", "one"]);
}

#[duet_rpc::service(openrpc, positional)]
trait Params {
    async fn first(&self, from: Option<u8>, to: u8, step: Option<u8>);
    async fn object(&self, #[rpc(whole)] all: BTreeMap<String, u8>);
    async fn choice(&self, #[rpc(whole)] answer: Answer);
    async fn infinite(&self, #[rpc(default = f64::INFINITY)] limit: f64);
    #[cfg(any())]
    async fn absent(&self);
}

#[test]
fn d2_params_are_described_as_callers_may_send_them() {
    let nullable =
        json!({"type": ["integer", "null"], "format": "uint8", "minimum": 0, "maximum": 255});
    check(
        &ParamsClient::openrpc(),
        &[
            ("/methods/0/paramStructure", json!("by-position")),
            // By position it cannot be left out, only be `null`.
            ("/methods/0/params/0", json!({"name": "from", "required": true, "schema": nullable})),
            ("/methods/0/params/2/required", json!(false)),
            ("/methods/1/params", json!([])),
            ("/methods/1/x-params/type", json!("object")),
            ("/methods/2/params", json!([])),
            ("/methods/2/x-params/$ref", json!("#/components/schemas/Answer")),
            // JSON has no infinity: `null` is what serde writes.
            ("/methods/3/params/0/schema/default", Value::Null),
            ("/methods/4", Value::Null),
        ],
    );
}

/// The schema of the data must be that of the values on the wire.
#[derive(Debug, RpcError)]
enum AllShapes {
    #[rpc(code = 1)]
    NoData,
    #[rpc(code = 2)]
    One(bool),
    #[rpc(code = 3)]
    Two(bool, String),
    #[rpc(code = 4)]
    Named { r#type: bool },
    #[rpc(transparent)]
    Same(Twin),
    #[rpc(internal)]
    Hidden,
}

#[derive(Debug, RpcError)]
#[rpc(code = 1, message = "Not the first with this code")]
struct Twin;

struct Handmade;

impl From<Handmade> for Failure {
    fn from(_: Handmade) -> Self {
        Failure::new(7, "Handmade")
    }
}

impl<G> DescribeErrors<G> for Handmade
where
    u8: HasSchema<G>,
{
    fn errors(generator: &mut G) -> Vec<ErrorInfo> {
        let mut error = ErrorInfo::new(7, "Handmade");
        error.data = Some(u8::schema(generator));
        vec![error]
    }
}

mod alias {
    pub(super) type Result<T> = std::result::Result<T, super::AllShapes>;
}

#[duet_rpc::service(openrpc)]
trait Failing {
    async fn all(&self) -> Result<(), AllShapes>;
    async fn alias(&self) -> alias::Result<()>;
    async fn handmade(&self) -> Result<(), Handmade>;
    async fn unknown(&self) -> Result<(), Failure>;
    async fn io(&self) -> Result<(), std::io::Error>;
    #[rpc(notification)]
    async fn note(&self) -> Result<(), AllShapes>;
}

#[test]
fn d3_errors_have_codes_messages_names_and_data() {
    let errors = json!([
        {"code": 1, "message": "No data"},
        {"code": 2, "message": "One"},
        {"code": 3, "message": "Two"},
        {"code": 4, "message": "Named"},
    ]);
    let boolean = json!({"type": "boolean"});
    let object = json!({"type": "object", "properties": {"type": boolean}, "required": ["type"]});
    check(
        &FailingClient::openrpc(),
        &[
            ("/methods/0/errors", errors.clone()),
            ("/methods/0/x-errors/1", json!({"name": "NoData"})),
            ("/methods/0/x-errors/2", json!({"name": "One", "data": boolean})),
            ("/methods/0/x-errors/3/data/items/1/type", json!("string")),
            ("/methods/0/x-errors/4", json!({"name": "Named", "data": object})),
            ("/methods/1/errors", errors),
            ("/methods/2/errors", json!([{"code": 7, "message": "Handmade"}])),
            ("/methods/2/x-errors/7/data/type", json!("integer")),
            ("/methods/3/errors", Value::Null),
            ("/methods/4/errors", Value::Null),
            ("/methods/5/errors", Value::Null),
            ("/methods/5/result", Value::Null),
        ],
    );
    assert_eq!(Failure::from(Handmade).object().code().0, 7);
}

#[tokio::test]
async fn d3_the_data_of_an_error_has_the_described_form() {
    let rows = [
        (AllShapes::NoData, Value::Null),
        (AllShapes::One(true), json!(true)),
        (AllShapes::Two(true, "a".to_owned()), json!([true, "a"])),
        (AllShapes::Named { r#type: true }, json!({"type": true})),
        (AllShapes::Same(Twin), Value::Null),
        (AllShapes::Hidden, Value::Null),
    ];
    for (error, data) in rows {
        let error = Mutex::new(Some(error));
        let fail = move || error.lock().expect("no panic").take().map_or(Ok(()), Err);
        let router = Router::new().method("fail", fail);
        let answer = router.handle(r#"{"jsonrpc":"2.0","id":1,"method":"fail"}"#).await;
        let answer: Value = serde_json::from_slice(&answer.expect("an answer")).expect("JSON");
        assert!(answer["error"]["code"].is_i64(), "{answer}");
        assert_eq!(answer["error"].get("data").unwrap_or(&Value::Null), &data, "{answer}");
    }
}

/// A type that serde reads in more forms than it writes, inside of two types that are the same in both directions.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Lenient {
    #[serde(default)]
    size: u8,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Around {
    lenient: Lenient,
}

/// Only the server sends it.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Sent {
    around: Around,
}

/// A name that needs escapes in a reference.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "odd ~/name")]
struct Odd {
    around: Around,
}

#[duet_rpc::service(openrpc, callbacks = Directions)]
trait Directions {
    async fn swap(&self, around: Around, odd: Odd) -> Sent;
    async fn odd(&self) -> Odd;
}

#[test]
fn d4_schemas_follow_the_direction_of_the_value() {
    let reference = |name: &str| json!(format!("#/components/schemas/{name}"));
    check(
        &DirectionsClient::openrpc(),
        &[
            ("/components/schemas/Lenient/required", Value::Null),
            ("/components/schemas/LenientOutput/required", json!(["size"])),
            (
                "/components/schemas/AroundOutput/properties/lenient/$ref",
                reference("LenientOutput"),
            ),
            ("/methods/0/params/0/schema/$ref", reference("Around")),
            ("/methods/0/params/1/schema/$ref", reference("odd%20~0~1name")),
            ("/methods/0/result/schema/$ref", reference("SentOutput")),
            ("/methods/1/result/schema/$ref", reference("odd%20~0~1nameOutput")),
            (
                "/components/schemas/odd ~0~1nameOutput/properties/around/$ref",
                reference("AroundOutput"),
            ),
            // The server calls, and the client answers.
            ("/x-client-methods/0/params/0/schema/$ref", reference("AroundOutput")),
            ("/x-client-methods/0/result/schema/$ref", reference("Sent")),
            ("/x-client-methods/2", Value::Null),
        ],
    );
}

#[tokio::test]
async fn d5_a_router_serves_the_document_only_if_asked_and_makes_it_once() {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&made);
    let router = Clock.into_router();
    assert_eq!(router.methods().count(), 1);
    let router = router.discover(move || {
        counter.fetch_add(1, Ordering::SeqCst);
        let document = Clock::openrpc().title("Tools").version("9.1").description("All.");
        let document = document.nest("math/", RecursiveClient::openrpc()).merge(Clock::openrpc());
        document.edit(|it| it["servers"] = json!([{"url": "ws://localhost:1"}]))
    });
    assert_eq!(made.load(Ordering::SeqCst), 0, "it is not made before a client asks");
    let (_server, client) = connect(router, Router::new());
    let document: Value = client.call("rpc.discover", ()).await.expect("the document");
    let again: Value = client.call("rpc.discover", ()).await.expect("the document");
    assert_eq!((made.load(Ordering::SeqCst), &again), (1, &document));
    let names: Vec<_> = document["methods"].as_array().expect("an array").iter().collect();
    let names: Vec<_> = names.iter().map(|method| &method["name"]).collect();
    assert_eq!(names, ["now", "math/grow", "math/ask"]);
    let info = json!({"title": "Tools", "version": "9.1", "description": "All."});
    assert_eq!(
        (&document["info"], &document["servers"][0]["url"]),
        (&info, &json!("ws://localhost:1"))
    );
}

#[test]
fn d5_a_document_prints_as_json() {
    let document = Clock::openrpc();
    let compact: Value = serde_json::from_str(&document.to_string()).expect("JSON");
    let wide: Value = serde_json::from_str(&format!("{document:#}")).expect("JSON");
    assert!(format!("{document:#}").lines().count() > 10);
    assert_eq!((&compact, &compact), (&wide, &document.to_value()));
    assert_eq!(serde_json::to_value(&document).expect("JSON"), wide);
}
