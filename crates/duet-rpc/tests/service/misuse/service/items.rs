mod constant_and_type {
    #[duet_rpc::service]
    trait Math {
        const LIMIT: i64;
        type Number;
        async fn add(&self, a: i64) -> i64;
    }
}

mod extern_function {
    #[duet_rpc::service]
    trait Math {
        extern "C" fn add(&self, a: i64) -> i64;
    }
}

mod generic_method {
    #[duet_rpc::service]
    trait Math {
        async fn add<T: Send>(&self, a: T) -> i64;
    }
}

mod generic_trait {
    #[duet_rpc::service]
    trait Math<T: Send> {
        async fn add(&self, a: i64) -> i64;
    }
}

mod impl_block {
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
}

mod on_a_struct {
    #[duet_rpc::service]
    struct Calculator;
}

mod on_an_implementation {
    #[duet_rpc::service]
    trait Math {
        async fn add(&self, a: i64) -> i64;
    }

    struct Calculator;

    #[duet_rpc::service]
    impl Math for Calculator {
        async fn add(&self, a: i64) -> i64 {
            a
        }
    }
}

mod where_clause {
    #[duet_rpc::service]
    trait Math {
        async fn add(&self, a: i64) -> i64
        where
            Self: Clone;
    }
}

fn main() {}
