mod impl_trait_result {
    #[duet_rpc::service]
    trait Math {
        async fn list(&self) -> impl Iterator<Item = u8>;
    }
}

mod notification_with_a_result {
    #[duet_rpc::service]
    trait Math {
        #[rpc(notification)]
        async fn log(&self, line: String) -> bool;
        #[rpc(notification)]
        async fn warn(&self, line: String) -> Result<u8, duet_rpc::Failure>;
    }
}

mod reference_result {
    #[duet_rpc::service]
    trait Math {
        async fn name(&self) -> &str;
        async fn checked(&self) -> Result<&'static str, duet_rpc::Failure>;
        async fn first(&self) -> Option<&str>;
    }
}

mod result_without_types {
    #[duet_rpc::service]
    trait Math {
        async fn add(&self, a: i64) -> std::fmt::Result;
    }
}

fn main() {}
