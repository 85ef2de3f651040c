//! A hub and its connections: `on_connect` (P8).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duet_rpc::transport::{Address, Connector, Listener};
use duet_rpc::{CloseReason, Context, Failure, Hub, Peer, Profile, Router};

/// A test that hangs fails after this long; none depends on it otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves this hub on TCP, and says where.
fn serve(hub: &Hub) -> Address {
    let listener = Listener::bind("tcp://127.0.0.1:0").expect("a port");
    let address = listener.address().clone();
    tokio::spawn(hub.clone().serve(listener));
    address
}

async fn connect(address: &Address, router: Router) -> Peer {
    let connector = Connector::new(address).expect("an address");
    let transport = connector.connect(&Profile::agent()).await.expect("it listens");
    Peer::builder(transport).router(router).spawn()
}

#[derive(Default)]
struct Number(AtomicUsize);

#[tokio::test]
async fn p8_on_connect_runs_before_the_first_message_of_each_connection() {
    let count = Arc::new(AtomicUsize::new(0));
    let router = Router::new().method("number", async |cx: Context| {
        Ok::<_, Failure>(cx.peer().extension::<Number>().0.load(Ordering::Relaxed))
    });
    let counter = Arc::clone(&count);
    let hub = Hub::new(&Profile::agent(), router).on_connect(move |peer| {
        let number = counter.fetch_add(1, Ordering::Relaxed) + 1;
        peer.extension::<Number>().0.store(number, Ordering::Relaxed);
        // It is called inside the runtime, and may call the client.
        let peer = peer.clone();
        tokio::spawn(async move { peer.notify("welcome", [number]).await });
    });
    let address = serve(&hub);
    for expected in 1..=3 {
        let (send, mut welcomed) = tokio::sync::mpsc::unbounded_channel();
        let greeted = Router::new().method("welcome", async move |(number,): (usize,)| {
            let _ = send.send(number);
            Ok::<_, Failure>(())
        });
        let client = connect(&address, greeted).await;
        let number: usize = client.call("number", ()).await.expect("an answer");
        assert_eq!(number, expected);
        let told = tokio::time::timeout(PATIENCE, welcomed.recv()).await.expect("it hangs");
        assert_eq!(told, Some(expected));
    }
    assert_eq!(count.load(Ordering::Relaxed), 3);
    hub.stop().await;
}

#[tokio::test]
async fn p8_a_panic_in_on_connect_closes_only_that_connection() {
    let router = Router::new().method("ping", async || Ok::<_, Failure>("pong"));
    let count = AtomicUsize::new(0);
    let hub = Hub::new(&Profile::agent(), router).on_connect(move |_| {
        assert!(count.fetch_add(1, Ordering::Relaxed) != 1, "the second one panics");
    });
    let address = serve(&hub);
    let first = connect(&address, Router::new()).await;
    first.call::<String>("ping", ()).await.expect("it is served");
    let second = connect(&address, Router::new()).await;
    assert!(second.call::<String>("ping", ()).await.is_err(), "it is not served");
    let end = tokio::time::timeout(PATIENCE, second.closed()).await.expect("it hangs");
    assert_eq!(end.reason(), CloseReason::RemoteClosed);
    let third = connect(&address, Router::new()).await;
    for client in [&first, &third] {
        client.call::<String>("ping", ()).await.expect("it is served");
    }
    assert_eq!(hub.connections(), 2);
    hub.stop().await;
}

#[tokio::test]
async fn p5_on_connect_can_refuse_a_connection_by_closing_it() {
    let router = Router::new().method("ping", async || Ok::<_, Failure>("pong"));
    let hub = Hub::new(&Profile::agent(), router).on_connect(|peer| drop(peer.close()));
    let address = serve(&hub);
    let client = connect(&address, Router::new()).await;
    assert!(client.call::<String>("ping", ()).await.is_err());
    assert_eq!(client.closed().await.reason(), CloseReason::RemoteClosed);
    hub.stop().await;
}
