//! B6–B10: many clients share one server.

use std::collections::BTreeMap;

use duet_rpc::proto::frame::Framing;
use serde_json::{Value, json};

use super::client::{BROKEN, Client};
use super::support::folder::Folder;
use super::{Bridge, block_on, bridged, children, status};

/// What a client asked and has not got.
#[derive(Default)]
struct Ledger {
    /// Requests by id: their serial number, and whether an error is expected.
    open: BTreeMap<u64, (u64, bool)>,
    progress: u64,
    answers: u64,
}

impl Ledger {
    fn take(&mut self, name: u64, message: &Value) {
        if message["method"].is_string() {
            let (params, mcp) = (&message["params"], message["method"] == "notifications/progress");
            let token = if mcp { &params["progressToken"] } else { &params["token"] };
            let owner = params["value"].as_u64().expect("a serial number") / 1_000_000;
            assert_eq!((owner, token), (name, &json!("same")), "progress of another client");
            self.progress += 1;
            return;
        }
        let id = message["id"].as_u64().expect("an id of ours");
        let (serial, is_cancelled) = self.open.remove(&id).expect("asked once");
        match is_cancelled {
            true => assert_eq!(message["error"]["data"], serial, "client {name}"),
            false => assert_eq!(message["result"], serial, "client {name}"),
        }
        self.answers += 1;
    }
}

/// One client: the same ids, the same tokens, and cancellations, many at the same time.
async fn converse(url: &str, framing: Framing, name: u64) -> Ledger {
    let (mut client, mut ledger) = (Client::connect(url, framing).await, Ledger::default());
    let first = client.call(0, "initialize", json!({"processId": 1})).await;
    assert_eq!(first["result"], json!({"count": 1}), "the server is initialized once");
    for round in 0..20 {
        for id in 0..8 {
            let serial = name * 1_000_000 + round * 100 + id;
            let is_held = id % 3 == 2;
            let params = match id % 3 {
                0 => json!({"serial": serial, "workDoneToken": "same"}),
                1 => json!({"serial": serial, "_meta": {"progressToken": "same"}}),
                _ => json!({"serial": serial}),
            };
            let method = if is_held { "hold" } else { "work" };
            let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            client.push(&request.to_string());
            if is_held {
                let cancel =
                    json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": id}});
                client.push(&cancel.to_string());
            }
            ledger.open.insert(id, (serial, is_held));
        }
        while !ledger.open.is_empty() {
            ledger.take(name, &client.value().await);
        }
    }
    ledger
}

#[test]
fn b6_b7_b8_fifty_clients_with_the_same_ids_get_their_own_answers() {
    let folder = Folder::new();
    let listen = [&*folder.url("socket"), "tcp://127.0.0.1:0", "ws://127.0.0.1:0/"];
    let bridge = Bridge::start(&listen, &["--shared", "--to-framing", "ndjson"], &[bridged()]);
    block_on(async {
        let mut clients = Vec::new();
        for name in 0..50 {
            let url = bridge.urls[usize::try_from(name).expect("small") % 3].clone();
            let framing = [Framing::Lsp, Framing::Ndjson][usize::from(name % 2 == 0)];
            clients.push(tokio::spawn(async move { converse(&url, framing, name).await }));
        }
        for client in clients {
            let ledger = client.await.expect("no mistake");
            assert_eq!((ledger.answers, ledger.progress), (160, 120));
        }
    });
    assert_eq!(children(bridge.worker()).len(), 1);
}

#[test]
fn b9_server_requests_reach_the_asker_and_notifications_reach_all() {
    let bridge = Bridge::start(&["ws://127.0.0.1:0/"], &["--shared"], &[bridged()]);
    block_on(async {
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(Client::connect(bridge.url(), Framing::Ndjson).await);
        }
        for client in &mut clients {
            assert_eq!(client.call(1, "work", json!({"serial": 1})).await["result"], 1);
        }
        // The question goes to the client whose request runs.
        let ask = json!({"jsonrpc": "2.0", "id": 5, "method": "ask", "params": {"serial": 5}});
        clients[1].send(&ask.to_string()).await;
        let question = clients[1].value().await;
        assert_eq!(question["method"], "question");
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": "yes"});
        clients[1].send(&answer.to_string()).await;
        assert_eq!(clients[1].value().await, json!({"jsonrpc": "2.0", "id": 5, "result": "yes"}));
        // A notification goes to all of them.
        clients[2].push(r#"{"jsonrpc":"2.0","id":6,"method":"tell","params":{"serial":6}}"#);
        clients[2].flush().await;
        for client in &mut clients {
            assert_eq!(client.value().await["method"], "told");
        }
        // A client that leaves without an answer does not keep the server waiting.
        let ask = json!({"jsonrpc": "2.0", "id": 5, "method": "ask", "params": {"serial": 7}});
        clients[1].send(&ask.to_string()).await;
        assert_eq!(clients[1].value().await["method"], "question");
        drop(clients.swap_remove(1));
        assert_eq!(clients[0].call(9, "work", json!({"serial": 9})).await["result"], 9);
    });
}

#[test]
fn b10_client_that_does_not_read_is_closed_and_the_others_go_on() {
    let bridge = Bridge::start(&["tcp://127.0.0.1:0"], &["--shared"], &[bridged()]);
    block_on(async {
        let mut slow = Client::connect(bridge.url(), Framing::Ndjson).await;
        assert_eq!(slow.call(1, "work", json!({"serial": 1})).await["result"], 1);
        let mut other = Client::connect(bridge.url(), Framing::Ndjson).await;
        let flood = json!({"serial": 2, "bytes": 100_000, "count": 400});
        // Everybody gets 40 MB, and one reads nothing.
        assert_eq!(other.call(2, "flood", flood).await["result"], 2);
        assert_eq!(other.call(3, "work", json!({"serial": 3})).await["result"], 3);
        let mut last = String::new();
        while let Some(message) = slow.next().await {
            // The close may cut the last message.
            if message != BROKEN {
                last = message;
            }
        }
        assert!(last.len() > 1000 || last.contains("not read in time"), "{last:.200}");
    });
    let used = status(bridge.worker(), "VmHWM").expect("it runs");
    assert!(used < 40 * 1024, "{used} kB");
    let (_, said) = bridge.end(rustix::process::Signal::TERM);
    assert!(said.contains("messages were not read in time"), "{said}");
}

#[test]
fn b8_shutdown_of_one_client_leaves_the_server_to_the_others() {
    let bridge = Bridge::start(
        &["ws://127.0.0.1:0/"],
        &["--shared", "--to-framing", "ndjson"],
        &[bridged()],
    );
    block_on(async {
        let (mut one, mut two) = (
            Client::connect(bridge.url(), Framing::Ndjson).await,
            Client::connect(bridge.url(), Framing::Ndjson).await,
        );
        for client in [&mut one, &mut two] {
            let answer = client.call(1, "initialize", json!({"processId": null})).await;
            assert_eq!(answer["result"]["count"], 1);
        }
        let answer = one.call(2, "shutdown", json!(null)).await;
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 2, "result": null}));
        one.send(r#"{"jsonrpc":"2.0","method":"exit"}"#).await;
        assert_eq!(one.next().await, None);
        assert_eq!(two.call(2, "work", json!({"serial": 2})).await["result"], 2);
    });
}
