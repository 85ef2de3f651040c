#[duet_rpc::service(schema = "schema_of")]
trait Math {
    async fn add(&self, a: i64) -> i64;
}

#[duet_rpc::service(schema = schema_of::<i64>)]
trait More {
    async fn add(&self, a: i64) -> i64;
}

fn main() {}
