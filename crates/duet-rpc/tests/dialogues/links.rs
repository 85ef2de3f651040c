//! A client and a server, connected by each kind of transport.

use duet_rpc::proto::frame::Framing;
use duet_rpc::transport::{Child, Connector, Listener, memory};
use duet_rpc::{Hub, Peer, Profile, Router};

use super::script::server_router;

/// Environment variable that makes this process the server.
pub(super) const ROLE: &str = "DUET_RPC_TEST_ROLE";

pub(super) const LINKS: &[&str] = &[
    "memory",
    "child",
    "tcp lsp",
    "tcp ndjson",
    "tcp length",
    "unix ndjson",
    #[cfg(feature = "websocket")]
    "ws",
    #[cfg(feature = "http")]
    "http",
];

pub(super) fn serve_stdio() {
    duet_rpc::Server::new()
        .profile(Profile::agent())
        .router(server_router())
        .run()
        .expect("the server ends without an error");
}

/// Keeps a server running while it is needed.
pub(super) enum Server {
    Peer(Peer),
    Child,
    Hub(Hub),
}

impl Server {
    /// Stops the server, and waits for its end.
    pub(super) async fn stop(self) {
        match self {
            Server::Peer(peer) => drop(peer.close().await),
            Server::Child => {}
            Server::Hub(hub) => hub.stop().await,
        }
    }
}

/// Connects a client with this router to a server.
pub(super) async fn join(link: &str, router: Router) -> (Peer, Server) {
    let mut profile = Profile::agent();
    let (kind, framing) = link.split_once(' ').unwrap_or((link, "ndjson"));
    profile.framing = match framing {
        "lsp" => Framing::Lsp,
        "length" => Framing::Length,
        _ => Framing::Ndjson,
    }
    .into();
    match kind {
        "memory" => {
            let (here, there) = memory::pair();
            let server = Peer::builder(there).profile(profile).router(server_router()).spawn();
            (Peer::builder(here).profile(profile).router(router).spawn(), Server::Peer(server))
        }
        "child" => {
            let program = std::env::current_exe().expect("this test is a file");
            let mut command = tokio::process::Command::new(program);
            command.env(ROLE, "server");
            let child = Child::spawn(command).expect("the program starts");
            (Peer::builder(child).profile(profile).router(router).spawn(), Server::Child)
        }
        kind => {
            let url = match kind {
                "unix" => format!("unix://{}", socket().display()),
                kind => format!("{kind}://127.0.0.1:0"),
            };
            let listener = Listener::bind(url).expect("the address is free");
            let address = listener.address().clone();
            let hub = Hub::builder().profile(profile).router(server_router()).build();
            tokio::spawn(hub.clone().serve(listener));
            let connector = Connector::new(address).expect("an address");
            let transport = connector.connect(&profile).await.expect("the client connects");
            (Peer::builder(transport).profile(profile).router(router).spawn(), Server::Hub(hub))
        }
    }
}

fn socket() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("duet-rpc-dialogues-{}", std::process::id()))
}
