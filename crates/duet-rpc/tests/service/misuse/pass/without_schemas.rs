//! Types without a schema, in services without a document: the feature `openrpc` of another crate changes nothing.

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Paper(u8);

#[derive(Debug, duet_rpc::RpcError)]
enum PlotError {
    #[rpc(code = 1)]
    Jam { paper: Paper, tray: Option<Paper> },
    #[rpc(code = 2)]
    Torn(Paper, u8),
    #[rpc(transparent)]
    Other(Handmade),
    #[rpc(internal)]
    Disk(std::io::Error),
}

#[derive(Debug)]
struct Handmade;

impl std::fmt::Display for Handmade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("handmade")
    }
}

impl From<Handmade> for duet_rpc::Failure {
    fn from(_: Handmade) -> Self {
        duet_rpc::Failure::new(3, "Handmade")
    }
}

impl duet_rpc::error::FromRemote for Handmade {
    fn from_remote(remote: &duet_rpc::RemoteError) -> Option<Self> {
        (remote.code == 3).then_some(Handmade)
    }
}

#[duet_rpc::service]
trait Plotter {
    async fn line(&self, paper: Paper) -> Result<Paper, PlotError>;
    /// This name is free without a document.
    async fn openrpc(&self) -> bool;
}

fn main() {
    let made = [PlotError::Torn(Paper(1), 2), PlotError::Disk(std::io::ErrorKind::Other.into())];
    assert_eq!(made.len(), 2);
    assert_eq!(PlotterClient::METHODS.len(), 2);
}
