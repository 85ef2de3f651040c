//! `METHODS`: the description of a service.

use duet_rpc::service::{MethodInfo, ParamsForm};
use duet_rpc::{Context, Failure};
use serde_json::{Value, json};

/// A library.
#[duet_rpc::service]
trait Library {
    /// Lends a book.
    ///
    /// The reader brings it back.
    #[rpc(idempotent, since = "1.2", aliases("borrow"))]
    async fn lend(
        &self,
        /// Its number.
        book: u64,
        /// In days.
        #[rpc(default = 30)]
        days: u32,
        note: Option<String>,
    ) -> bool;

    #[rpc(notification, deprecated = "use `lend`", positional)]
    async fn give(&self, book: u64);

    async fn search(&self, #[rpc(whole)] query: Value) -> Vec<u64>;
}

#[test]
fn p7_a_service_describes_its_methods() {
    let [lend, give, search] = LibraryClient::METHODS else { panic!("three methods") };
    assert_eq!(lend.name, "lend");
    assert_eq!(lend.aliases, ["borrow"]);
    assert_eq!(lend.docs, "Lends a book.\n\nThe reader brings it back.");
    assert_eq!(lend.summary(), "Lends a book.");
    assert_eq!((lend.is_idempotent, lend.is_notification, lend.since), (true, false, Some("1.2")));
    let params: Vec<_> =
        lend.params.iter().map(|param| (param.name, param.docs, param.is_required)).collect();
    let expect = [("book", "Its number.", true), ("days", "In days.", false), ("note", "", false)];
    assert_eq!(params, expect);
    assert_eq!((give.is_notification, give.deprecated), (true, Some("use `lend`")));
    let forms = [lend, give, search].map(|method: &MethodInfo| method.params_form);
    assert_eq!(forms, [ParamsForm::Named, ParamsForm::Positional, ParamsForm::Whole]);
    assert_eq!(lend.to_string(), "lend(book, days?, note?)");
}

/// A handwritten schema, in place of a crate that derives it.
trait Schema {
    fn schema() -> Value;
}

/// Implements `Schema` for types, with the names of their JSON types.
macro_rules! schemas {
    ($($ty:ty: $name:literal),*) => {
        $(impl Schema for $ty {
            fn schema() -> Value {
                json!({"type": $name})
            }
        })*
    };
}

schemas!((): "null", bool: "boolean", u64: "integer", String: "string", &str: "string");

impl<T: Schema> Schema for Option<T> {
    fn schema() -> Value {
        json!({"anyOf": [T::schema(), {"type": "null"}]})
    }
}

mod deep {
    pub(super) fn schema_of<T: super::Schema>() -> serde_json::Value {
        T::schema()
    }
}

#[duet_rpc::service(schema = deep::schema_of)]
trait Typed {
    async fn lend(&self, book: u64, note: Option<String>, cx: Context) -> Result<bool, Failure>;
    fn search(&self, #[rpc(whole)] query: String);
    #[rpc(notification)]
    async fn give(&self, #[rpc(default = 7)] book: u64);
}

struct Store<T>(T);

#[duet_rpc::service(schema = deep::schema_of)]
impl<T: Schema + Clone + serde::Serialize + Send + Sync + 'static> Store<T> {
    #[rpc(quick)]
    fn first(&self) -> T {
        self.0.clone()
    }
    #[rpc(quick)]
    fn title(&self) -> &'static str {
        "store"
    }
}

#[test]
fn p7_a_service_with_a_schema_function_describes_its_types() {
    let schema = |name: &str| json!({"type": name});
    let rows = [
        (
            &TypedClient::METHODS[0],
            vec![schema("integer"), json!({"anyOf": [schema("string"), schema("null")]})],
            Some(schema("boolean")),
        ),
        (&TypedClient::METHODS[1], vec![schema("string")], Some(schema("null"))),
        (&TypedClient::METHODS[2], vec![schema("integer")], None),
        (&Store::<u64>::METHODS[0], vec![], Some(schema("integer"))),
        (&Store::<bool>::METHODS[0], vec![], Some(schema("boolean"))),
        (&Store::<bool>::METHODS[1], vec![], Some(schema("string"))),
    ];
    for (method, params, result) in rows {
        let made = method.params.iter().filter_map(|param| param.schema.map(|schema| schema()));
        assert_eq!(made.collect::<Vec<_>>(), params, "{method}");
        assert_eq!(method.result_schema.map(|schema| schema()), result, "{method}");
    }
    assert_eq!(Store(1_u64).into_router().methods().count(), 2);
}

#[test]
fn p7_a_service_without_a_schema_function_has_no_schemas() {
    for method in LibraryClient::METHODS {
        assert!(method.result_schema.is_none(), "{method}");
        assert!(method.params.iter().all(|param| param.schema.is_none()), "{method}");
    }
}
