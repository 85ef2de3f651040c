//! Names on the wire: styles, prefixes and aliases.

use duet_rpc::{Failure, Router};
use serde_json::{Value, json};

use super::connect;

#[duet_rpc::service(rename_all = "camelCase", rename_params = "camelCase", prefix = "db/")]
trait Database {
    async fn get_value(&self, row_key: String) -> String;
    #[rpc(name = "$/cancel", notification)]
    fn cancel(&self);
    #[rpc(aliases("db/erase", "rm"), blocking)]
    fn remove(&self, row_key: String) -> bool;
    #[rpc(shutdown)]
    async fn exit(&self) -> Result<(), Failure> {
        Ok(())
    }
    #[rpc(skip)]
    fn helper(&self) -> u8;
    #[cfg(any())]
    async fn left_out(&self, of: NoSuchType) -> String;
    #[cfg(test)]
    #[rpc(name = "db/leftOut")]
    async fn kept(&self) -> u8 {
        1
    }
    async fn provided(&self, row_key: String) -> Result<String, Failure> {
        let value = self.get_value(row_key).await;
        if value.is_empty() {
            return Err(Failure::new(7, "Empty"));
        }
        Ok(value)
    }
}

struct Table;

impl Database for Table {
    async fn get_value(&self, row_key: String) -> String {
        row_key.repeat(usize::from(self.helper()))
    }
    fn cancel(&self) {}
    fn remove(&self, row_key: String) -> bool {
        row_key == "a"
    }
    fn helper(&self) -> u8 {
        2
    }
}

#[duet_rpc::service(rename_all = "kebab-case")]
trait Kebab {
    async fn get_value(&self) -> u8;
}

#[duet_rpc::service(rename_all = "PascalCase")]
trait Pascal {
    async fn get_value(&self) -> u8;
}

/// A service without methods.
#[duet_rpc::service]
trait Empty {}

impl Empty for Table {}

#[duet_rpc::service(rename_all = "snake_case")]
trait Snake {
    async fn get_value(&self) -> u8;
    async fn r#move(&self) -> u8;
}

#[test]
fn p7_names_follow_style_prefix_and_name() {
    let names = |methods: &[duet_rpc::service::MethodInfo]| {
        methods.iter().map(|method| method.name.to_owned()).collect::<Vec<_>>()
    };
    let expect = ["db/getValue", "$/cancel", "db/remove", "db/exit", "db/leftOut", "db/provided"];
    assert_eq!(names(DatabaseClient::METHODS), expect);
    assert_eq!(names(KebabClient::METHODS), ["get-value"]);
    assert_eq!(names(PascalClient::METHODS), ["GetValue"]);
    assert_eq!(names(SnakeClient::METHODS), ["get_value", "move"]);

    assert_eq!(Empty::into_router(Table).methods().count(), EmptyClient::METHODS.len());
    let router = Database::into_router(Table);
    let mut served: Vec<_> = router.methods().collect();
    served.sort_unstable();
    let expect = [
        "$/cancel",
        "db/erase",
        "db/exit",
        "db/getValue",
        "db/leftOut",
        "db/provided",
        "db/remove",
        "rm",
    ];
    assert_eq!(served, expect);
}

#[tokio::test]
async fn p7_aliases_provided_and_blocking_methods_are_served() {
    let (server, peer) = connect(Database::into_router(Table), Router::new());
    let database = DatabaseClient::new(&peer);
    assert_eq!(database.get_value("x".to_owned()).await.expect("the call is answered"), "xx");
    assert_eq!(database.provided("x".to_owned()).await.expect("the call is answered"), "xx");
    let error = database.provided(String::new()).await.expect_err("the name is empty");
    assert_eq!(error.remote().map(|remote| remote.code), Some(7));
    database.cancel().await.expect("the notification is sent");
    for name in ["db/remove", "db/erase", "rm"] {
        let removed: Value = peer.call(name, json!({"rowKey": "a"})).await.expect(name);
        assert_eq!(removed, json!(true), "{name}");
    }
    database.exit().await.expect("the call is answered");
    let end = tokio::time::timeout(std::time::Duration::from_secs(20), server.closed()).await;
    end.expect("its arrival closes the connection");
}

/// The library under another path.
mod renamed {
    pub(crate) use duet_rpc as rpc;
}

#[duet_rpc::service(crate = "renamed::rpc")]
trait Elsewhere {
    async fn add(&self, a: i64, #[rpc(default = 2)] b: i64) -> Result<i64, ElsewhereError>;
}

#[derive(Debug, duet_rpc::RpcError)]
#[rpc(crate = "renamed::rpc")]
enum ElsewhereError {
    #[rpc(code = 1)]
    Large { at: i64 },
}

#[duet_rpc::debug_handler(crate = "renamed::rpc")]
async fn checked((a, b): (i64, i64)) -> Result<i64, ElsewhereError> {
    a.checked_add(b).ok_or(ElsewhereError::Large { at: a })
}

struct Adder;

impl Elsewhere for Adder {
    async fn add(&self, a: i64, b: i64) -> Result<i64, ElsewhereError> {
        checked((a, b)).await
    }
}

#[tokio::test]
async fn p7_the_library_may_have_another_path() {
    let (_server, peer) = connect(Adder.into_router(), Router::new());
    let adder = ElsewhereClient::new(peer);
    assert_eq!(adder.add(1, 2).await.expect("the call is answered"), 3);
    let error = adder.add(i64::MAX, 1).await.expect_err("the sum is too large");
    assert!(matches!(error.as_remote(), Some(ElsewhereError::Large { at: i64::MAX })));
}
