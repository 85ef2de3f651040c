//! Types without a schema, and errors without a list, in services with a document.

mod param_and_result {
    #[derive(serde::Serialize, serde::Deserialize)]
    pub struct Point {
        x: i64,
    }

    #[duet_rpc::service(openrpc)]
    trait Plotter {
        async fn line(&self, to: Point) -> Vec<Point>;
    }
}

mod error {
    pub struct Jam;

    impl From<Jam> for duet_rpc::Failure {
        fn from(_: Jam) -> Self {
            duet_rpc::Failure::new(1, "Jam")
        }
    }

    #[duet_rpc::service(openrpc)]
    trait Plotter {
        async fn line(&self) -> Result<(), Jam>;
    }
}

mod error_data {
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    pub struct Paper(u8);

    #[derive(Debug, duet_rpc::RpcError)]
    pub enum PlotError {
        #[rpc(code = 1)]
        Jam { paper: Paper },
    }

    #[duet_rpc::service(openrpc)]
    trait Plotter {
        async fn line(&self) -> Result<(), PlotError>;
    }
}

mod callbacks {
    #[duet_rpc::service]
    trait Ui {
        async fn ask(&self) -> bool;
    }

    #[duet_rpc::service(openrpc, callbacks = Ui)]
    trait Plotter {
        async fn line(&self, ui: UiClient) -> bool;
    }
}

fn main() {}
