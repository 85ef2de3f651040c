struct Calculator<T, const N: usize>([T; N]);

#[duet_rpc::service]
impl<T: Send + Sync + 'static, const N: usize> Calculator<T, N> {
    pub async fn change(&mut self, a: i64) -> i64 {
        a
    }
    #[rpc(name = "make")]
    fn make() -> i64 {
        1
    }
    pub async fn generic(&self, value: Vec<T>) {}
    pub async fn sized(&self, bytes: [u8; N]) {}
    #[rpc(positional)]
    pub async fn add(&self, a: i64) -> i64 {
        a
    }
    // The router serves neither of these.
    fn private(&mut self) {}
    pub fn constant() -> i64 {
        1
    }
}

fn main() {}
