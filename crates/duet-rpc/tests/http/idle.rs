//! Connections that hold a place and send no request (P8), on a clock that moves only when nothing else does.

use std::time::Duration;

use duet_rpc::http::HttpService;
use duet_rpc::transport::Socket;
use duet_rpc::{Failure, Hub, Profile, Remote};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use crate::support::{access, answer, call, methods, post};

const SECOND: Duration = Duration::from_secs(1);

/// The client's end of a connection to a server with this profile and these settings.
fn connect(profile: &Profile, set: impl FnOnce(HttpService) -> HttpService) -> UnixStream {
    let (here, there) = UnixStream::pair().expect("a pair");
    let router = methods().method("nap", async |(seconds,): (u64,)| {
        sleep(SECOND * seconds as u32).await;
        Ok::<_, Failure>(seconds)
    });
    let hub = Hub::builder().profile(*profile).router(router).build();
    let service = set(hub.http_service().access(access()));
    tokio::spawn(service.serve(Socket::unix(there), Remote::new()));
    here
}

/// The bytes until the server closes, and the seconds until then.
async fn read_out(client: &mut UnixStream) -> (String, u64) {
    let begun = Instant::now();
    let mut text = String::new();
    client.read_to_string(&mut text).await.expect("an orderly end");
    // The server looks once more before it gives up, and leaves the client a moment to read its last
    // bytes.
    (text, begun.elapsed().as_secs())
}

/// Sends this, and reads until the answer of that id.
async fn exchange(client: &mut UnixStream, request: &str, expected: &str) {
    client.write_all(request.as_bytes()).await.expect("it is open");
    let mut bytes = Vec::new();
    while !String::from_utf8_lossy(&bytes).contains(expected) {
        let count = client.read_buf(&mut bytes).await.expect("it is open");
        assert!(count > 0, "it was closed: {}", String::from_utf8_lossy(&bytes));
    }
}

#[tokio::test(start_paused = true)]
async fn p8_a_silent_or_idle_http_connection_is_closed_after_30_seconds() {
    let half = "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345";
    let long = Profile::agent().with(|it| it.read_timeout = Some(SECOND * 100));
    let off = Profile::agent().with(|it| it.read_timeout = None);
    // The request, the time at which the server closes, and its last response.
    let rows: [(&str, &Profile, &str, u64, &str); 8] = [
        ("silent", &long, "", 30, ""),
        ("silent without a read timeout", &off, "", 30, ""),
        ("a part of a head", &Profile::agent(), "POST / HT", 30, "HTTP/1.1 408 "),
        ("a part of a head, read timeout 100 s", &long, "POST / HT", 100, "HTTP/1.1 408 "),
        ("a part of a head, no read timeout", &off, "POST / HT", 30, "HTTP/1.1 408 "),
        ("white space", &off, "\r\n", 30, "HTTP/1.1 408 "),
        ("a part of a body", &Profile::agent(), half, 30, "HTTP/1.1 408 "),
        ("a part of a body, read timeout 100 s", &long, half, 100, "HTTP/1.1 408 "),
    ];
    for (case, profile, sent, seconds, status) in rows {
        for is_used in [false, true] {
            let mut client = connect(profile, |server| server);
            if is_used {
                sleep(SECOND * 20).await;
                exchange(&mut client, &post(&call(1)), &answer(1)).await;
            }
            client.write_all(sent.as_bytes()).await.expect("it is open");
            let (text, after) = read_out(&mut client).await;
            assert_eq!(after, seconds, "{case}, used: {is_used}");
            assert!(
                text.starts_with(status) && text.is_empty() == status.is_empty(),
                "{case}: {text}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p8_a_http_connection_that_is_used_stays_open() {
    let off = Profile::agent().with(|it| it.read_timeout = None);
    for profile in [&Profile::agent(), &off] {
        let mut client = connect(profile, |server| server);
        for id in 1..=10 {
            sleep(SECOND * 29).await;
            exchange(&mut client, &post(&call(id)), &answer(id)).await;
        }
        // A handler has all the time that it needs, and the next request as much as the first.
        let nap = r#"{"jsonrpc":"2.0","id":11,"method":"nap","params":[300]}"#;
        exchange(&mut client, &post(nap), r#""id":11,"result":300"#).await;
        sleep(SECOND * 29).await;
        // So has a body, if there is no read timeout.
        let request = post(&call(12));
        let (first, rest) = request.split_at(request.len() - 5);
        client.write_all(first.as_bytes()).await.expect("it is open");
        if profile.read_timeout.is_none() {
            sleep(SECOND * 600).await;
        }
        exchange(&mut client, rest, &answer(12)).await;
        assert_eq!(read_out(&mut client).await, (String::new(), 30));
    }
}

#[tokio::test(start_paused = true)]
async fn p8_the_idle_timeout_of_a_http_connection_is_a_setting() {
    let mut client = connect(&Profile::agent(), |server| server.idle_timeout(Some(SECOND * 200)));
    assert_eq!(read_out(&mut client).await, (String::new(), 200));
    let mut client = connect(&Profile::agent(), |server| server.idle_timeout(None));
    sleep(SECOND * 86_400).await;
    exchange(&mut client, &post(&call(1)), &answer(1)).await;
}

/// The head of a request may have come together with the request before it. Its body has no more time for that.
#[tokio::test(start_paused = true)]
async fn p8_the_body_of_a_pipelined_http_request_has_the_read_timeout_as_a_whole() {
    let mut client = connect(&Profile::agent(), |server| server);
    let head = "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n";
    exchange(&mut client, &[&*post(&call(1)), head].concat(), &answer(1)).await;
    for _ in 0..4 {
        sleep(SECOND * 10).await;
        let _ = client.write_all(b" ").await;
    }
    let (text, after) = read_out(&mut client).await;
    assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
    assert_eq!(after, 0);
}

/// A stream with a buffer, such as TLS, takes an answer before the client does.
#[tokio::test(start_paused = true)]
async fn p8_a_http_client_behind_a_buffer_that_reads_nothing_is_disconnected_after_30_seconds() {
    let (mut client, there) = UnixStream::pair().expect("a pair");
    let hub = Hub::builder().router(methods()).build();
    let service = hub.http_service().access(access());
    let buffered = tokio::io::BufStream::with_capacity(8 << 10, 64 << 10, there);
    tokio::spawn(service.serve(Socket::from_stream(buffered), Remote::new()));
    let many = post(r#"{"jsonrpc":"2.0","id":1,"method":"big","params":[2000]}"#).repeat(10_000);
    let _ = tokio::time::timeout(SECOND, client.write_all(many.as_bytes())).await;
    assert_eq!(hub.connections(), 1);
    sleep(SECOND * 35).await;
    assert_eq!(hub.connections(), 0);
}

/// A client that reads nothing holds its place too.
#[tokio::test(start_paused = true)]
async fn p8_a_http_client_that_reads_nothing_of_its_answer_is_disconnected_after_30_seconds() {
    const SIZE: usize = 4_000_000;
    let large = post(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"big","params":[{SIZE}]}}"#));
    let refused = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(10_000);
    // The request, the number of parts, each more than a socket holds, that the client reads, and whether
    // it then gets everything.
    for (request, looks, is_whole) in [(&large, 0, false), (&large, 4, true), (&refused, 0, false)]
    {
        let mut client = connect(&Profile::agent(), |it| it);
        let request = request.as_bytes();
        let sent = tokio::time::timeout(SECOND, client.write_all(request)).await;
        let mut answer = Vec::new();
        for _ in 0..looks {
            sleep(20 * SECOND).await;
            answer.resize(answer.len() + 300_000, 0);
            let room = answer.len() - 300_000;
            client.read_exact(&mut answer[room..]).await.expect("it is open");
        }
        sleep(if is_whole { 20 } else { 35 } * SECOND).await;
        let read = tokio::time::timeout(SECOND, client.read_to_end(&mut answer)).await;
        match is_whole {
            true => assert!(answer.len() > SIZE && read.is_err(), "{} bytes", answer.len()),
            false => assert!(read.is_ok() && answer.len() < SIZE, "{sent:?} {}", answer.len()),
        }
    }
}
