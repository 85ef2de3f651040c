//! A hub and its connections: `on_connect`, `peers` and `broadcast` (P8, P9).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duet_rpc::transport::{Address, Connector, Listener};
use duet_rpc::{
    CloseReason, Context, Error, ErrorKind, Failure, Hub, Peer, Peers, Profile, Router,
};

/// The time after which a test counts as hanging. No test depends on it otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves this hub on TCP; returns its address.
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
    let hub = Hub::builder()
        .profile(Profile::agent())
        .router(router)
        .on_connect(move |peer| {
            let number = counter.fetch_add(1, Ordering::Relaxed) + 1;
            peer.extension::<Number>().0.store(number, Ordering::Relaxed);
            // It is called inside the runtime, and may call the client.
            let peer = peer.clone();
            tokio::spawn(async move { peer.notify("welcome", [number]).await });
        })
        .build();
    let address = serve(&hub);
    for expected in 1..=3 {
        let (send, mut welcomed) = tokio::sync::mpsc::unbounded_channel();
        let greeted = Router::new().method("welcome", move |(number,): (usize,)| {
            let _ = send.send(number);
            async { Ok::<_, Failure>(()) }
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
    let hub = Hub::builder()
        .profile(Profile::agent())
        .router(router)
        .on_connect(move |_| {
            assert!(count.fetch_add(1, Ordering::Relaxed) != 1, "the second one panics");
        })
        .build();
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
    let hub = Hub::builder()
        .profile(Profile::agent())
        .router(router)
        .on_connect(|peer| drop(peer.close()))
        .build();
    let address = serve(&hub);
    let client = connect(&address, Router::new()).await;
    assert!(client.call::<String>("ping", ()).await.is_err());
    assert_eq!(client.closed().await.reason(), CloseReason::RemoteClosed);
    hub.stop().await;
}

/// Waits until the hub has this many connections.
async fn connected(hub: &Hub, count: usize) {
    let waiting = async {
        while hub.peers().len() != count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it hangs");
}

#[tokio::test]
async fn p8_a_hub_lists_its_connections_and_closes_them_however_many_handles_there_are() {
    let hub = Hub::builder().profile(Profile::agent()).router(Router::new()).build();
    let address = serve(&hub);
    let mut clients = Vec::new();
    for count in 1..=3 {
        clients.push(connect(&address, Router::new()).await);
        connected(&hub, count).await;
    }
    let ports: Vec<_> =
        hub.peers().iter().map(|peer| peer.remote_addr().expect("it is TCP").port()).collect();
    assert_eq!(ports.len(), 3);
    clients.remove(1).close().await;
    connected(&hub, 2).await;
    let left: Vec<_> = hub.peers().iter().collect();
    let left_ports: Vec<_> =
        left.iter().filter_map(Peer::remote_addr).map(|it| it.port()).collect();
    assert_eq!(left_ports, [ports[0], ports[2]], "the oldest first");
    tokio::time::timeout(PATIENCE, hub.stop()).await.expect("it hangs");
    assert!(hub.peers().is_empty());
    for peer in left {
        assert_eq!(peer.closed().await.reason(), CloseReason::Closed);
    }
}

#[tokio::test]
async fn p9_a_broadcast_reaches_all_and_skips_those_that_do_not_read() {
    let profile = Profile::agent().max_outgoing_bytes(10_000);
    let hub = Hub::builder().profile(profile).router(Router::new()).build();
    let address = serve(&hub);
    let Address::Tcp(place) = &address else { panic!("{address}") };
    // It connects and reads nothing.
    let stuck = std::net::TcpStream::connect((&*place.host, place.port)).expect("it listens");
    let (one, two) =
        (connect(&address, Router::new()).await, connect(&address, Router::new()).await);
    let mut news = [one.subscribe::<(u64, String)>("news"), two.subscribe("news")];
    connected(&hub, 3).await;
    let text = "x".repeat(100_000);
    let mut number = 0;
    let skipping = async {
        loop {
            let told = hub.peers().broadcast("news", (number, &text)).expect("it is JSON");
            for news in &mut news {
                let (heard, _) = news.next().await.expect("it stands").expect("it fits");
                assert_eq!(heard, number);
            }
            match told.skipped {
                0 => assert_eq!(told.sent, 3),
                _ => return assert_eq!((told.sent, told.skipped), (2, 1)),
            }
            number += 1;
        }
    };
    tokio::time::timeout(PATIENCE, skipping).await.expect("it is never skipped");
    assert_eq!(
        hub.peers().broadcast("news", 7).expect_err("a number is not params").kind(),
        ErrorKind::Params
    );
    drop(stuck);
    hub.stop().await;
    assert_eq!(hub.peers().broadcast("news", ()).expect("it is JSON"), Default::default());
}

#[tokio::test]
async fn p9_a_handler_broadcasts_to_all_connections_of_its_hub() {
    let router = Router::new().method("say", |(text,): (String,), cx: Context| {
        let told = cx.peers().broadcast("said", [text]).expect("it is JSON");
        (told.sent, cx.peers().len())
    });
    let hub = Hub::builder().router(router.clone()).build();
    let address = serve(&hub);
    let (ada, bob) =
        (connect(&address, Router::new()).await, connect(&address, Router::new()).await);
    let mut heard = [ada.subscribe::<(String,)>("said"), bob.subscribe("said")];
    connected(&hub, 2).await;
    let told: (usize, usize) = ada.call("say", ["hello"]).await.expect("it is served");
    assert_eq!(told, (2, 2));
    for said in &mut heard {
        assert_eq!(said.next().await.expect("it stands").expect("it fits").0, "hello");
    }
    hub.stop().await;

    // A peer on its own is all that there is, until it is gone.
    let (here, there) = duet_rpc::transport::memory::pair();
    let server = Peer::builder(there).router(router).spawn();
    let client = Peer::builder(here).spawn();
    let mut said = client.subscribe::<(String,)>("said");
    assert_eq!(client.call::<(usize, usize)>("say", ["hi"]).await.expect("it is served"), (1, 1));
    assert_eq!(said.next().await.expect("it stands").expect("it fits").0, "hi");
    let peers = server.peers();
    client.close().await;
    server.closed().await;
    assert!(peers.is_empty());
    assert_eq!(peers.broadcast("said", ()).expect("it is JSON"), Default::default());
}

/// The user who has logged in on a connection.
#[derive(Default)]
struct User(std::sync::OnceLock<String>);

/// A guard refuses calls of a client that has not logged in, and a filter keeps notifications from it.
#[tokio::test]
async fn p9_a_filter_leaves_connections_out_of_lists_and_broadcasts() {
    let members = |peers: Peers| peers.filter(|peer| peer.extension::<User>().0.get().is_some());
    let router = Router::new()
        .method("say", move |(text,): (String,), cx: Context| {
            members(cx.peers()).broadcast("said", [text]).expect("it is JSON").sent
        })
        .guard(|message| match message.peer().extension::<User>().0.get() {
            Some(_) => Ok(()),
            None => Err(Failure::new(401, "log in")),
        });
    let login = |(name,): (String,), cx: Context| {
        let _ = cx.peer().extension::<User>().0.set(name);
    };
    let hub = Hub::builder().router(Router::new().method("login", login).merge(router)).build();
    let address = serve(&hub);
    let (ada, eve) =
        (connect(&address, Router::new()).await, connect(&address, Router::new()).await);
    let (mut to_ada, mut to_eve) = (ada.subscribe::<(String,)>("said"), eve.subscribe("said"));
    connected(&hub, 2).await;
    let is_member = members(hub.peers());
    assert_eq!((is_member.len(), is_member.iter().count(), hub.peers().len()), (0, 0, 2));
    assert!(is_member.is_empty());
    ada.call::<()>("login", ["Ada"]).await.expect("it is served");
    assert_eq!((is_member.len(), is_member.clone().into_iter().count()), (1, 1));
    assert_eq!(is_member.filter(|_| false).len(), 0);
    assert_eq!(ada.call::<usize>("say", ["secret"]).await.expect("she is in"), 1);
    assert_eq!(to_ada.next().await.expect("it stands").expect("it fits").0, "secret");
    assert_eq!(
        eve.call::<usize>("say", ["hi"])
            .await
            .expect_err("she is not in")
            .remote()
            .map(|it| it.code),
        Some(401)
    );
    // This broadcast has no filter, so it is the first one that reaches Eve.
    assert_eq!(hub.peers().broadcast("said", ["public"]).expect("it is JSON").sent, 2);
    let (heard,): (String,) = to_eve.next().await.expect("it stands").expect("it fits");
    assert_eq!(heard, "public");
    hub.stop().await;
}

/// A broadcast from `on_connect`, such as "somebody has joined", does not reach the new connection itself.
#[tokio::test]
async fn p8_a_connection_is_listed_when_its_on_connect_has_returned() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let to_see = seen.clone();
    let hub = Hub::builder();
    let hub = hub.on_connect(move |peer| to_see.lock().expect("no panic").push(peer.peers().len()));
    let hub = hub.build();
    let address = serve(&hub);
    let mut clients = Vec::new();
    for count in 1..=3 {
        clients.push(connect(&address, Router::new()).await);
        connected(&hub, count).await;
    }
    assert_eq!(*seen.lock().expect("no panic"), [0, 1, 2]);
    hub.stop().await;
}

#[cfg(feature = "http")]
#[tokio::test]
async fn p9_a_broadcast_leaves_out_connections_that_carry_answers_alone() {
    let router = Router::new().method("tell", |cx: Context| -> Result<_, Error> {
        let broadcast = cx.peers().broadcast("news", ())?;
        Ok((cx.peers().len(), broadcast.sent, broadcast.skipped))
    });
    let hub = Hub::builder().profile(Profile::agent()).router(router).build();
    let listener = Listener::bind("http://127.0.0.1:0/").expect("a port");
    let address = listener.address().clone();
    tokio::spawn(hub.clone().serve(listener));
    let client = connect(&address, Router::new()).await;
    let told: (usize, usize, usize) = client.call("tell", ()).await.expect("it is served");
    assert_eq!(told, (1, 0, 0), "a request is a connection while it is served");
    assert!(hub.peers().is_empty());
    hub.stop().await;
}
