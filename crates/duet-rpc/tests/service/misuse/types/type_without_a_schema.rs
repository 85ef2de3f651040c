use serde_json::Value;

trait Schema {}
impl Schema for i64 {}

fn schema_of<T: Schema>() -> Value {
    Value::Null
}

#[duet_rpc::service(schema = schema_of)]
trait Math {
    async fn add(&self, a: i64, b: u64) -> String;
}

fn main() {}
