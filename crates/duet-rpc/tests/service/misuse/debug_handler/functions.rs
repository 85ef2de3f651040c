mod borrowed_params {
    #[duet_rpc::debug_handler]
    async fn add(line: &str, other: impl Into<String>) -> usize {
        line.len()
    }
}

mod generic {
    #[duet_rpc::debug_handler]
    async fn add<T: Send>(a: T) {}
}

mod on_a_method {
    struct Calculator;

    impl Calculator {
        #[duet_rpc::debug_handler]
        async fn add(&self, a: i64) -> i64 {
            a
        }
    }
}

mod on_a_struct {
    #[duet_rpc::debug_handler]
    struct Calculator;
}

mod two_params {
    #[duet_rpc::debug_handler]
    async fn add(a: i64, cx: duet_rpc::Context, b: i64) -> i64 {
        a + b
    }
}

fn main() {}
