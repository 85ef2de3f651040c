//! Bounds on the memory that a remote can make a peer use. Such a peer can always be closed (L4, L8, M6, P9).

mod links;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duet_rpc::proto::Limits;
use duet_rpc::proto::policy::Order;
use duet_rpc::transport::{Address, Connector, Listener, Stream};
use duet_rpc::{Failure, Hub, Peer, Profile, Router, blocking};
use links::{Link, client_of, gated, until};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

const ANSWER: usize = 10_000;

fn limited(set: impl FnOnce(&mut Limits)) -> Profile {
    Profile::agent().with(|it| set(&mut it.limits))
}

/// Answers `big` immediately.
fn big_answers() -> Router {
    Router::new().method("big", async || Ok::<_, Failure>("x".repeat(ANSWER)))
}

/// A server on a socket: the hub, its address, and its task.
fn listen(hub: Hub) -> (Hub, Address, JoinHandle<()>) {
    let listener = Listener::bind("tcp://127.0.0.1:0").expect("the address is free");
    let address = listener.address().clone();
    let serving = tokio::spawn(hub.clone().serve(listener));
    (hub, address, serving)
}

fn big(id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"big"}}"#)
}

async fn connect(address: &Address) -> TcpStream {
    let address = address.to_string();
    TcpStream::connect(address.trim_start_matches("tcp://")).await.expect("the server listens")
}

async fn answers_to_batch(profile: &Profile, router: Router) -> Vec<Value> {
    let (here, there) = tokio::io::duplex(1000);
    let _server = Peer::builder(Stream::from_io(there)).profile(*profile).router(router).spawn();
    let (reader, mut writer) = tokio::io::split(here);
    let batch: Vec<_> = (0..100).map(big).collect();
    let batch = format!("[{}]\n", batch.join(","));
    writer.write_all(batch.as_bytes()).await.expect("the remote reads");
    let line = BufReader::new(reader).lines().next_line().await;
    let line = line.expect("the connection is open").expect("there is an answer");
    serde_json::from_str(&line).expect("the answer is an array")
}

#[tokio::test]
async fn p9_a_batch_whose_requests_wait_for_their_turn_is_answered_within_its_bound() {
    let profile = limited(|it| it.batch_bytes = 3 * ANSWER).with(|it| it.order = Order::Sequential);
    let router = Router::new().method("big", async || {
        // Later requests wait.
        tokio::task::yield_now().await;
        Ok::<_, Failure>("x".repeat(ANSWER))
    });
    let answers = answers_to_batch(&profile, router).await;
    assert_eq!(answers.len(), 100);
    let (busy, done): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer["error"]["code"] == -32000);
    assert_eq!((done.len(), busy.len()), (3, 97));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p9_a_batch_whose_requests_are_sent_to_threads_is_answered_within_its_bound() {
    let profile = limited(|it| {
        it.batch_bytes = 3 * ANSWER;
        it.outgoing_bytes = 1;
    });
    let answers = answers_to_batch(&profile, big_answers()).await;
    assert_eq!(answers.len(), 100);
    let done = answers.iter().filter(|answer| answer["result"].is_string()).count();
    // Only the requests that had begun when the bound was reached.
    assert!((3..10).contains(&done), "{done}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l8_while_nobody_reads_no_more_answers_are_made() {
    let begun = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&begun);
    let router = Router::new().method("big", move || {
        let begun = Arc::clone(&counter);
        async move {
            begun.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Failure>("x".repeat(ANSWER))
        }
    });
    let (here, there) = tokio::io::duplex(1000);
    let profile = limited(|it| it.outgoing_bytes = ANSWER);
    let _server = Peer::builder(Stream::from_io(there)).profile(profile).router(router).spawn();
    let (reader, mut writer) = tokio::io::split(here);
    for id in 0..100 {
        writer.write_all((big(id) + "\n").as_bytes()).await.expect("the remote reads");
    }
    // The server has received all requests, and had time to begin too many.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    let mut lines = BufReader::new(reader).lines();
    for read in 0..100 {
        let ahead = begun.load(Ordering::SeqCst) - read;
        assert!(ahead < 10, "{ahead} answers were made that nobody has read");
        lines.next_line().await.expect("the connection is open").expect("there is an answer");
    }
}

#[tokio::test(start_paused = true)]
async fn l8_held_requests_start_when_all_output_leaves_in_one_write() {
    // There is always room for everything.
    let (here, there) = tokio::io::duplex(100 * 2 * ANSWER);
    let profile = limited(|it| it.outgoing_bytes = ANSWER);
    let _server =
        Peer::builder(Stream::from_io(there)).profile(profile).router(big_answers()).spawn();
    let (reader, mut writer) = tokio::io::split(here);
    let requests: String = (0..100).map(|id| big(id) + "\n").collect();
    writer.write_all(requests.as_bytes()).await.expect("the remote reads");
    let mut lines = BufReader::new(reader).lines();
    for id in 0..100 {
        // The clock does not move while any task can run.
        let line = tokio::time::timeout(Duration::from_secs(1), lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("request {id} is not answered"));
        line.expect("the connection is open").expect("there is an answer");
    }
}

#[tokio::test]
async fn l4_busy_server_can_be_shut_down() {
    let router = Router::new()
        .method("wait", async || -> Result<(), Failure> { std::future::pending().await })
        .shutdown_method("shutdown", async || Ok::<_, Failure>("goodbye"));
    let profile = limited(|it| it.in_flight = 1);
    let (client, server) = Link::Memory.join(&profile, Router::new(), router);
    let waiting = tokio::spawn(client.call::<()>("wait", ()));
    until(|| server.stats().running > 0).await;
    assert_eq!(client.call::<String>("shutdown", ()).await.expect("an answer"), "goodbye");
    assert!(!server.state().is_open());
    waiting.abort();
}

#[tokio::test]
async fn p9_batches_of_many_connections_are_answered_within_the_bound_of_all() {
    let (router, end) = gated(big_answers(), "last", |(): ()| ());
    let hub = Hub::builder()
        .profile(Profile::agent())
        .router(router)
        .max_outgoing_bytes(15 * ANSWER)
        .build();
    let (hub, place, serving) = listen(hub);
    let ping = r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#;
    let last = r#"{"jsonrpc":"2.0","id":"last","method":"last"}"#.to_owned();
    let batch: Vec<_> = std::iter::once(last).chain((0..10).map(big)).collect();
    let batch = format!("[{}]\n{ping}\n", batch.join(","));
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = BufReader::new(connect(&place).await);
        client.write_all(batch.as_bytes()).await.expect("the remote reads");
        // The batch was handled when the first answer arrives: the answer to the batch, or to the ping after
        // it.
        let mut line = String::new();
        client.read_line(&mut line).await.expect("the connection is open");
        clients.push((client, line));
    }
    end.add_permits(4);
    let mut done = Vec::new();
    for (client, lines) in &mut clients {
        client.read_line(lines).await.expect("the connection is open");
        let line = lines.lines().find(|line| line.starts_with('[')).expect("the batch is answered");
        let answers: Vec<Value> = serde_json::from_str(line).expect("an array");
        assert_eq!(answers.len(), 11, "each request is answered");
        done.push(answers.iter().filter(|answer| answer["result"].is_string()).count());
    }
    assert_eq!(done, [10, 10, 0, 0]);
    hub.stop().await;
    serving.await.expect("no panic");
}

/// A server whose one client reads nothing, while another asks for an answer on a worker thread.
#[tokio::test(start_paused = true)]
async fn p9_a_client_that_reads_nothing_is_disconnected_when_others_need_its_memory() {
    let router = Router::new().method("big", async |(bytes,): (usize,)| {
        tokio::task::yield_now().await;
        Ok::<_, Failure>("x".repeat(bytes))
    });
    let hub = Hub::builder()
        .profile(Profile::agent())
        .router(router)
        .max_outgoing_bytes(2_000_000)
        .build();
    let (hub, address, serving) = listen(hub);
    let profile = Profile::agent();
    let connector = Connector::new(&address).expect("an address");
    let transport = connector.connect(&profile).await.expect("the client connects");
    let idle = Peer::builder(transport).profile(profile).router(Router::new()).spawn();
    let mut stuck = connect(&address).await;
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"big","params":[20000000]}"#;
    stuck.write_all(format!("{request}\n").as_bytes()).await.expect("the remote reads");
    while hub.connections() > 1 {
        // The clock runs only while nothing else does.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let answer: String = idle.call("big", (10,)).await.expect("an answer");
    assert_eq!(answer.len(), 10);
    hub.stop().await;
    serving.await.expect("no panic");
}

/// The clock runs only while nothing else does.
#[tokio::test(start_paused = true)]
async fn l3_l5_a_client_that_has_closed_its_end_and_reads_slowly_gets_its_whole_answer() {
    const SIZE: usize = 20_000_000;
    let router =
        Router::new().method("big", async |(bytes,): (usize,)| Ok::<_, Failure>("x".repeat(bytes)));
    let (hub, address, serving) =
        listen(Hub::builder().profile(Profile::agent()).router(router).build());
    for waits in [20, 0, 10_000] {
        let mut slow = connect(&address).await;
        let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"big","params":[{SIZE}]}}"#);
        slow.write_all(format!("{request}\n").as_bytes()).await.expect("the remote reads");
        slow.shutdown().await.expect("the connection is open");
        slow.readable().await.expect("an answer arrives");
        let begun = tokio::time::Instant::now();
        while begun.elapsed().as_secs() < waits && hub.connections() > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let waited = begun.elapsed().as_secs();
        let mut answer = Vec::new();
        let _ = slow.read_to_end(&mut answer).await;
        // The server does not wait for a client that reads nothing.
        match waits {
            10_000 => assert!((25..40).contains(&waited) && answer.len() < SIZE, "{waited} s"),
            _ => assert!(answer.len() > SIZE, "{} bytes, {waited} s", answer.len()),
        }
    }
    hub.stop().await;
    serving.await.expect("no panic");
}

/// The runtime has one thread, and the handler would block it until another connection is served.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn p4_a_slow_handler_holds_up_no_other_connection_of_its_runtime() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let (begun, begins) = tokio::sync::oneshot::channel();
    let begun = std::sync::Mutex::new(Some(begun));
    let handles = Arc::new((begun, released));
    let router = Router::new().method("ping", async || Ok::<_, Failure>("pong")).method(
        "block",
        blocking(move || {
            let begun = handles.0.lock().expect("no panic").take();
            begun.expect("the handler is called once").send(()).expect("the receiver exists");
            let _ = handles.1.lock().expect("no panic").recv();
            "done"
        }),
    );
    let (one, _server) = client_of(router.clone());
    let (other, _server) = client_of(router);
    let blocked = tokio::spawn(one.call::<String>("block", ()));
    begins.await.expect("the handler begins");
    let pong: String = other.call("ping", ()).await.expect("the other connection is served");
    assert_eq!(pong, "pong");
    drop(release);
    assert_eq!(blocked.await.expect("no panic").expect("the call is answered"), "done");
}
