//! Requests of one method in a burst get the same answers as a single request (E1, E2, P7).

use std::fmt;

use duet_rpc::proto::message::{Code, ErrorObject};
use duet_rpc::transport::Stream;
use duet_rpc::{Context, Failure, Peer, Profile, Router, quick};
use serde::{Serialize, Serializer};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// Cannot be written as JSON, or panics while it is written.
enum Unwritable {
    Fails,
    Panics,
}

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut parts = serializer.serialize_seq(None)?;
        serde::ser::SerializeSeq::serialize_element(&mut parts, "half of it is written")?;
        match self {
            Unwritable::Fails => Err(serde::ser::Error::custom("no")),
            Unwritable::Panics => panic!("while writing"),
        }
    }
}

/// Its drop panics, once it is fully constructed.
struct Bomb(bool);

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.0, "while it is dropped");
    }
}

impl Serialize for Bomb {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("a bomb")
    }
}

impl fmt::Debug for Bomb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bomb")
    }
}

const METHODS: [&str; 10] =
    ["echo", "fail", "panic", "typed", "late", "fails", "panics", "bomb", "who", "tell"];

fn router() -> Router {
    Router::new()
        .method("echo", quick(async |params: Value| params))
        .method(
            "fail",
            quick(async |_: Value| {
                Err::<(), Failure>(ErrorObject::server_busy(Code::SERVER_BUSY, 7).into())
            }),
        )
        .method("panic", quick(async |_: Value| -> () { panic!("at once") }))
        .method("typed", quick(async |(_, _): (i64, i64)| ()))
        .method(
            "late",
            quick(async |params: Value| {
                tokio::task::yield_now().await;
                params
            }),
        )
        .method("fails", quick(async |_: Value| Unwritable::Fails))
        .method("panics", quick(async |_: Value| Unwritable::Panics))
        .method("bomb", quick(async |_: Value| Bomb(true)))
        .method("who", quick(async |_: Value, cx: Context| cx.id().map(ToString::to_string)))
        .method(
            "tell",
            quick(async |_: Value, cx: Context| {
                cx.peer().notify("told", [1]).await?;
                Ok::<_, duet_rpc::Error>("told")
            }),
        )
}

fn request(id: &str, method: &str) -> String {
    let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":[{id}]}}"#);
    message + "\n"
}

/// The answers to these requests, up to the answer to the last.
async fn answers(requests: &[String], at_once: bool) -> Vec<String> {
    let (here, there) = tokio::io::duplex(1 << 20);
    let _peer =
        Peer::builder(Stream::from_io(here)).profile(Profile::agent()).router(router()).spawn();
    let mut remote = BufReader::new(there);
    let mut lines = Vec::new();
    let bursts = if at_once { vec![requests.concat()] } else { requests.to_vec() };
    for burst in &bursts {
        remote.write_all(burst.as_bytes()).await.expect("the remote reads");
        let mut left = burst.lines().count();
        while left > 0 {
            let mut line = String::new();
            remote.read_line(&mut line).await.expect("the connection is open");
            left -= usize::from(line.contains("\"id\":"));
            lines.push(line);
        }
    }
    lines
}

#[tokio::test]
async fn e1_e2_p7_request_in_a_burst_gets_the_same_answer_as_a_single_one() {
    duet_rpc::panic_guard::silence_hook();
    for method in METHODS {
        let ids = ["1", "\"2\"", "3", "\"4\"", "5", "\"6\""];
        let requests = ids.map(|id| request(id, method));
        let alone = answers(&requests, false).await;
        let in_burst = answers(&requests, true).await;
        assert_eq!(in_burst, alone, "{method}");
        let expect = if method == "tell" { 12 } else { 6 };
        assert_eq!(alone.len(), expect, "{method}: {alone:?}");
    }
}

#[tokio::test]
async fn other_methods_inside_a_burst_change_no_answer() {
    let methods = ["echo", "echo", "who", "nobody", "echo"];
    let requests: Vec<_> =
        (1..=40).map(|id: usize| request(&id.to_string(), methods[id % 5])).collect();
    assert_eq!(answers(&requests, true).await, answers(&requests, false).await);
}
