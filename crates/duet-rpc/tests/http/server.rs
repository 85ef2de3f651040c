//! The HTTP server, request by request.

use duet_rpc::{Context, ErrorKind, Failure, Priority, Profile, Router};
use tokio::sync::mpsc;

use crate::support::{
    Client, access, answer, call, methods, post, post_with, request, result, serve, serve_with,
};

#[tokio::test]
async fn t1_each_body_is_a_message_and_each_response_its_answer() {
    let mut client = Client::to(serve().await).await;
    let error = |id: &str, code: i32, message: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
    };
    let parse_error = error("null", -32700, "Parse error");
    let notification = r#"{"jsonrpc":"2.0","method":"add","params":[1,2]}"#;
    // Without an answer, the status is 202.
    let rows = [
        (call(1), answer(1)),
        // White space around the message, and no content type.
        (format!(" \r\n{}\n", call(2)), answer(2)),
        (notification.to_owned(), String::new()),
        (r#"{"jsonrpc":"2.0","id":7,"result":1}"#.to_owned(), String::new()),
        (format!("[{},{}]", call(1), call(2)), format!("[{},{}]", answer(1), answer(2))),
        (format!("[{notification}]"), String::new()),
        ("{".to_owned(), parse_error.clone()),
        (String::new(), parse_error),
        (request(1, "nope"), error("1", -32601, "Method not found: nope")),
        // The server cannot call back.
        (request(1, "back"), result(1, "false")),
        (call(3), answer(3)),
    ];
    for (body, expected) in rows {
        let response = client.ask(post(&body)).await;
        let status = if expected.is_empty() { 202 } else { 200 };
        assert_eq!((response.status, &*response.body), (status, &*expected), "{body}");
        assert_eq!(response.has("Content-Type: application/json"), status == 200, "{body}");
        assert!(!response.closes(), "{body}");
    }
    client.finish().await;
    client.expect_end().await;
}

#[tokio::test]
async fn t1_calls_notifications_and_events_to_an_http_client_fail_as_one_way() {
    let router = Router::new().method("back", async |cx: Context| {
        let sent = [
            cx.peer().call::<()>("call", ()).await,
            cx.peer().notify("notify", ()).await,
            cx.peer().events("event", "topic").send(Priority::High, &1),
        ];
        Ok::<_, Failure>(sent.map(|sent| sent.map_err(|error| format!("{:?}", error.kind()))))
    });
    let mut client = Client::to(serve_with(Profile::agent(), access(), router).await).await;
    let errors = r#"[{"Err":"OneWay"},{"Err":"OneWay"},{"Err":"OneWay"}]"#;
    assert_eq!(client.ask(post(&request(1, "back"))).await.body, result(1, errors));
}

#[tokio::test]
async fn t1_a_handler_cannot_subscribe_to_notifications_of_the_next_caller() {
    let (taken, mut takes) = mpsc::unbounded_channel();
    let router = Router::new().method("ok", || true).method("subscribe", move |cx: Context| {
        let (mut secrets, taken) = (cx.peer().subscribe::<(String,)>("secret"), taken.clone());
        tokio::spawn(async move {
            while let Some(secret) = secrets.next().await {
                let _ = taken.send(secret.map_err(|error| error.kind()));
            }
        });
    });
    let mut client = Client::to(serve_with(Profile::agent(), access(), router).await).await;
    client.ask(post(&request(1, "subscribe"))).await;
    let secret = r#"{"jsonrpc":"2.0","method":"secret","params":["password"]}"#;
    client.ask(post(secret)).await;
    client.ask(post(&request(2, "ok"))).await;
    assert_eq!(takes.recv().await, Some(Err(ErrorKind::OneWay)));
    assert!(takes.try_recv().is_err(), "nothing came after it");
}

#[tokio::test]
async fn t2_requests_may_come_in_any_pieces_and_chunks() {
    let mut client = Client::to(serve().await).await;
    let body = call(1);
    let (one, two) = body.split_at(10);
    let chunked = format!(
        "POST /rpc HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{one}\r\n{:X};extension=1\r\n{two}\r\n0\r\nTrailer: x\r\n\r\n",
        one.len(),
        two.len()
    );
    for request in [post(&body), chunked, format!("\r\n{}", post(&body))] {
        for byte in request.as_bytes() {
            client.send([*byte]).await;
        }
        assert_eq!(client.response().await.body, answer(1));
        assert_eq!(client.ask(&request).await.body, answer(1));
    }
}

#[tokio::test]
async fn t2_pipelined_requests_are_answered_in_order() {
    let mut client = Client::to(serve().await).await;
    let slow = r#"{"jsonrpc":"2.0","id":1,"method":"slow","params":[50]}"#;
    let notification = r#"{"jsonrpc":"2.0","method":"slow","params":[50]}"#;
    let all = [post(slow), post(notification), post(&call(3)), post("["), post(&call(5))];
    client.send(all.concat()).await;
    assert_eq!(client.response().await.body, result(1, "50"));
    assert_eq!(client.response().await.status, 202);
    assert_eq!(client.response().await.body, answer(3));
    assert!(client.response().await.body.contains("-32700"));
    assert_eq!(client.response().await.body, answer(5));
}

#[tokio::test]
async fn t2_a_client_that_closes_its_end_is_gone() {
    let address = serve().await;
    // One whose request is served, a silent one, and one whose head is cut off.
    for said in [&*post(&request(1, "never")), "", "POST /rpc HTTP/1.1\r\nHost: localhost\r\nCon"] {
        let mut client = Client::to(address).await;
        client.send(said).await;
        client.finish().await;
        client.expect_end().await;
    }
}

/// Otherwise a count of bad messages would affect the next caller, who may share the connection.
#[tokio::test]
async fn f7_every_bad_http_request_is_answered_however_many_came_before() {
    let profile = Profile::agent().with(|it| it.limits.answered_faults = 2);
    let mut client = Client::to(serve_with(profile, access(), methods()).await).await;
    for body in ["{", "[1]", "1", "[1,2]", r#"{"jsonrpc":"2.0","id":5,"method":5}"#, "{"] {
        let response = client.ask(post(body)).await;
        assert_eq!(response.status, 200, "{body}");
        assert!(response.body.contains(r#""error":{"code":-32"#), "{body}: {}", response.body);
    }
}

#[tokio::test]
async fn l3_requests_behind_a_batch_that_fills_the_queue_are_answered() {
    let profile = Profile::desktop().with(|it| it.limits.waiting = 1);
    let mut client = Client::to(serve_with(profile, access(), methods()).await).await;
    let slow = r#"{"jsonrpc":"2.0","id":1,"method":"slow","params":[1000]}"#;
    client.send(post(&format!("[{slow},{slow},{slow}]")) + &post(&call(1)) + &post(&call(2))).await;
    assert_eq!(client.response().await.body.matches("result").count(), 3);
    assert_eq!(client.response().await.body, answer(1));
    assert_eq!(client.response().await.body, answer(2));
}

#[tokio::test]
async fn t2_expect_100_continue_gets_leave_to_send_the_body() {
    let mut client = Client::to(serve().await).await;
    let request = post_with("Expect: 100-continue\r\n", &call(1));
    let (head, body) = request.split_once("\r\n\r\n").expect("two parts");
    for _ in 0..2 {
        client.send(format!("{head}\r\n\r\n")).await;
        let leave = client.response().await;
        assert_eq!(leave.head, "HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(client.ask(body).await.body, answer(1));
    }
    // A body that is here already gets leave too, and one that is too long gets none.
    assert_eq!(client.ask(&request).await.status, 100);
    assert_eq!(client.response().await.status, 200);
    let head = "POST /rpc HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n";
    assert_eq!(client.ask(format!("{head}Content-Length: 2000000000\r\n\r\n")).await.status, 413);
    client.expect_end().await;
}

#[tokio::test]
async fn t2_http_1_0_closes_unless_it_asks_not_to() {
    let address = serve().await;
    let http_1_0 = |headers: &str| {
        let (body, length) = (call(1), call(1).len());
        format!("POST /rpc HTTP/1.0\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
    };
    let mut client = Client::to(address).await;
    let response = client.ask(http_1_0("Connection: Keep-Alive\r\n")).await;
    assert!(response.has("Connection: keep-alive") && response.body == answer(1), "{response:?}");
    assert_eq!(client.ask(http_1_0("")).await.body, answer(1));
    client.expect_end().await;

    let mut client = Client::to(address).await;
    let response = client.ask(post_with("Connection: close\r\n", &call(1))).await;
    assert!(response.closes() && response.body == answer(1), "{response:?}");
    client.expect_end().await;
}

#[tokio::test]
async fn t3_refused_requests_get_a_status_and_a_reason() {
    let with = |header: &str| post("1").replace("Content-Length: 1", header);
    let without_body = |method: &str| format!("{method} /rpc HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let rows: [(String, u16, &str, bool); 27] = [
        ("GARBAGE\r\n\r\n".into(), 400, "", true),
        ("{\"jsonrpc\"".into(), 400, "", true),
        ("POST /rpc HTTP/1.1\r\nContent-Length: 0\r\n\r\n".into(), 400, "", false),
        ("POST /rpc HTTP/3.0\r\nHost: localhost\r\n\r\n".into(), 400, "", true),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), 505, "", true),
        (format!("POST /rpc HTTP/1.1\r\nA: {}", "a".repeat(9000)), 431, "", true),
        (post("1").replace("localhost", "evil.example"), 403, "", false),
        (post("1").replace("localhost", "user@localhost"), 400, "", false),
        (post_with("Origin: http://evil.example\r\n", "1"), 403, "", false),
        (post_with("Origin: null\r\n", "1"), 403, "", false),
        (post("1").replace("/rpc", "/other"), 404, "", false),
        (post("1").replace("/rpc", "/rpc/"), 404, "", false),
        (post("1").replace("POST", "PUT"), 405, "Allow: POST", false),
        (without_body("GET"), 405, "Allow: POST", false),
        (without_body("OPTIONS"), 405, "Allow: POST", false),
        (without_body("POST"), 411, "", false),
        (post_with("Expect: tea\r\n", "1"), 417, "", true),
        (post_with("Host: localhost\r\n", "1"), 400, "", false),
        (with("Transfer-Encoding: gzip"), 400, "", true),
        (with("Transfer-Encoding: gzip, chunked"), 501, "", true),
        (with("Transfer-Encoding: chunked, chunked"), 501, "", true),
        (with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), 400, "", true),
        (with("Transfer-Encoding: chunked\r\n\r\nx"), 400, "", true),
        (with("Content-Length: 1048577"), 413, "", true),
        // A body that is not read ends the connection, unless it is short.
        (post(&" ".repeat(9000)).replace("/rpc", "/other"), 404, "", true),
        (
            "POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".into(),
            404,
            "",
            true,
        ),
        (post_with("Connection: close\r\n", "").replace("/rpc", "/x"), 404, "", true),
    ];
    let address = serve().await;
    for (request, status, header, closes) in rows {
        let mut client = Client::to(address).await;
        let response = client.ask(&request).await;
        assert_eq!((response.status, response.closes()), (status, closes), "{request:.60}");
        assert!(header.is_empty() || response.has(header), "{response:?}");
        let is_told = response.body.ends_with(".\n") || response.body.contains("-32600");
        assert!(is_told, "{response:?}");
        if closes {
            client.expect_end().await;
        } else {
            assert_eq!(client.ask(post(&call(1))).await.body, answer(1), "{request:.60}");
        }
    }
    let mut client = Client::to(address).await;
    client.send(without_body("HEAD")).await;
    assert_eq!(client.response_to(true).await.status, 405);
    assert_eq!(client.ask(post(&call(1))).await.body, answer(1), "there was no body");
}

#[tokio::test]
async fn t3_a_token_is_needed_where_there_is_one() {
    let address = serve_with(Profile::agent(), access().token("s3cret"), methods()).await;
    let mut client = Client::to(address).await;
    for (header, status) in [
        ("", 401),
        ("Authorization: Bearer wrong\r\n", 401),
        ("Authorization: Bearer s3cret\r\n", 200),
        ("Authorization: bearer s3cret\r\n", 200),
    ] {
        let response = client.ask(post_with(header, &call(1))).await;
        assert_eq!(response.status, status, "{header}");
        assert_eq!(response.has("WWW-Authenticate: Bearer"), status == 401);
        assert!(!response.body.contains("s3cret") && !response.body.contains("wrong"));
    }
}

#[tokio::test]
async fn t3_pages_of_allowed_origins_are_served_with_cors_headers() {
    let access = access().token("s3cret").allow_origin("https://a.example");
    let mut client = Client::to(serve_with(Profile::agent(), access, methods()).await).await;
    let preflight = |origin: &str| {
        format!(
            "OPTIONS /rpc HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n\
             Access-Control-Request-Method: POST\r\n\r\n"
        )
    };
    let response = client.ask(preflight("https://a.example")).await;
    assert_eq!(response.status, 204);
    assert!(response.has("Access-Control-Allow-Origin: https://a.example"), "{response:?}");
    assert!(response.has("Access-Control-Allow-Methods: POST"), "{response:?}");
    assert!(response.has("Vary: Origin") && !response.head.contains("Content-Length"));

    let page = "Origin: https://a.example\r\n";
    let token = "Authorization: Bearer s3cret\r\n";
    for (headers, body, status) in [
        (format!("{page}{token}"), call(1), 200),
        (format!("{page}{token}"), r#"{"jsonrpc":"2.0","method":"x"}"#.into(), 202),
        (page.to_owned(), call(1), 401),
    ] {
        let response = client.ask(post_with(&headers, &body)).await;
        assert_eq!(response.status, status);
        assert!(response.has("Access-Control-Allow-Origin: https://a.example"), "{response:?}");
    }
    // Other origins get no header, and the server's own pages need none.
    for origin in ["https://b.example", "null"] {
        let response = client.ask(preflight(origin)).await;
        assert_eq!(response.status, 403);
        assert!(!response.head.contains("Access-Control"), "{response:?}");
    }
    let own = format!("Origin: http://localhost\r\n{token}");
    let response = client.ask(post_with(&own, &call(1))).await;
    assert!(response.status == 200 && !response.head.contains("Access-Control"), "{response:?}");
    let options = format!("OPTIONS /rpc HTTP/1.1\r\nHost: localhost\r\n{token}\r\n");
    let response = client.ask(options).await;
    assert!(response.status == 405 && response.has("Allow: POST, OPTIONS"), "{response:?}");
}

#[tokio::test]
async fn t2_a_large_answer_leaves_in_many_pieces() {
    let mut client = Client::to(serve().await).await;
    let big = r#"{"jsonrpc":"2.0","id":1,"method":"big","params":[8000000]}"#;
    client.send([post(big), post(&call(2))].concat()).await;
    // Nobody reads until the sender has had to wait.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let response = client.response().await;
    assert_eq!(response.body.len(), 8_000_000 + r#"{"jsonrpc":"2.0","id":1,"result":""}"#.len());
    assert_eq!(client.response().await.body, answer(2));
}

#[tokio::test]
async fn t2_m6_every_request_of_a_batch_with_shutdown_is_answered() {
    let mut client = Client::to(serve().await).await;
    let batch = format!("[{},{},{}]", call(1), request(2, "shutdown"), call(3));
    let response = client.ask(post(&batch)).await;
    let error = r#"{"code":-32600,"message":"Invalid Request","data":{"reason":"shutting-down"}}"#;
    let late = format!(r#"{{"jsonrpc":"2.0","id":3,"error":{error}}}"#);
    let expected = format!("[{},{},{late}]", answer(1), result(2, r#""bye""#));
    assert_eq!((response.status, response.body), (200, expected));
    client.expect_end().await;
}

#[tokio::test]
async fn t2_shutdown_ends_the_connection_that_it_came_on() {
    let address = serve().await;
    let mut other = Client::to(address).await;
    let mut client = Client::to(address).await;
    let answered = client.ask(post(&request(1, "shutdown"))).await.body;
    assert_eq!(answered, result(1, r#""bye""#));
    client.expect_end().await;
    assert_eq!(other.ask(post(&call(1))).await.body, answer(1));
}

#[tokio::test]
async fn l2_messages_of_one_connection_do_not_hold_up_those_of_another() {
    let (begun, mut has_begun) = mpsc::unbounded_channel();
    let router = methods().method("hang", move || {
        let _ = begun.send(());
        std::future::pending::<Result<(), Failure>>()
    });
    let address = serve_with(Profile::editor(), access(), router).await;
    let mut stuck = Client::to(address).await;
    stuck.send(post(&request(1, "hang"))).await;
    has_begun.recv().await.expect("it runs");
    let mut client = Client::to(address).await;
    assert_eq!(client.ask(post(&call(1))).await.body, answer(1));
}

#[tokio::test]
async fn t1_a_router_with_nothing_in_it_answers_too() {
    let mut client = Client::to(serve_with(Profile::agent(), access(), Router::new()).await).await;
    assert!(client.ask(post(&call(1))).await.body.contains("-32601"));
}
