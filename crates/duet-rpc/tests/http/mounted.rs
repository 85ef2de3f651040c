//! The service inside another web server: requests that somebody else has read.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use duet_rpc::http::{HttpBody, HttpService, service};
use duet_rpc::transport::{Connector, memory};
use duet_rpc::{Context, Error, ErrorKind, Failure, Hub, Peer, Profile, Remote, Router};
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tower_service::Service;

use crate::support::{access, answer, call, listen, methods, request};

/// A POST of this body.
pub(crate) fn post(body: &str) -> Request<String> {
    let request = Request::post("/any").header("Host", "localhost");
    request.header("Content-Length", body.len()).body(body.to_owned()).expect("a request")
}

pub(crate) async fn send(service: &HttpService, request: Request<String>) -> Response<HttpBody> {
    let Ok(response) = service.clone().call(request).await;
    response
}

pub(crate) async fn text(response: Response<HttpBody>) -> String {
    let Ok(body) = response.into_body().collect().await;
    String::from_utf8(body.to_bytes().to_vec()).expect("text")
}

#[tokio::test]
async fn t1_a_mounted_service_answers_as_a_listener_does() {
    let service = service(methods());
    let foreign = |mut request: Request<String>| {
        request.headers_mut().insert("Host", "evil.example".parse().expect("a value"));
        request
    };
    let get = Request::get("/any").header("Host", "localhost").body(String::new());
    for (request, status, body) in [
        (post(&call(1)), 200, &*answer(1)),
        (post(r#"{"jsonrpc":"2.0","method":"add","params":[1,2]}"#), 202, ""),
        (post("{"), 200, "-32700"),
        (foreign(post(&call(1))), 403, "Host"),
        (get.expect("a request"), 405, "Only POST"),
        (post(&" ".repeat(1 << 21)), 413, "oversize"),
    ] {
        let response = send(&service, request).await;
        assert_eq!(response.status(), status);
        let told = text(response).await;
        assert!(told.contains(body), "{told}");
    }
}

#[tokio::test]
async fn t1_requests_of_a_mounted_service_run_at_the_same_time() {
    let (first, second) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (one, two) = (Arc::clone(&first), Arc::clone(&second));
    let router = Router::new().method("meet", move |(is_first,): (bool,)| {
        let (one, two) = (Arc::clone(&one), Arc::clone(&two));
        async move {
            let (tells, waits) = if is_first { (one, two) } else { (two, one) };
            tells.notify_one();
            waits.notified().await;
            is_first
        }
    });
    let service = service(router);
    let meet = |id: u32| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"meet","params":[{}]}}"#, id == 1)
    };
    let (one, two) = (post(&meet(1)), post(&meet(2)));
    let (one, two) = tokio::join!(send(&service, one), send(&service, two));
    assert_eq!((one.status(), two.status()), (200.try_into().expect("ok"), two.status()));
}

#[tokio::test]
async fn t3_a_handler_knows_the_remote_and_the_headers_of_its_request() {
    let router = Router::new().method("who", |cx: Context| {
        let tenant = cx.headers().and_then(|headers| headers.get("x-tenant")?.to_str().ok());
        (cx.remote_addr().map(|addr| addr.port()), tenant.map(str::to_owned))
    });
    let router = router.guard(|message| match message.headers() {
        Some(headers) if headers.contains_key("x-tenant") => Ok(()),
        _ => Err(Failure::new(7, "no tenant")),
    });
    let service = service(router);
    let mut known = post(&request(1, "who"));
    known.headers_mut().insert("x-tenant", "acme".parse().expect("a value"));
    known.extensions_mut().insert(Remote::new().with_addr(([127, 0, 0, 1], 7).into()));
    assert!(text(send(&service, known).await).await.contains(r#""result":[7,"acme"]"#));
    let unknown = text(send(&service, post(&request(1, "who"))).await).await;
    assert!(unknown.contains("no tenant"), "{unknown}");
}

#[tokio::test]
async fn p5_a_request_that_is_dropped_cancels_its_handler() {
    struct Dropped(mpsc::UnboundedSender<&'static str>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }
    let (events, mut seen) = mpsc::unbounded_channel();
    let router = Router::new().method("hang", move || {
        let guard = Dropped(events.clone());
        let _ = events.send("begun");
        async move {
            let _guard = guard;
            std::future::pending::<Result<(), Failure>>().await
        }
    });
    let service = service(router);
    let asking = tokio::spawn(async move { send(&service, post(&request(1, "hang"))).await });
    assert_eq!(seen.recv().await, Some("begun"));
    asking.abort();
    assert_eq!(seen.recv().await, Some("dropped"));
}

#[tokio::test]
async fn p8_l4_requests_count_as_connections_and_a_hub_that_stops_answers_them() {
    let (begun, mut has_begun) = mpsc::unbounded_channel();
    let go = Arc::new(Notify::new());
    let goes = Arc::clone(&go);
    let router = methods().method("wait", move || {
        let _ = begun.send(());
        let goes = Arc::clone(&goes);
        async move {
            goes.notified().await;
            "done"
        }
    });
    let profile = Profile::agent().with(|it| it.drain_timeout = Duration::from_millis(200));
    let hub = Hub::builder().profile(profile).router(router).max_connections(2).build();
    let service = hub.http_service();
    let ask = |method: &'static str| {
        let service = service.clone();
        tokio::spawn(async move { send(&service, post(&request(1, method))).await })
    };
    let waits = ask("wait");
    has_begun.recv().await.expect("it runs");
    let never = ask("never");
    while hub.connections() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(send(&service, post(&call(1))).await.status(), 503);
    let stopped = hub.stop();
    go.notify_one();
    assert!(text(waits.await.expect("no panic")).await.contains("done"));
    // A slow handler never becomes an empty 202.
    let given_up = never.await.expect("no panic");
    assert_eq!(given_up.status(), 503);
    drop(given_up);
    stopped.await;
    let refused = send(&service, post(&call(1))).await;
    assert_eq!(refused.status(), 503);
    assert_eq!(text(refused).await, "The server is stopping. Try again later.\n");
}

/// Another server, with a route of its own.
async fn other_server(service: HttpService) -> std::net::SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let service = service.clone();
            let serve =
                hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
                    let mut service = service.clone();
                    async move {
                        match request.uri().path() {
                            "/rpc" => {
                                service.call(request).await.map(|it| it.map(BodyExt::boxed_unsync))
                            }
                            _ => Ok::<_, Infallible>(Response::new(
                                "other".to_owned().boxed_unsync(),
                            )),
                        }
                    }
                });
            let io = hyper_util::rt::TokioIo::new(stream);
            let serving = hyper::server::conn::http1::Builder::new().serve_connection(io, serve);
            tokio::spawn(serving.with_upgrades());
        }
    });
    address
}

#[cfg(feature = "websocket")]
#[tokio::test]
async fn t1_one_route_of_another_server_serves_posts_and_web_sockets() {
    let router = methods().method("host", |cx: Context| {
        let host = cx.headers().and_then(|headers| headers.get("host")?.to_str().ok());
        host.map(str::to_owned)
    });
    let hub = Hub::builder().router(router).build();
    let address = other_server(hub.http_service().access(access())).await;
    for scheme in ["http", "ws"] {
        let connector = Connector::new(&*format!("{scheme}://{address}/rpc")).expect("an address");
        let transport = connector.connect(&Profile::agent()).await.expect("a connection");
        let client = Peer::builder(transport).spawn();
        for n in 0..10 {
            assert_eq!(client.call::<i64>("add", (n, 1)).await.expect("a sum"), n + 1);
        }
        assert_eq!(hub.connections(), usize::from(scheme == "ws"));
        assert_eq!(client.call::<String>("host", ()).await.expect("a host"), address.to_string());
        client.close().await;
    }
    hub.stop().await;
}

#[tokio::test]
async fn p8_a_hub_serves_connections_that_were_accepted_elsewhere() {
    let router = Router::new().method("port", |cx: Context| cx.remote_addr().map(|it| it.port()));
    let hub = Hub::builder().router(router).max_connections(1).build();
    let (here, there) = memory::pair();
    let remote = Remote::new().with_addr(([192, 0, 2, 1], 9).into());
    drop(hub.attach(there, remote).expect("there is room"));
    let client = Peer::builder(here).spawn();
    assert_eq!(client.call::<Value>("port", ()).await.expect("it is served"), json!(9));
    assert_eq!((hub.connections(), hub.peers().len()), (1, 1));
    let full: Result<_, Error> = hub.attach(memory::pair().0, Remote::new());
    assert_eq!(full.expect_err("there is none").kind(), ErrorKind::Capacity);
    hub.stop().await;
    client.closed().await;
}
