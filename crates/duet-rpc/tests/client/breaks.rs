//! Calls when a connection breaks.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Context as TaskContext, Poll, Wake, Waker, ready};
use std::time::Duration;

use duet_rpc::transport::memory::Memory;
use duet_rpc::transport::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};
use duet_rpc::{
    Backoff, Call, Client, ClientState, CloseReason, Disconnect, ErrorKind, Failure, Profile,
    Router,
};
use tokio::time::Instant;

use crate::links::{self, until};
use crate::{
    Does, LONG, MS, PLAIN, World, assert_interrupted, assert_over, assert_works, echo, reason,
};

#[tokio::test(start_paused = true)]
async fn p6_client_reconnects_after_each_break() {
    let world = World::new(echo());
    let client = world.connected().await;
    for connection in 1..=5 {
        assert_eq!(world.connections(), connection);
        assert_works(&client).await;
        tokio::time::advance(LONG).await;
        world.break_off(&client).await;
        client.connected().await.expect("the client reconnects");
        let peer = client.peer().expect("the client is connected");
        assert_eq!(peer.call::<String>("echo", ["y"]).await.expect("the call is answered"), "y");
    }
    client.close().await;
    assert_over(&client, CloseReason::Closed).await;
}

#[tokio::test(start_paused = true)]
async fn p5_p6_calls_pending_at_a_break_fail_immediately_as_interrupted() {
    let world = World::new(echo());
    let client = world.connected().await;
    let call = |_| tokio::spawn(client.call::<()>("never", ()).no_timeout());
    let calls: Vec<_> = (0..1000).map(call).collect();
    let peer = client.peer().expect("the client is connected");
    until(|| peer.stats().pending_calls == 1000).await;
    world.always(Does::Hang);
    // The clock moves while the server waits for its handlers, but not after that.
    world.server().close().await;
    let since = Instant::now();
    let mut ids = Vec::new();
    for call in calls {
        let error = call.await.expect("no panic").expect_err("the connection broke");
        assert_interrupted(&error);
        assert_eq!(reason(&error), Some(CloseReason::RemoteClosed));
        assert!(error.was_sent(), "the server may have acted on it");
        let id =
            error.id().and_then(|id| id.as_u64()).expect("the error has the id of the request");
        let text = format!("the connection broke before the answer came (request {id})");
        assert_eq!(error.to_string(), text);
        ids.push(id);
    }
    assert_eq!(since.elapsed(), Duration::ZERO);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 1000, "each failed once");
    assert_eq!(peer.stats().pending_calls, 0);
}

#[tokio::test(start_paused = true)]
async fn p6_calls_between_two_connections_fail_immediately_and_are_never_sent() {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let router = echo().method("count", move || {
        counter.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, Failure>(()) }
    });
    let world = World::new(router);
    let client = world.connected().await;
    world.next([Does::Fail(io::ErrorKind::ConnectionRefused)]);
    world.break_off(&client).await;
    let since = Instant::now();
    for _ in 0..100 {
        let call = client.call::<()>("count", ());
        assert!(call.id().is_null(), "the call has no id");
        let error = call.await.expect_err("there is no connection");
        assert_interrupted(&error);
        assert!(error.id().is_none() && !error.was_sent());
        let error = client.notify("count", ()).await.expect_err("no connection");
        assert_interrupted(&error);
        assert!(!error.was_sent());
    }
    assert_eq!(since.elapsed(), Duration::ZERO);
    client.connected().await.expect("the client reconnects");
    assert_works(&client).await;
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

/// Polls its call at the moment of its wake-up, before any other task runs.
struct Look {
    client: Client,
    call: Mutex<Pin<Box<Call<()>>>>,
    /// The error, and `true` if the client seems connected.
    seen: Mutex<Option<(ErrorKind, bool)>>,
}

impl Wake for Look {
    fn wake(self: Arc<Self>) {
        let mut call = self.call.lock().expect("no panic");
        let Poll::Ready(done) = call.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()))
        else {
            return;
        };
        let kind = done.expect_err("it breaks").kind();
        *self.seen.lock().expect("no panic") = Some((kind, self.client.state().is_connected()));
    }
}

#[tokio::test(start_paused = true)]
async fn p5_p6_state_is_not_connected_when_a_call_reports_the_break() {
    let world = World::new(echo());
    let client = world.connected().await;
    let call = Mutex::new(Box::pin(client.call::<()>("never", ())));
    let look = Arc::new(Look { client: client.clone(), call, seen: Mutex::default() });
    let waker = Waker::from(Arc::clone(&look));
    let polled =
        look.call.lock().expect("no panic").as_mut().poll(&mut TaskContext::from_waker(&waker));
    assert!(polled.is_pending());
    until(|| world.server().stats().running == 1).await;
    world.server().close().await;
    until(|| look.seen.lock().expect("no panic").is_some()).await;
    assert_eq!(*look.seen.lock().expect("no panic"), Some((ErrorKind::Interrupted, false)));
}

#[tokio::test(start_paused = true)]
async fn p5_p6_an_error_says_why_there_is_no_connection() {
    let world = World::new(echo());
    let client = world.client(Router::new()).start();
    let error = client.call::<()>("echo", ["x"]).await.expect_err("the client has just started");
    assert_eq!(
        format!("{error:#}"),
        "the connection is down, the client is reconnecting: the first connection is not ready"
    );
    client.connected().await.expect("the client connects");
    world.next([Does::Hang]);
    world.server().close().await;
    until(|| matches!(client.state(), ClientState::Connecting { cause: Some(_), .. })).await;
    let error = client.call::<()>("echo", ["x"]).await.expect_err("no connection");
    assert_eq!(
        format!("{error:#}"),
        "the connection is down, the client is reconnecting: closed by the remote"
    );
    let mut watch = client.watch();
    let failed = |state: &ClientState| matches!(state, ClientState::Connecting { attempt: 3, .. });
    watch.wait_for(failed).await.expect("the state changes");
    let error = client.call::<()>("echo", ["x"]).await.expect_err("no connection");
    assert_interrupted(&error);
    assert_eq!(reason(&error), Some(CloseReason::ConnectFailed));
    assert_eq!(
        format!("{error:#}"),
        "the connection is down, the client is reconnecting: connecting to the remote \
         failed: cannot connect: the attempt timed out"
    );
}

#[tokio::test(start_paused = true)]
async fn p6_waiting_for_a_connection_and_retrying_never_spins() {
    // The runtime has one thread, and this loop yields only if the client makes it wait.
    let world = World::new(echo());
    let client = world.connected().await;
    let mut tries = 0;
    for _ in 0..50 {
        let closing = world.server().close();
        loop {
            tries += 1;
            match client.call::<String>("echo", ["x"]).await {
                Ok(_) if client.peer().is_some() && world.server().state().is_open() => break,
                Ok(_) => {}
                Err(error) => {
                    assert_interrupted(&error);
                    client.connected().await.expect("the client reconnects");
                }
            }
        }
        closing.await;
    }
    assert_eq!(world.connections(), 51);
    assert!(tries < 300, "{tries}");
}

#[tokio::test(start_paused = true)]
async fn p6_watch_shows_each_state_of_a_client() {
    let world = World::new(echo());
    world.next([Does::Fail(io::ErrorKind::NotFound)]);
    let client = world.client(Router::new()).start();
    let mut watch = client.watch();
    let mut seen = Vec::new();
    let mut closed = false;
    loop {
        let state = watch.borrow_and_update().clone();
        seen.push(match &state {
            ClientState::Connecting { attempt, cause } => {
                format!("{attempt} {:?}", cause.as_ref().map(Disconnect::reason))
            }
            ClientState::Connected if closed => "connected again".to_owned(),
            ClientState::Connected => "connected".to_owned(),
            ClientState::Disconnected(end) => format!("{:?}", end.reason()),
            other => format!("{other:?}"),
        });
        match state {
            ClientState::Connected if !closed => {
                closed = true;
                world.next([Does::Hang]);
                tokio::time::advance(LONG).await;
                drop(world.server().close());
            }
            ClientState::Connected => drop(client.close()),
            ClientState::Disconnected(_) => break,
            _ => {}
        }
        watch.changed().await.expect("the client exists");
    }
    // The watch may miss a short-lived state.
    seen.retain(|state| state != "1 None");
    let failed = "2 Some(ConnectFailed)";
    let broken = "1 Some(RemoteClosed)";
    assert_eq!(seen, [failed, "connected", broken, failed, "connected again", "Closed"]);
}

/// A transport that fails to read on request, and then closes slowly.
struct Slow {
    memory: Memory,
    breaks: tokio::sync::oneshot::Receiver<()>,
    closing: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Transport for Slow {
    fn kind(&self) -> TransportKind {
        self.memory.kind()
    }

    fn poll_receive(
        &mut self,
        cx: &mut task::Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        match Pin::new(&mut self.breaks).poll(cx) {
            Poll::Ready(_) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Poll::Pending => self.memory.poll_receive(cx, inbox),
        }
    }

    fn poll_send(
        &mut self,
        cx: &mut task::Context<'_>,
        outbox: &mut Outbox,
    ) -> Poll<io::Result<()>> {
        self.memory.poll_send(cx, outbox)
    }

    fn poll_close(&mut self, cx: &mut task::Context<'_>) -> Poll<ExitReport> {
        let closing = || Box::pin(tokio::time::sleep(LONG));
        ready!(self.closing.get_or_insert_with(closing).as_mut().poll(cx));
        self.memory.poll_close(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn p5_p6_calls_fail_immediately_while_a_broken_connection_closes_slowly() {
    let (world, breaks) = (World::new(echo()), Arc::new(Mutex::new(None)));
    let (servers, breaker) = (world.clone(), Arc::clone(&breaks));
    let connector = move || {
        let (servers, (tell, breaks)) = (servers.clone(), tokio::sync::oneshot::channel());
        *breaker.lock().expect("no panic") = Some(tell);
        async { Ok(Slow { memory: servers.connect().await?, breaks, closing: None }) }
    };
    let client =
        Client::builder(connector).profile(Profile::agent()).router(Router::new()).backoff(PLAIN);
    let client = client.connect().await.expect("the client connects");
    assert_works(&client).await;
    let pending = tokio::spawn(client.call::<()>("never", ()).no_timeout());
    until(|| world.server().stats().running == 1).await;
    let since = Instant::now();
    let tell = breaks.lock().expect("no panic").take().expect("there is a connection");
    tell.send(()).expect("it listens");
    let error = pending.await.expect("no panic").expect_err("it broke");
    assert_interrupted(&error);
    assert_eq!(reason(&error), Some(CloseReason::ReadFailed));
    assert!(client.peer().is_none());
    assert_interrupted(&client.call::<()>("echo", ["x"]).await.expect_err("it broke"));
    assert_interrupted(&client.notify("echo", ["x"]).await.expect_err("it broke"));
    assert_eq!(since.elapsed(), Duration::ZERO);
    client.connected().await.expect("the client reconnects");
    assert!(since.elapsed() >= LONG, "there is never a second connection");
    assert_works(&client).await;
}

/// On real threads and a real clock.
#[test]
fn p6_many_retrying_callers_all_succeed_across_many_breaks() {
    const CALLERS: usize = 16;
    const CALLS: usize = 200;

    links::on_both_runtimes("many breaks", || async {
        let world = World::new(echo());
        let client = world.client(Router::new());
        let brief = Backoff { first: MS(1), most: MS(2), ..Backoff::default() };
        let client = client.backoff(brief).connect().await.expect("the client connects");
        let done = Arc::new(AtomicUsize::new(0));
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (client, done) = (client.clone(), Arc::clone(&done));
                tokio::spawn(async move {
                    for _ in 0..CALLS {
                        while let Err(error) = client.call::<String>("echo", ["x"]).await {
                            assert_interrupted(&error);
                            client.connected().await.expect("the client reconnects");
                        }
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for breaks in 1..=20 {
            until(|| done.load(Ordering::SeqCst) >= breaks * CALLERS * CALLS / 25).await;
            drop(world.server().close());
        }
        for caller in callers {
            caller.await.expect("no panic");
        }
        assert_eq!(done.load(Ordering::SeqCst), CALLERS * CALLS);
        assert_eq!(client.close().await.reason(), CloseReason::Closed);
    });
}
