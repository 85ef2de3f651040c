//! Tests of the routes: dialogues as rows, and a random one with a ledger.

use std::collections::{BTreeMap, BTreeSet};

use duet_rpc::proto::text::Text;
use duet_rpc::{Id, Limits};
use serde_json::{Value, json};

use super::{Out, Routes, Takes};

/// One step of a dialogue, and what follows from it. `S` and the numbers of clients are destinations.
enum Step {
    Client(u64, &'static str),
    Server(&'static str),
    Leave(u64),
    Lose,
    Start,
    Unused,
    /// The request with this id of ours cannot be answered.
    Fail(u64),
}

use Step::{Client, Fail, Leave, Lose, Server, Start, Unused};

fn show(out: &Out) -> String {
    let text =
        |message: &[u8]| String::from_utf8_lossy(message).replace("\"jsonrpc\":\"2.0\",", "");
    match out {
        Out::Server(message) => format!("S {}", text(message)),
        Out::Handshake(message) => format!("H {}", text(message)),
        Out::Client(client, message) => format!("{client} {}", text(message)),
        Out::Settle(client) => format!("settle {client}"),
        Out::Close(client) => format!("close {client}"),
        Out::Note(note) => format!("note: {note}"),
    }
}

/// Plays a dialogue. Messages leave out `"jsonrpc":"2.0"`.
fn check(takes: &[Takes], steps: &[(Step, &[&str])]) {
    let mut routes = Routes::new(Limits::default());
    for (client, &takes) in (1..).zip(takes) {
        let group = if takes == Takes::Everything { client } else { 1000 };
        routes.join(client, takes, group);
    }
    for (number, (step, expected)) in steps.iter().enumerate() {
        let mut out = Vec::new();
        let envelope = |message: &str| match message.starts_with('[') {
            true => message
                .replace("{\"id", "{\"jsonrpc\":\"2.0\",\"id")
                .replace("{\"method", "{\"jsonrpc\":\"2.0\",\"method"),
            false => message.replacen('{', "{\"jsonrpc\":\"2.0\",", 1),
        };
        match step {
            Client(client, message) => {
                let message = envelope(message);
                let text = Text::check(message.as_bytes(), 128).expect("JSON");
                routes.handle_client(*client, &text, &mut out);
            }
            Server(message) => {
                let message = envelope(message);
                let text = Text::check(message.as_bytes(), 128).expect("JSON");
                routes.handle_server(&text, &mut out);
            }
            Leave(client) => routes.leave(*client, &mut out),
            Lose => routes.handle_loss(&mut out),
            Start => routes.handle_start(&mut out),
            Unused => routes.handle_unused(),
            Fail(number) => routes.handle_failure(&Id::from(*number), &super::lost(), &mut out),
        }
        let shown: Vec<_> = out.iter().map(show).collect();
        assert_eq!(shown, *expected, "step {number}");
    }
}

const ALL: Takes = Takes::Everything;

#[test]
fn b6_every_answer_has_the_id_of_its_asker_byte_for_byte() {
    check(
        &[ALL, ALL],
        &[
            (Client(1, r#"{"id":7,"method":"a"}"#), &[r#"S {"id":1,"method":"a"}"#]),
            (Client(2, r#"{"id":7,"method":"b"}"#), &[r#"S {"id":2,"method":"b"}"#]),
            (Client(2, r#"{"id":"7","method":"c"}"#), &[r#"S {"id":3,"method":"c"}"#]),
            (Client(1, r#"{"method":"d", "id" : 1.0}"#), &[r#"S {"method":"d", "id" : 4}"#]),
            (Server(r#"{"id":3,"result":{"id":3}}"#), &[r#"2 {"id":"7","result":{"id":3}}"#]),
            (
                Server(r#"{"id":2,"error":{"code":1,"message":"m"}}"#),
                &[r#"2 {"id":7,"error":{"code":1,"message":"m"}}"#],
            ),
            (Server(r#"{"result":0 ,"id":4}"#), &[r#"1 {"result":0 ,"id":1.0}"#]),
            (Server(r#"{"id":1,"result":null}"#), &[r#"1 {"id":7,"result":null}"#]),
            (
                Server(r#"{"id":1,"result":null}"#),
                &["note: the server answered a request that nobody waits for"],
            ),
            (
                Server(r#"{"id":null,"error":{}}"#),
                &["note: the server answered a request that nobody waits for"],
            ),
        ],
    );
}

#[test]
fn b6_batches_are_answered_as_batches() {
    check(
        &[ALL],
        &[
            (
                Client(1, r#"[{"id":1,"method":"a"},{"method":"n"},{"id":"x","method":"b"},5]"#),
                &[
                    r#"S {"id":2,"method":"a"}"#,
                    r#"S {"method":"n"}"#,
                    r#"S {"id":3,"method":"b"}"#,
                ],
            ),
            (Server(r#"{"id":3,"result":3}"#), &[]),
            (
                Server(r#"{"id":2,"result":2}"#),
                &[
                    r#"1 [{"id":null,"error":{"code":-32600,"message":"Invalid Request"}},{"id":"x","result":3},{"id":1,"result":2}]"#,
                ],
            ),
            (Client(1, r#"[{"method":"n"}]"#), &[r#"S {"method":"n"}"#]),
        ],
    );
}

#[test]
fn b7_cancellations_reach_only_requests_of_their_client() {
    check(
        &[ALL, ALL],
        &[
            (Client(1, r#"{"id":1,"method":"a"}"#), &[r#"S {"id":1,"method":"a"}"#]),
            (Client(2, r#"{"id":5,"method":"b"}"#), &[r#"S {"id":2,"method":"b"}"#]),
            (
                Client(2, r#"{"method":"$/cancelRequest","params":{"id":5}}"#),
                &[r#"S {"method":"$/cancelRequest","params":{"id":2}}"#],
            ),
            // Client 2 has no request 1, and the server's request 1 is another client's.
            (Client(2, r#"{"method":"$/cancelRequest","params":{"id":1}}"#), &[]),
            (Client(2, r#"{"method":"$/cancelRequest","params":{"id":{}}}"#), &[]),
            (
                Client(1, r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#),
                &[r#"S {"method":"notifications/cancelled","params":{"requestId":1}}"#],
            ),
            (
                Server(r#"{"id":2,"error":{"code":-32800,"message":"c"}}"#),
                &[r#"2 {"id":5,"error":{"code":-32800,"message":"c"}}"#],
            ),
            (Client(2, r#"{"method":"$/cancelRequest","params":{"id":5}}"#), &[]),
        ],
    );
}

#[test]
fn b7_progress_goes_to_its_asker_with_the_token_of_the_asker() {
    check(
        &[ALL, ALL],
        &[
            (
                Client(1, r#"{"id":1,"method":"a","params":{"workDoneToken":"t","x":0}}"#),
                &[
                    r#"S {"id":1,"method":"a","params":{"workDoneToken":"duet-rpc-bridge-2","x":0}}"#,
                ],
            ),
            (
                Client(2, r#"{"id":1,"method":"a","params":{"_meta":{"progressToken":9}}}"#),
                &[
                    r#"S {"id":3,"method":"a","params":{"_meta":{"progressToken":"duet-rpc-bridge-4"}}}"#,
                ],
            ),
            (
                Server(
                    r#"{"method":"$/progress","params":{"token":"duet-rpc-bridge-2","value":1}}"#,
                ),
                &[r#"1 {"method":"$/progress","params":{"token":"t","value":1}}"#],
            ),
            (
                Server(
                    r#"{"method":"notifications/progress","params":{"progressToken":"duet-rpc-bridge-4"}}"#,
                ),
                &[r#"2 {"method":"notifications/progress","params":{"progressToken":9}}"#],
            ),
            (
                Client(1, r#"{"method":"window/workDoneProgress/cancel","params":{"token":"t"}}"#),
                &[
                    r#"S {"method":"window/workDoneProgress/cancel","params":{"token":"duet-rpc-bridge-2"}}"#,
                ],
            ),
            (Server(r#"{"id":1,"result":0}"#), &[r#"1 {"id":1,"result":0}"#]),
            // The request is over, and so is its token.
            (Server(r#"{"method":"$/progress","params":{"token":"duet-rpc-bridge-2"}}"#), &[]),
            // A token that the server made belongs to the client that was asked to show it.
            (
                Server(
                    r#"{"id":"s","method":"window/workDoneProgress/create","params":{"token":"own"}}"#,
                ),
                &[
                    r#"2 {"id":5,"method":"window/workDoneProgress/create","params":{"token":"own"}}"#,
                ],
            ),
            (Client(2, r#"{"id":5,"result":null}"#), &[r#"S {"id":"s","result":null}"#]),
            (
                Server(
                    r#"{"method":"$/progress","params":{"token":"own","value":{"kind":"end"}}}"#,
                ),
                &[r#"2 {"method":"$/progress","params":{"token":"own","value":{"kind":"end"}}}"#],
            ),
            (
                Server(r#"{"method":"$/progress","params":{"token":"own"}}"#),
                &[
                    r#"1 {"method":"$/progress","params":{"token":"own"}}"#,
                    r#"2 {"method":"$/progress","params":{"token":"own"}}"#,
                ],
            ),
        ],
    );
}

#[test]
fn b8_initialize_is_answered_from_memory() {
    check(
        &[ALL, ALL, ALL],
        &[
            (
                Client(1, r#"{"id":0,"method":"initialize","params":{"processId":1}}"#),
                &[r#"S {"id":1,"method":"initialize","params":{"processId":1}}"#],
            ),
            // It waits for the answer to the first one.
            (Client(2, r#"{"id":"i","method":"initialize","params":{}}"#), &[]),
            // It may come before the answer, but not before that of another client.
            (Server(r#"{"method":"early"}"#), &[r#"1 {"method":"early"}"#]),
            (
                Server(r#"{"id":1,"result":{"capabilities":{}}}"#),
                &[
                    r#"2 {"id":"i","result":{"capabilities":{}}}"#,
                    r#"1 {"id":0,"result":{"capabilities":{}}}"#,
                ],
            ),
            (Client(1, r#"{"method":"initialized"}"#), &[r#"S {"method":"initialized"}"#]),
            (Client(2, r#"{"method":"initialized"}"#), &[]),
            // Client 3 has not initialized yet.
            (Server(r#"{"method":"n"}"#), &[r#"1 {"method":"n"}"#, r#"2 {"method":"n"}"#]),
            (
                Client(3, r#"{"id":3,"method":"initialize"}"#),
                &[r#"3 {"id":3,"result":{"capabilities":{}}}"#],
            ),
            (Client(1, r#"{"id":8,"method":"shutdown"}"#), &[r#"1 {"id":8,"result":null}"#]),
            (Client(1, r#"{"method":"exit"}"#), &["close 1"]),
            (Leave(1), &[]),
            (Server(r#"{"method":"n"}"#), &[r#"2 {"method":"n"}"#, r#"3 {"method":"n"}"#]),
        ],
    );
}

#[test]
fn b8_refused_initialize_is_not_remembered() {
    check(
        &[ALL, ALL],
        &[
            (
                Client(1, r#"{"id":1,"method":"initialize"}"#),
                &[r#"S {"id":1,"method":"initialize"}"#],
            ),
            (Client(2, r#"{"id":"w","method":"initialize"}"#), &[]),
            (
                Server(r#"{"id":1,"error":{"code":1}}"#),
                &[r#"2 {"id":"w","error":{"code":1}}"#, r#"1 {"id":1,"error":{"code":1}}"#],
            ),
            (
                Client(2, r#"{"id":2,"method":"initialize"}"#),
                &[r#"S {"id":2,"method":"initialize"}"#],
            ),
            // The answer is remembered even if nobody waits for it any more.
            (Leave(2), &[]),
            (Server(r#"{"id":2,"result":5}"#), &[]),
            (Client(1, r#"{"id":3,"method":"initialize"}"#), &[r#"1 {"id":3,"result":5}"#]),
        ],
    );
}

#[test]
fn b8_initialized_that_comes_before_the_answer_is_remembered() {
    check(
        &[ALL],
        &[
            (
                Client(1, r#"{"id":1,"method":"initialize"}"#),
                &[r#"S {"id":1,"method":"initialize"}"#],
            ),
            (Client(1, r#"{"method":"initialized"}"#), &[r#"S {"method":"initialized"}"#]),
            (Server(r#"{"id":1,"result":0}"#), &[r#"1 {"id":1,"result":0}"#]),
            (Lose, &[]),
            (Start, &[r#"H {"id":2,"method":"initialize"}"#]),
            (Server(r#"{"id":2,"result":0}"#), &[r#"H {"method":"initialized"}"#]),
        ],
    );
}

#[test]
fn b8_b12_initialize_that_is_never_answered_does_not_block_the_next_client() {
    let ask: (Step, &[&str]) =
        (Client(1, r#"{"id":1,"method":"initialize"}"#), &[r#"S {"id":1,"method":"initialize"}"#]);
    let again = || Client(2, r#"{"id":1,"method":"initialize"}"#);
    let lost =
        r#"2 {"id":1,"error":{"code":-32000,"message":"The server ended before it answered"}}"#;
    // Its client leaves, and the server ends because it has no client.
    check(
        &[ALL, ALL],
        &[
            ask,
            (Leave(1), &[]),
            (Unused, &[]),
            (Start, &[]),
            (again(), &[r#"S {"id":3,"method":"initialize"}"#]),
        ],
    );
    // Its client leaves, and the request fails.
    check(
        &[ALL, ALL],
        &[
            (
                Client(1, r#"{"id":1,"method":"initialize"}"#),
                &[r#"S {"id":1,"method":"initialize"}"#],
            ),
            (again(), &[]),
            (Leave(1), &[]),
            (Fail(1), &[lost]),
            (again(), &[r#"S {"id":2,"method":"initialize"}"#]),
        ],
    );
    // A new server does not answer the remembered one.
    check(
        &[ALL, ALL],
        &[
            (
                Client(1, r#"{"id":1,"method":"initialize"}"#),
                &[r#"S {"id":1,"method":"initialize"}"#],
            ),
            (Server(r#"{"id":1,"result":0}"#), &[r#"1 {"id":1,"result":0}"#]),
            (Start, &[r#"H {"id":2,"method":"initialize"}"#]),
            (Fail(2), &[]),
            (Start, &[r#"H {"id":3,"method":"initialize"}"#]),
            (Unused, &[]),
            (again(), &[r#"2 {"id":1,"result":0}"#]),
        ],
    );
}

#[test]
fn b7_progress_of_another_client_cannot_be_cancelled() {
    let cancel = r#"{"method":"window/workDoneProgress/cancel","params":{"token":"own"}}"#;
    let passed = format!("S {cancel}");
    check(
        &[ALL, ALL],
        &[
            (
                Client(1, r#"{"id":1,"method":"a","params":{"workDoneToken":"t"}}"#),
                &[r#"S {"id":1,"method":"a","params":{"workDoneToken":"duet-rpc-bridge-2"}}"#],
            ),
            (
                Server(
                    r#"{"id":1,"method":"window/workDoneProgress/create","params":{"token":"own"}}"#,
                ),
                &[
                    r#"1 {"id":3,"method":"window/workDoneProgress/create","params":{"token":"own"}}"#,
                ],
            ),
            (
                Client(
                    2,
                    r#"{"method":"window/workDoneProgress/cancel","params":{"token":"duet-rpc-bridge-2"}}"#,
                ),
                &[],
            ),
            (
                Client(2, r#"{"method":"window/workDoneProgress/cancel","params":{"token":"t"}}"#),
                &[],
            ),
            (Client(2, cancel), &[]),
            (Client(2, r#"{"method":"window/workDoneProgress/cancel"}"#), &[]),
            (Client(1, cancel), &[&passed]),
        ],
    );
}

#[test]
fn b6_ids_and_tokens_of_running_requests_are_bounded() {
    let mut routes = Routes::new(Limits::default());
    routes.join(1, ALL, 1);
    let (id, mut refused) = ("x".repeat(100_000), 0);
    for number in 0..30 {
        let request = json!({
            "jsonrpc": "2.0", "id": format!("{number}{id}"), "method": "m",
            "params": {"workDoneToken": id},
        });
        let request = request.to_string();
        let mut out = Vec::new();
        routes.handle_client(1, &Text::check(request.as_bytes(), 9).expect("JSON"), &mut out);
        refused += usize::from(matches!(&out[..], [Out::Client(..)]));
    }
    assert_eq!(refused, 25);
    // Answers make room again.
    let mut out = Vec::new();
    routes.handle_loss(&mut out);
    assert_eq!((out.len(), routes.clients[&1].id_bytes), (5, 0));
}

#[test]
fn b9_server_requests_go_to_the_client_whose_request_runs_else_to_the_oldest() {
    check(
        &[Takes::Answers, ALL, ALL],
        &[
            (Server(r#"{"id":1,"method":"q"}"#), &[r#"2 {"id":1,"method":"q"}"#]),
            (
                Client(3, r#"{"id":1,"result":0}"#),
                &["note: a client answered a request that it was not asked"],
            ),
            (Client(3, r#"{"id":1,"method":"a"}"#), &[r#"S {"id":2,"method":"a"}"#]),
            (Server(r#"{"id":2,"method":"q"}"#), &[r#"3 {"id":3,"method":"q"}"#]),
            (
                Server(r#"{"method":"$/cancelRequest","params":{"id":2}}"#),
                &[r#"3 {"method":"$/cancelRequest","params":{"id":3}}"#],
            ),
            (Client(2, r#"{"id":1,"result":"r"}"#), &[r#"S {"id":1,"result":"r"}"#]),
            (
                Client(2, r#"{"id":1,"result":"r"}"#),
                &["note: a client answered a request that it was not asked"],
            ),
            (Leave(3), &[r#"S {"id":2,"error":{"code":-32000,"message":"The client has left"}}"#]),
            (Leave(2), &[]),
            // Only a client over HTTP is left.
            (
                Server(r#"{"id":9,"method":"q"}"#),
                &[r#"S {"id":9,"error":{"code":-32000,"message":"No client can answer"}}"#],
            ),
            (Server(r#"{"method":"n"}"#), &[]),
        ],
    );
}

#[test]
fn b13_http_clients_get_their_answer_and_are_settled() {
    let (answers, events) = (Takes::Answers, Takes::Notifications);
    check(
        &[answers, events, answers, answers, answers],
        &[
            (Client(1, r#"{"id":1,"method":"a"}"#), &[r#"S {"id":1,"method":"a"}"#]),
            (
                Client(2, r#"{"id":2,"method":"a","params":{"_meta":{"progressToken":1}}}"#),
                &[
                    r#"S {"id":2,"method":"a","params":{"_meta":{"progressToken":"duet-rpc-bridge-3"}}}"#,
                ],
            ),
            (Client(3, r#"{"method":"n"}"#), &[r#"S {"method":"n"}"#, "settle 3"]),
            // Another request of the same client cancels.
            (
                Client(4, r#"{"method":"$/cancelRequest","params":{"id":1}}"#),
                &[r#"S {"method":"$/cancelRequest","params":{"id":1}}"#, "settle 4"],
            ),
            (
                Server(
                    r#"{"method":"notifications/progress","params":{"progressToken":"duet-rpc-bridge-3"}}"#,
                ),
                &[r#"2 {"method":"notifications/progress","params":{"progressToken":1}}"#],
            ),
            (Server(r#"{"id":2,"result":0}"#), &[r#"2 {"id":2,"result":0}"#, "settle 2"]),
            (Server(r#"{"id":1,"result":0}"#), &[r#"1 {"id":1,"result":0}"#, "settle 1"]),
            (Client(5, r#"[{"method":"n"}]"#), &[r#"S {"method":"n"}"#, "settle 5"]),
        ],
    );
}

#[test]
fn b11_lost_server_fails_running_requests_and_the_next_one_is_initialized() {
    let lost =
        r#"{"id":5,"error":{"code":-32000,"message":"The server ended before it answered"}}"#;
    let lost = format!("1 {lost}");
    check(
        &[ALL],
        &[
            (
                Client(1, r#"{"id":"i","method":"initialize","params":{"protocolVersion":"1"}}"#),
                &[r#"S {"id":1,"method":"initialize","params":{"protocolVersion":"1"}}"#],
            ),
            (Server(r#"{"id":1,"result":0}"#), &[r#"1 {"id":"i","result":0}"#]),
            (
                Client(1, r#"{"method":"notifications/initialized"}"#),
                &[r#"S {"method":"notifications/initialized"}"#],
            ),
            (Client(1, r#"{"id":5,"method":"a"}"#), &[r#"S {"id":2,"method":"a"}"#]),
            (Lose, &[&lost]),
            (Start, &[r#"H {"id":3,"method":"initialize","params":{"protocolVersion":"1"}}"#]),
            (Server(r#"{"id":3,"result":0}"#), &[r#"H {"method":"notifications/initialized"}"#]),
            // Answers of the server that is gone are not mistaken for new ones.
            (
                Server(r#"{"id":2,"result":0}"#),
                &["note: the server answered a request that nobody waits for"],
            ),
        ],
    );
}

#[test]
fn b7_client_that_leaves_cancels_its_requests() {
    let cancelled = r#"{"method":"notifications/cancelled","params":{"requestId":2}}"#;
    let cancelled = format!("S {cancelled}");
    check(
        &[ALL],
        &[
            (
                Client(1, r#"{"id":1,"method":"initialize","params":{"protocolVersion":"1"}}"#),
                &[r#"S {"id":1,"method":"initialize","params":{"protocolVersion":"1"}}"#],
            ),
            (Server(r#"{"id":1,"result":0}"#), &[r#"1 {"id":1,"result":0}"#]),
            (Client(1, r#"{"id":5,"method":"a"}"#), &[r#"S {"id":2,"method":"a"}"#]),
            (Leave(1), &[&cancelled]),
            (
                Server(r#"{"id":2,"result":0}"#),
                &["note: the server answered a request that nobody waits for"],
            ),
        ],
    );
}

/// A small generator of random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((it ^ (it >> 31)) % most as u64).expect("it fits")
    }
}

/// The ledger of a random dialogue: who asked what, and what has come of it.
#[derive(Default)]
struct Ledger {
    clients: BTreeSet<u64>,
    /// Requests by their serial number: client, id, token.
    asked: BTreeMap<u64, (u64, Value, Value)>,
    /// Requests that the server has not answered: its id, the token, the serial number.
    at_server: Vec<(Value, Value, u64)>,
    /// Requests of the server: the client that got it, the id it got, the id of the server.
    at_clients: Vec<(u64, Value, u64)>,
    answered_by_clients: BTreeSet<u64>,
    serial: u64,
}

impl Ledger {
    fn take(&mut self, out: Vec<Out>) {
        for out in out {
            let parse = |message: &[u8]| serde_json::from_slice::<Value>(message).expect("JSON");
            match out {
                Out::Server(message) => {
                    let message = parse(&message);
                    if message["method"] == "work" {
                        let serial = message["params"]["serial"].as_u64().expect("a number");
                        let token = message["params"]["workDoneToken"].clone();
                        let ids = self.at_server.iter().filter(|it| it.0 == message["id"]);
                        assert_eq!(ids.count(), 0, "an id is in use");
                        self.at_server.push((message["id"].clone(), token, serial));
                    } else if message["method"] == "$/cancelRequest" {
                        let id = &message["params"]["id"];
                        let serial = message["params"]["serial"].as_u64().expect("a number");
                        let request = self.at_server.iter().find(|it| it.0 == *id);
                        assert_eq!(request.expect("it runs").2, serial, "another is cancelled");
                    } else if message.get("result").is_some() {
                        let id = message["id"].as_u64().expect("an id of the server");
                        assert_eq!(message["result"], id);
                        assert!(self.answered_by_clients.insert(id), "answered twice");
                    }
                }
                Out::Client(client, message) => {
                    let message = parse(&message);
                    assert!(self.clients.contains(&client), "the client has left");
                    if message["method"] == "ask" {
                        let of = message["params"].as_u64().expect("a number");
                        self.at_clients.push((client, message["id"].clone(), of));
                    } else if message["method"] == "$/progress" {
                        let serial = message["params"]["value"].as_u64().expect("a number");
                        let (asker, _, token) = &self.asked[&serial];
                        assert_eq!((&client, &message["params"]["token"]), (asker, token));
                    } else {
                        let serial = message["result"].as_u64().expect("a number");
                        let (asker, id, _) = self.asked.remove(&serial).expect("asked once");
                        assert_eq!((client, &message["id"]), (asker, &id));
                    }
                }
                Out::Note(_) | Out::Handshake(_) | Out::Settle(_) | Out::Close(_) => {}
            }
        }
    }
}

#[test]
fn b6_b7_b9_every_answer_reaches_its_asker_whatever_the_order() {
    for seed in 0..200 {
        let (mut random, mut ledger) = (Random(seed), Ledger::default());
        let mut routes = Routes::new(Limits::default());
        let mut next_client = 0;
        for _ in 0..300 {
            let mut out = Vec::new();
            let clients: Vec<u64> = ledger.clients.iter().copied().collect();
            let client = clients.get(random.below(clients.len().max(1))).copied();
            let mut client_says = |client, message: Value, out: &mut Vec<Out>| {
                let message = message.to_string();
                let text = Text::check(message.as_bytes(), 128).expect("JSON");
                routes.handle_client(client, &text, out);
            };
            match (random.below(9), client) {
                (0, _) | (_, None) if clients.len() < 8 => {
                    next_client += 1;
                    ledger.clients.insert(next_client);
                    routes.join(next_client, Takes::Everything, next_client);
                }
                (1, Some(client)) if random.below(6) == 0 => {
                    ledger.clients.remove(&client);
                    ledger.asked.retain(|_, asked| asked.0 != client);
                    ledger.at_clients.retain(|asked| asked.0 != client);
                    routes.leave(client, &mut out);
                }
                (2..=4, Some(client)) => {
                    ledger.serial += 1;
                    let serial = ledger.serial;
                    // The same few ids and tokens for everybody, but never one that is in use.
                    let id = json!(random.below(4));
                    let token = json!(["a", "b"][random.below(2)]);
                    if ledger.asked.values().any(|asked| asked.0 == client && asked.1 == id) {
                        continue;
                    }
                    ledger.asked.insert(serial, (client, id.clone(), token.clone()));
                    let params = json!({"serial": serial, "workDoneToken": token});
                    let request =
                        json!({"jsonrpc": "2.0", "id": id, "method": "work", "params": params});
                    client_says(client, request, &mut out);
                }
                (5, Some(client)) => {
                    let asked = ledger.asked.iter().find(|(_, asked)| asked.0 == client);
                    let Some((serial, (_, id, _))) = asked else { continue };
                    let params = json!({"id": id, "serial": serial});
                    let cancel =
                        json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": params});
                    client_says(client, cancel, &mut out);
                }
                (6, Some(_)) if !ledger.at_clients.is_empty() => {
                    let at = random.below(ledger.at_clients.len());
                    let (client, id, of) = ledger.at_clients.swap_remove(at);
                    let answer = json!({"jsonrpc": "2.0", "id": id, "result": of});
                    client_says(client, answer, &mut out);
                }
                _ => {
                    let mut messages = Vec::new();
                    if !ledger.at_server.is_empty() {
                        let at = random.below(ledger.at_server.len());
                        let (id, token, serial) = ledger.at_server[at].clone();
                        let params = json!({"token": token, "value": serial});
                        messages.push(
                            json!({"jsonrpc": "2.0", "method": "$/progress", "params": params}),
                        );
                        if random.below(2) == 0 {
                            ledger.at_server.swap_remove(at);
                            messages.push(json!({"jsonrpc": "2.0", "id": id, "result": serial}));
                        }
                    }
                    if random.below(4) == 0 {
                        ledger.serial += 1;
                        let (id, ask) = (ledger.serial, "ask");
                        messages
                            .push(json!({"jsonrpc": "2.0", "id": id, "method": ask, "params": id}));
                    }
                    for message in messages {
                        let message = message.to_string();
                        let text = Text::check(message.as_bytes(), 128).expect("JSON");
                        routes.handle_server(&text, &mut out);
                    }
                }
            }
            ledger.take(out);
        }
        // The server answers the rest: then nobody waits for anything.
        for (id, _, serial) in std::mem::take(&mut ledger.at_server) {
            let mut out = Vec::new();
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": serial}).to_string();
            let text = Text::check(answer.as_bytes(), 128).expect("JSON");
            routes.handle_server(&text, &mut out);
            ledger.take(out);
        }
        assert!(ledger.asked.is_empty(), "seed {seed}: {:?}", ledger.asked);
        assert!(ledger.clients.iter().all(|client| !routes.is_asking(*client)), "seed {seed}");
    }
}

#[test]
fn b11_request_that_cannot_be_answered_gets_an_error() {
    let mut routes = Routes::new(Limits::default());
    routes.join(1, Takes::Everything, 1);
    let mut out = Vec::new();
    let text = Text::check(br#"{"jsonrpc":"2.0","id":"a","method":"m"}"#, 9).expect("JSON");
    routes.handle_client(1, &text, &mut out);
    out.clear();
    routes.handle_failure(&Id::from(1), &super::lost(), &mut out);
    routes.handle_failure(&Id::from(1), &super::lost(), &mut out);
    let lost =
        r#"1 {"id":"a","error":{"code":-32000,"message":"The server ended before it answered"}}"#;
    assert_eq!(out.iter().map(show).collect::<Vec<_>>(), [lost]);
}
