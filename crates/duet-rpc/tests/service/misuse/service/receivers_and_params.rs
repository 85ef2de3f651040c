mod mut_self {
    #[duet_rpc::service]
    trait Math {
        async fn add(&mut self, a: i64) -> i64;
    }
}

mod no_self {
    #[duet_rpc::service]
    trait Math {
        async fn add(a: i64) -> i64;
    }
}

mod self_by_value {
    #[duet_rpc::service]
    trait Math {
        async fn add(self, a: i64) -> i64;
    }
}

mod self_in_an_arc {
    #[duet_rpc::service]
    trait Math {
        async fn add(self: std::sync::Arc<Self>, a: i64) -> i64;
    }
}

mod self_type_param {
    #[duet_rpc::service]
    trait Math {
        async fn add(&self, others: Box<Self>) -> i64;
    }
}

mod reference_param {
    #[duet_rpc::service]
    trait Math {
        async fn add(&self, line: &str) -> i64;
        async fn sum(&self, lines: Option<Vec<&str>>) -> i64;
    }
}

mod impl_trait_param {
    #[duet_rpc::service]
    trait Math {
        async fn add(&self, a: impl Into<i64>) -> i64;
    }
}

mod option_of_an_option {
    #[duet_rpc::service]
    trait Store {
        async fn set(&self, key: String, value: Option<Option<i64>>);
    }
}

mod cfg_on_a_param {
    #[duet_rpc::service]
    trait Math {
        async fn add(&self, #[cfg(test)] a: i64) -> i64;
    }
}

fn main() {}
