#[duet_rpc::service]
trait Math {
    #[rpc(skip, name = "plus")]
    fn add(&self, a: i64) -> i64;
}

fn main() {}
