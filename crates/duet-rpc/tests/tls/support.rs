//! Shared parts: a server with TLS, and clients of it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use duet_rpc::transport::{Address, Connector, Listener, TlsClient, TlsServer};
use duet_rpc::{Context, Failure, Hub, Identity, Peer, Profile, Router};
use serde_json::Value;

use crate::certificates::{Authority, Folder};

/// The time after which a test counts as hanging. No test depends on it otherwise.
pub(crate) const HANGS: Duration = Duration::from_secs(60);

/// A server with the certificate of its own authority.
pub(crate) struct Secured {
    pub(crate) folder: Folder,
    pub(crate) authority: Authority,
    pub(crate) hub: Hub,
    pub(crate) address: Address,
}

pub(crate) fn profile() -> Profile {
    let mut profile = Profile::agent();
    profile.limits.message_bytes = 4 << 20;
    profile
}

pub(crate) fn router() -> Router {
    Router::new()
        .method("echo", async |value: Value| Ok::<_, Failure>(value))
        .method("back", async |value: Value, cx: Context| {
            cx.peer().call::<Value>("echo", value).await
        })
        .method("who", async |cx: Context| {
            Ok::<_, Failure>(match cx.identity() {
                Some(Identity::Certificate { subject, names, fingerprint }) => {
                    assert_eq!(fingerprint.len(), 64, "{fingerprint}");
                    format!("{subject} {}", names.join(" "))
                }
                Some(other) => format!("{other:?}"),
                None => "nobody".to_owned(),
            })
        })
}

impl Secured {
    /// Serves `tls://` with a certificate for `localhost` and `127.0.0.1`.
    pub(crate) fn serve() -> Self {
        Self::serve_with("tls://127.0.0.1:0", |tls, _, _| tls)
    }

    pub(crate) fn serve_with(
        url: &str,
        set: impl FnOnce(TlsServer, &Folder, &Authority) -> TlsServer,
    ) -> Self {
        let (folder, authority) = (Folder::new(), Authority::new("Test CA"));
        let files = authority.server(&["localhost", "127.0.0.1"]).write(&folder, "server");
        let tls = TlsServer::from_files(&files.certificate, &files.key).expect("a certificate");
        let tls = set(tls, &folder, &authority);
        let hub = Hub::builder().profile(profile()).router(router()).build();
        let address = listen(&hub, url, tls);
        Secured { folder, authority, hub, address }
    }

    /// Settings of a client that trusts the authority of this server.
    pub(crate) fn trusting(&self) -> TlsClient {
        TlsClient::new().ca_pem(self.authority.pem()).expect("an authority")
    }

    pub(crate) async fn connect(&self) -> Peer {
        connect(&self.address, self.trusting()).await.expect("it connects")
    }

    pub(crate) fn at(&self) -> SocketAddr {
        socket_address(&self.address)
    }
}

/// Serves this hub with TLS; returns the address.
pub(crate) fn listen(hub: &Hub, url: &str, tls: TlsServer) -> Address {
    let listener = Listener::tls(tls).bind(url).expect("a port");
    let address = listener.address().clone();
    tokio::spawn(hub.clone().serve(listener));
    address
}

pub(crate) fn socket_address(address: &Address) -> SocketAddr {
    let (Address::Tcp(place) | Address::WebSocket(place, _) | Address::Http(place, _)) = address
    else {
        panic!("{address}")
    };
    format!("{}:{}", place.host, place.port).parse().expect("an address")
}

pub(crate) async fn connect(address: &Address, tls: TlsClient) -> io::Result<Peer> {
    let connector = Connector::new(address)?.tls(tls);
    let profile = profile();
    let connecting = connector.connect(&profile);
    let transport = tokio::time::timeout(HANGS, connecting).await.expect("it hangs")?;
    Ok(Peer::builder(transport).profile(profile).router(router()).spawn())
}

/// Calls `echo` and expects the same value.
pub(crate) async fn check(peer: &Peer) {
    let answer: [i64; 2] = peer.call("echo", [1, 2]).await.expect("an answer");
    assert_eq!(answer, [1, 2]);
}
