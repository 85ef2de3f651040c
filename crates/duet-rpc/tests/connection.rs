//! Extensions, statistics, event streams and contexts of a connection.

mod links;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duet_rpc::transport::{Stream, memory};
use duet_rpc::{Context, Failure, Peer, Priority, Profile, Router, quick};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::task::AbortHandle;

#[derive(Default)]
struct Visits(AtomicU64);

/// Reports when it is dropped.
#[derive(Default)]
struct Kept(std::sync::Mutex<Option<tokio::sync::oneshot::Sender<()>>>, std::sync::OnceLock<Peer>);

fn router() -> Router {
    let visit = async |cx: Context| {
        let visits = cx.peer().extension::<Visits>();
        Ok::<_, Failure>(visits.0.fetch_add(1, Ordering::Relaxed) + 1)
    };
    Router::new().method("visit", quick(visit))
}

#[tokio::test]
async fn p8_each_connection_of_a_router_has_values_of_its_own() {
    let router = router();
    let clients = [(); 2].map(|()| links::client_of(router.clone()));
    for visit in 1..=3 {
        for (client, _) in &clients {
            assert_eq!(client.call::<u64>("visit", ()).await.expect("the call is answered"), visit);
        }
    }
}

#[tokio::test]
async fn p5_extensions_of_a_connection_are_dropped_when_it_ends() {
    let (client, server) = links::client_of(Router::new());
    let (tell, told) = tokio::sync::oneshot::channel();
    let kept = server.extension::<Kept>();
    *kept.0.lock().expect("no panic") = Some(tell);
    // The value holds a handle of its own connection, and must not keep the connection open for ever.
    assert!(kept.1.set(server.clone()).is_ok());
    drop(kept);
    client.close().await;
    server.closed().await;
    told.await.expect_err("the value is dropped");
    // A value requested now is new, and is not kept.
    assert_eq!(Arc::strong_count(&server.extension::<Visits>()), 1);
}

#[tokio::test]
async fn p9_a_stream_that_is_closed_delivers_nothing_more() {
    let (here, there) = tokio::io::duplex(1024);
    let peer = Peer::builder(Stream::from_io(here))
        .profile(Profile::agent())
        .router(Router::new())
        .spawn();
    let events = peer.events("event", "log");
    events.send(Priority::High, &1).expect("a number is JSON");
    events.close();
    events.send(Priority::High, &2).expect("a number is JSON");
    peer.notify("last", ()).await.expect("the notification is sent");
    let mut line = String::new();
    BufReader::new(there).read_line(&mut line).await.expect("the connection is open");
    assert_eq!(line, "{\"jsonrpc\":\"2.0\",\"method\":\"last\"}\n");
}

#[tokio::test]
async fn stats_count_messages_faults_and_bytes() {
    let (here, there) = tokio::io::duplex(1024);
    let peer =
        Peer::builder(Stream::from_io(here)).profile(Profile::agent()).router(router()).spawn();
    let mut remote = BufReader::new(there);
    let text = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"visit\"}\nnot JSON\n{}\n\
                [{\"jsonrpc\":\"2.0\",\"method\":\"visit\"},1]\n";
    remote.write_all(text.as_bytes()).await.expect("the remote reads");
    let mut sent = 0;
    for _ in 0..4 {
        let mut line = String::new();
        sent += remote.read_line(&mut line).await.expect("the connection is open");
    }
    drop(remote);
    peer.closed().await;
    let stats = peer.stats();
    assert_eq!((stats.messages, stats.faults), (4, 3), "{stats:?}");
    assert_eq!((stats.bytes_received, stats.bytes_sent), (text.len() as u64, sent as u64));
}

/// Keeps the contexts of served messages, as a background task would.
#[derive(Clone, Default)]
struct Contexts(Arc<std::sync::Mutex<Vec<Context>>>);

impl Contexts {
    fn router(&self) -> Router {
        let (now, later) = (self.clone(), self.clone());
        let later = move |cx: Context| {
            let kept = later.clone();
            async move {
                tokio::task::yield_now().await;
                kept.keep(cx).await
            }
        };
        let router = Router::new().method("now", move |cx: Context| now.clone().keep(cx));
        router.method("later", later)
    }

    async fn keep(self, cx: Context) -> Result<(), Failure> {
        self.0.lock().expect("no panic").push(cx);
        Ok(())
    }

    /// Serves a message with each handler, and returns the two contexts.
    async fn of_two(&self, client: &Peer) -> Vec<Context> {
        for method in ["now", "later"] {
            client.call::<()>(method, ()).await.expect("it is served");
        }
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

/// The clock moves only when no task can run, so an event that does not happen within a second never
/// does.
#[tokio::test(start_paused = true)]
async fn p5_context_is_cancelled_when_the_connection_ends_after_its_handler() {
    let ends: [fn(&Peer, &Peer, &AbortHandle); 3] = [
        |client, _, _| drop(client.close()),
        |_, server, _| drop(server.close()),
        |_, _, driver| driver.abort(),
    ];
    for (row, end) in ends.into_iter().enumerate() {
        let contexts = Contexts::default();
        let (here, there) = memory::pair();
        let (server, driver) =
            Peer::builder(there).profile(Profile::agent()).router(contexts.router()).build();
        let driver = tokio::spawn(driver).abort_handle();
        let client = Peer::builder(here).profile(Profile::agent()).router(Router::new()).spawn();
        let contexts = contexts.of_two(&client).await;
        assert!(contexts.iter().all(|cx| !cx.is_cancelled()), "row {row}: it stands");
        end(&client, &server, &driver);
        for cx in contexts {
            let cancelled = tokio::time::timeout(Duration::from_secs(1), cx.cancelled()).await;
            assert!(cancelled.is_ok() && cx.is_cancelled(), "row {row}: {cx:?} waits on");
        }
    }
}
