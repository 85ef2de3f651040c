//! Named pipes: `pipe://NAME`. Other systems refuse the address with a reason.

use duet_rpc::Profile;
use duet_rpc::transport::{Address, Connector, Listener};

#[test]
fn t2_a_pipe_has_a_name() {
    for (text, expect) in [
        ("pipe://app", "pipe://app"),
        ("PIPE://app-1.sock", "pipe://app-1.sock"),
        ("pipe://a%20b", "pipe://a%20b"),
        ("pipe://100%25", "pipe://100%25"),
    ] {
        let address: Address = text.parse().expect(text);
        assert_eq!(address.to_string(), expect);
        assert!(address.is_local().expect("no look-up") && !address.is_secure());
    }
}

#[cfg(not(windows))]
#[tokio::test]
async fn t2_other_systems_have_no_named_pipes() {
    let reason = "named pipes are for Windows: use a unix:// address";
    let error = Listener::bind("pipe://app").expect_err("no pipes");
    assert_eq!(error.to_string(), reason);
    let connector = Connector::new("pipe://app").expect("an address");
    let error = connector.connect(&Profile::agent()).await.map(drop).expect_err("no pipes");
    assert_eq!(error.to_string(), reason);
}

#[cfg(windows)]
mod on_windows {
    use std::io::ErrorKind;
    use std::path::Path;

    use duet_rpc::{Hub, Peer, Router};

    use super::*;

    fn name(of: &str) -> String {
        format!("pipe://duet-rpc-test-{}-{of}", std::process::id())
    }

    async fn connect(address: &str) -> Peer {
        let connector = Connector::new(address).expect("an address");
        let transport = connector.connect(&Profile::agent()).await.expect("a server");
        Peer::builder(transport).profile(Profile::agent()).spawn()
    }

    #[tokio::test]
    async fn t2_many_clients_are_served_over_a_named_pipe() {
        let address = name("many");
        let listener = Listener::bind(address.as_str()).expect("a free name");
        assert_eq!(listener.address().to_string(), address);
        let router = Router::new().method("add", async |(a, b): (i64, i64)| a + b);
        let hub = Hub::builder().profile(Profile::agent()).router(router).build();
        let serving = tokio::spawn(hub.clone().serve(listener));
        let mut clients = Vec::new();
        for number in 0..20_i64 {
            let client = connect(&address).await;
            let sum: i64 = client.call("add", (number, 1)).await.expect("an answer");
            assert_eq!(sum, number + 1);
            clients.push(client);
        }
        let large = "x".repeat(300_000);
        let error = clients[0].call::<i64>("add", [&large]).await.expect_err("a text");
        assert!(error.to_string().contains("params"), "{error}");
        hub.stop().await;
        serving.await.expect("it ends");
        let again = Connector::new(address.as_str()).expect("an address");
        let error = again.connect(&Profile::agent()).await.map(drop).expect_err("no server");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn t3_a_name_in_use_is_refused_but_not_by_wine() {
        let address = name("twice");
        let _first = Listener::bind(address.as_str()).expect("a free name");
        let second = Listener::bind(address.as_str());
        // wine ignores the flag that asks for the first instance.
        let is_wine = Path::new(r"C:\windows\system32\winecfg.exe").exists();
        assert!(is_wine || second.is_err());
    }

    #[test]
    fn t2_a_pipe_can_be_bound_outside_of_a_runtime() {
        let mut listener = Listener::bind(name("outside").as_str()).expect("an address");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let address = listener.address().to_string();
            let client = tokio::spawn(async move {
                // The first attempt to accept makes the pipe.
                tokio::task::yield_now().await;
                connect(&address).await
            });
            let incoming = listener.accept().await.expect("a client");
            let opened = incoming.open(&Profile::agent()).await.map(drop);
            opened.expect("a transport");
            drop(client.await);
        });
    }
}
