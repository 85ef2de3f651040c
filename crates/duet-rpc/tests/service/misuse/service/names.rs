mod duplicate_alias {
    #[duet_rpc::service]
    trait Math {
        async fn add(&self) -> i64;
        #[rpc(aliases("plus", "add"))]
        async fn sum(&self) -> i64;
    }
}

mod duplicate_name_after_renaming {
    #[duet_rpc::service(rename_all = "camelCase")]
    trait Math {
        async fn get_value(&self) -> i64;
        async fn fetch(&self) -> i64;
        #[rpc(name = "getValue")]
        async fn other(&self) -> i64;
    }
}

mod duplicate_param {
    #[duet_rpc::service]
    trait Math {
        async fn add(&self, a: i64, #[rpc(name = "a")] b: i64) -> i64;
    }
}

mod empty_name {
    #[duet_rpc::service]
    trait Math {
        #[rpc(name = "")]
        async fn add(&self, #[rpc(name = "")] a: i64) -> i64;
    }
}

mod names_of_generated_functions {
    #[duet_rpc::service]
    trait Math {
        async fn new(&self) -> i64;
        async fn into_router(&self) -> i64;
    }
}

mod param_named_params {
    #[duet_rpc::service]
    trait Editor {
        async fn hover(&self, params: (i64, i64)) -> String;
        async fn whole(&self, #[rpc(whole)] params: (i64, i64)) -> String;
        async fn named(&self, method: String, #[rpc(name = "params")] params: Vec<i64>) -> String;
    }
}

mod reserved_name {
    #[duet_rpc::service]
    trait Math {
        #[rpc(name = "rpc.discover")]
        async fn discover(&self) -> i64;
        #[rpc(aliases("rpc.add"))]
        async fn add(&self) -> i64;
    }
}

mod reserved_prefix {
    #[duet_rpc::service(prefix = "rpc.")]
    trait Math {
        async fn discover(&self) -> i64;
    }
}

mod unnamed_param {
    #[duet_rpc::service]
    trait Math {
        async fn add(&self, _: i64) -> i64;
    }
}

fn main() {}
