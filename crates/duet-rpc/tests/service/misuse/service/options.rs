mod blocking_and_quick {
    #[duet_rpc::service]
    trait Math {
        #[rpc(blocking, quick)]
        async fn add(&self, a: i64) -> i64;
    }
}

mod callbacks_not_a_trait {
    #[duet_rpc::service(callbacks = "EditorUi")]
    trait Math {
        async fn add(&self, a: i64) -> i64;
    }
}

mod context_with_a_default {
    #[duet_rpc::service]
    trait Math {
        async fn add(&self, #[rpc(default)] cx: duet_rpc::Context) -> i64;
    }
}

mod crate_not_a_path {
    #[duet_rpc::service(crate = "1 + 1")]
    trait Math {
        async fn add(&self, a: i64) -> i64;
    }
}

mod option_twice {
    #[duet_rpc::service]
    trait Math {
        #[rpc(quick)]
        #[rpc(quick, name = "plus")]
        async fn add(&self, a: i64) -> i64;
    }
}

mod schema_not_a_function {
    #[duet_rpc::service(schema = "schema_of")]
    trait Math {
        async fn add(&self, a: i64) -> i64;
    }

    #[duet_rpc::service(schema = schema_of::<i64>)]
    trait More {
        async fn add(&self, a: i64) -> i64;
    }
}

mod skip_and_name {
    #[duet_rpc::service]
    trait Math {
        #[rpc(skip, name = "plus")]
        fn add(&self, a: i64) -> i64;
    }
}

mod unknown_option_of_a_method {
    #[duet_rpc::service]
    trait Math {
        #[rpc(notificaton)]
        async fn log(&self, line: String);
    }
}

mod unknown_option_of_a_param {
    #[duet_rpc::service]
    trait Math {
        async fn add(&self, #[rpc(optional)] a: i64) -> i64;
    }
}

mod unknown_option_of_a_trait {
    #[duet_rpc::service(rename = "camelCase")]
    trait Math {
        async fn add(&self, a: i64) -> i64;
    }
}

mod unknown_style {
    #[duet_rpc::service(rename_all = "SCREAMING")]
    trait Math {
        async fn add(&self, a: i64) -> i64;
    }
}

mod whole_beside_another_param {
    #[duet_rpc::service]
    trait Math {
        async fn add(&self, #[rpc(whole)] a: Vec<i64>, b: i64) -> i64;
    }
}

mod whole_with_a_default {
    #[duet_rpc::service]
    trait Math {
        async fn add(&self, #[rpc(whole, default)] a: Vec<i64>) -> i64;
    }
}

mod wrong_form_of_an_option {
    #[duet_rpc::service]
    trait Math {
        #[rpc(name = 5)]
        async fn add(&self, a: i64) -> i64;
        #[rpc(quick = true)]
        async fn sub(&self, a: i64) -> i64;
        #[rpc(aliases = "times")]
        async fn mul(&self, a: i64) -> i64;
        #[rpc(aliases())]
        async fn div(&self, a: i64) -> i64;
    }
}

mod default_before_a_required_positional {
    #[duet_rpc::service]
    trait Math {
        #[rpc(positional)]
        async fn add(&self, #[rpc(default = 1)] a: i64, b: i64) -> i64;
        // By name, the order does not matter.
        async fn named(&self, #[rpc(default = 1)] a: i64, b: i64) -> i64;
    }
}

fn main() {}
