#[duet_rpc::service]
trait Math {
    extern "C" fn add(&self, a: i64) -> i64;
}

fn main() {}
