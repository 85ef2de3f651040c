//! Names and forms of the option `openrpc`.

mod name_of_a_trait_method {
    #[duet_rpc::service(openrpc)]
    trait Plotter {
        async fn openrpc(&self) -> bool;
    }
}

mod name_of_an_impl_method {
    struct Plotter;

    #[duet_rpc::service(openrpc)]
    impl Plotter {
        pub fn openrpc(&self) -> bool {
            true
        }
    }
}

mod with_a_value {
    #[duet_rpc::service(openrpc = "Plotter")]
    trait Plotter {
        async fn line(&self) -> bool;
    }
}

fn main() {}
