struct Calculator;

#[duet_rpc::service]
impl Calculator {
    pub fn new() -> Self {
        Calculator
    }
    fn add(&self, a: i64, b: i64) -> i64 {
        a + b
    }
}

fn main() {
    let _ = Calculator::new().into_router();
}
