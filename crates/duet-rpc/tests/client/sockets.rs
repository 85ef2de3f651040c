//! A client over real sockets: a server that stops and comes back at its old address.

use std::time::Duration;

use duet_rpc::transport::{Address, Connector, Listener};
use duet_rpc::{Backoff, Client, ErrorKind, Failure, Hub, Profile, Router};
use tokio::sync::Notify;

use super::links::HANGS;

const QUICK: Backoff = Backoff {
    first: Duration::from_millis(1),
    factor: 2.0,
    most: Duration::from_millis(20),
    good_after: None,
    jitter: 0.5,
};

/// A server that reports when a call of `wait` has begun, which it never answers.
fn serve(address: &Address, begun: &'static Notify) -> (Address, Hub) {
    let mut profile = Profile::agent();
    profile.drain_timeout = Duration::from_millis(1);
    let router = Router::new()
        .method("add", async |(a, b): (i64, i64)| Ok::<_, Failure>(a + b))
        .method("wait", move || async move {
            begun.notify_one();
            std::future::pending::<Result<(), Failure>>().await
        });
    let listener = Listener::bind(address).expect("the address is free");
    let address = listener.address().clone();
    let hub = Hub::builder().profile(profile).router(router).build();
    tokio::spawn(hub.clone().serve(listener));
    (address, hub)
}

#[tokio::test]
async fn p6_a_server_that_comes_back_at_its_address_is_found_again() {
    let folder = std::env::temp_dir().join(format!("duet-rpc-client-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is room");
    let mut urls = vec!["tcp://127.0.0.1:0".to_owned(), format!("unix://{}/s", folder.display())];
    if cfg!(feature = "websocket") {
        urls.push("ws://127.0.0.1:0/".to_owned());
    }
    for url in urls {
        let begun: &'static Notify = Box::leak(Box::new(Notify::new()));
        let (address, mut hub) = serve(&url.parse().expect("the URL is valid"), begun);
        let connector = Connector::new(&address).expect("an address");
        let client = Client::builder(connector).backoff(QUICK);
        let client = client.connect().await.expect("the client connects");
        for _ in 0..3 {
            assert_eq!(
                client.call::<i64>("add", (1, 2)).await.expect("the call is answered"),
                3,
                "{url}"
            );
            let pending = tokio::spawn(client.call::<()>("wait", ()).no_timeout());
            begun.notified().await;
            hub.stop().await;
            let interrupted =
                tokio::time::timeout(HANGS, pending).await.expect("the call fails immediately");
            let error = interrupted.expect("no panic").expect_err("nobody answers");
            assert_eq!(error.kind(), ErrorKind::Interrupted, "{url}: {error:#}");
            assert!(error.is_recoverable());
            hub = serve(&address, begun).1;
            let connected = tokio::time::timeout(HANGS, client.connected()).await;
            connected.expect("no hang").expect("the server is back");
        }
        client.close().await;
        hub.stop().await;
    }
    std::fs::remove_dir_all(folder).expect("the folder can be removed");
}
