//! Access to the log. It holds the records of all connections, so clients of a listening daemon may read it
//! and set its level only with `--share-log`.

use duet_rpc::proto::frame::Framing;
use serde_json::{Value, json};

use crate::client::{Client, Way};
use crate::http::{once, post};
use crate::support::folder::Folder;
use crate::support::listening::Server;

const LOG: &str = r#"{"topics":["log"]}"#;

fn ask(client: &mut dyn Client, id: u64, method: &str, params: &str) -> Value {
    serde_json::from_str(&client.ask(id, method, params)).expect("JSON")
}

fn not_shared(id: u64) -> Value {
    let data = json!({"reason": "log-not-shared", "option": "--share-log"});
    let error = json!({"code": -32001, "message": "Log not shared", "data": data});
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

#[test]
fn t3_on_a_listener_the_log_cannot_be_read_nor_its_level_set() {
    let server = Server::rpc_everywhere(&[]);
    for way in Way::ALL {
        let mut client = way.connect(&server);
        let client = &mut *client;
        if way != Way::Http {
            assert_eq!(ask(client, 1, "events.subscribe", LOG), not_shared(1), "{way:?}");
            let both = r#"[["stats","log"]]"#;
            assert_eq!(ask(client, 2, "events.subscribe", both), not_shared(2), "{way:?}");
            // A refused topic fails the whole request. A client's own statistics are allowed.
            let none = ask(client, 3, "events.unsubscribe", LOG);
            assert_eq!(none["result"], json!({"topics": []}), "{way:?}");
            let stats = ask(client, 4, "events.subscribe", r#"{"topics":["stats"]}"#);
            assert_eq!(stats["result"], json!({"topics": ["stats"]}), "{way:?}");
            let none = ask(client, 5, "events.unsubscribe", r#"{"topics":["stats"]}"#);
            assert_eq!(none["result"], json!({"topics": []}), "{way:?}");
        }
        assert_eq!(ask(client, 6, "setLogLevel", r#"["debug"]"#), not_shared(6), "{way:?}");
        assert_eq!(ask(client, 7, "setLogLevel", r#"["error"]"#), not_shared(7), "{way:?}");
        let loud = ask(client, 8, "setLogLevel", r#"["loud"]"#);
        assert_eq!(loud["error"]["code"], -32602, "{way:?}");
        assert_eq!(ask(client, 9, "version", "[]")["result"]["version"], "0.1.0", "{way:?}");
    }
    let log = server.stop().join("\n");
    assert!(!log.contains(" DEBUG "), "the level was lowered: {log}");
    assert!(log.contains(" INFO ") && log.contains("SIGTERM"), "the level was raised: {log}");
}

#[test]
fn t3_a_client_without_the_token_learns_nothing_about_the_others() {
    let folder = Folder::new();
    let path = folder.write("token", "sesame\n");
    let server = Server::rpc_everywhere(&["--token-file", &path, "--log-level", "debug"]);
    let mut spy = Way::Tcp(Framing::Ndjson).connect(&server);
    assert_eq!(ask(&mut *spy, 1, "events.subscribe", LOG), not_shared(1));
    let url = server.url("http");
    let body = r#"{"jsonrpc":"2.0","id":"SESSION-42","method":"version"}"#;
    let answer = once(url, &post(url, &[("Authorization", "Bearer sesame")], body.as_bytes()));
    assert_eq!(answer.status, 200, "{answer:?}");
    server.daemon().wait_for_line(|line| line.contains("SESSION-42"));
    // The record is written, and the next message is the answer.
    assert_eq!(ask(&mut *spy, 2, "system.ping", "[]")["result"], "pong");
    server.stop();
}

#[test]
fn t3_with_share_log_every_client_reads_the_log_and_sets_its_level() {
    let server = Server::rpc_everywhere(&["--share-log"]);
    for way in Way::ALL {
        let mut client = way.connect(&server);
        let client = &mut *client;
        for level in ["debug", "info"] {
            let set = ask(client, 1, "setLogLevel", &format!(r#"["{level}"]"#));
            assert_eq!(set["result"], json!({"level": level, "success": true}), "{way:?}");
        }
        if way != Way::Http {
            let topics = ask(client, 2, "events.subscribe", LOG);
            assert_eq!(topics["result"], json!({"topics": ["log"]}), "{way:?}");
            let mut other = Way::Tcp(Framing::Ndjson).connect(&server);
            let unknown = ask(&mut *other, 77, "no.such.method", "[]");
            assert_eq!(unknown["error"]["code"], -32601);
            let event: Value =
                serde_json::from_str(&client.receive().expect("an event")).expect("JSON");
            assert_eq!(event["params"]["data"]["id"], 77, "{way:?}: {event}");
        }
    }
    server.stop();
}
