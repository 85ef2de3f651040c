//! Dialogues of requests and answers only.

use super::Step::{Back, Batch, Refused};
use super::{Dialogue, INVALID, PARSE, error, notification, ping, request, result, row, send};

pub(super) fn rows() -> [Dialogue; 10] {
    [
        ids(),
        invalid_ids(),
        invalid(),
        broken(),
        silent(),
        batches(),
        echoes(),
        big(),
        errors(),
        many(),
    ]
}

fn ids() -> Dialogue {
    let digits = "1234567890".repeat(4);
    let long = format!(r#""{}""#, "i".repeat(500));
    let ids = [
        "1",
        "0",
        "-0",
        "-5",
        "1.0",
        "1e3",
        "1E+2",
        "0.1e-7",
        "18446744073709551616",
        &digits,
        "null",
        r#""""#,
        r#""1""#,
        r#""é 😀""#,
        r#""\u00e9\/\n""#,
        &long,
    ];
    let steps =
        ids.iter().flat_map(|id| [request(id, "system.ping", ""), Back(result(id, r#""pong""#))]);
    row("m2 an id is returned exactly as written", steps.collect())
}

fn invalid_ids() -> Dialogue {
    let object =
        r#"{"code":-32600,"message":"Invalid Request","data":{"reason":"invalid-id-type"}}"#;
    let steps = ["{}", "[]", "[1]", "true", "false", r#"{"a":1}"#]
        .map(|id| [request(id, "system.ping", ""), Back(error("null", object))]);
    row("m2 an invalid id is refused", steps.into_iter().flatten().collect())
}

fn invalid() -> Dialogue {
    let cases = [
        ("null", "7"),
        ("null", r#""text""#),
        ("null", "null"),
        ("null", "{}"),
        ("1", r#"{"jsonrpc":"1.0","id":1,"method":"system.ping"}"#),
        ("1", r#"{"id":1,"method":"system.ping"}"#),
        ("1", r#"{"jsonrpc":"2.0","id":1}"#),
        ("1", r#"{"jsonrpc":"2.0","id":1,"method":7}"#),
        ("1", r#"{"jsonrpc":"2.0","id":1,"method":"system.ping","params":"x"}"#),
        ("null", r#"{"jsonrpc":"2.0","method":"system.ping","params":7}"#),
        ("null", r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"system.ping"}"#),
        ("1", r#"{"jsonrpc":"2.0","id":1,"method":"system.ping","method":"system.ping"}"#),
    ];
    let steps = cases.map(|(id, text)| [send(text), Back(error(id, INVALID))]);
    row("m4 m5 an invalid request is refused", steps.into_iter().flatten().collect())
}

/// Bytes that are not JSON. The connection lives on.
fn broken() -> Dialogue {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let texts: [&[u8]; 8] = [
        b"{",
        b"nonsense",
        br#"{"jsonrpc":"2.0","id":1,"method":"system.ping",}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"system.ping"}}"#,
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"system.echo\",\"params\":[\"\xff\"]}",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"\xc3\",\"method\":\"system.ping\"}",
        b"[1,",
        deep.as_bytes(),
    ];
    let steps = texts.map(|text| {
        let [again, pong] = ping();
        [send(text), Back(error("null", PARSE)), again, pong]
    });
    row("f2 f4 m9 bad JSON is refused, and the next message is served", {
        steps.into_iter().flatten().collect()
    })
}

fn silent() -> Dialogue {
    let mut steps = vec![
        notification("system.ping", "[]"),
        notification("no.such.method", "{}"),
        notification("test.fail", "[]"),
        notification("test.panic", "{}"),
        notification("$/cancelRequest", r#"{"id":7}"#),
        send(r#"{"jsonrpc":"2.0","id":1,"result":1}"#),
        send(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"a"}}"#),
    ];
    steps.extend(ping());
    row("m7 m10 notifications and strays are not answered", steps)
}

fn batches() -> Dialogue {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"system.ping"}"#;
    let told = r#"{"jsonrpc":"2.0","method":"system.ping"}"#;
    let unknown = r#"{"code":-32601,"message":"Method not found: no"}"#;
    let oversize = r#"{"code":-32600,"message":"Invalid Request","data":{"reason":"oversize"}}"#;
    let mut steps = vec![
        send("[]"),
        Back(error("null", INVALID)),
        send("[1,2,3]"),
        Batch(vec![error("null", INVALID); 3]),
        send(format!("[{ping}]")),
        Batch(vec![result("1", r#""pong""#)]),
        send(format!("[{told}]")),
        send(format!("[{told},{told}]")),
        send(format!(r#" [ {ping} , 1, {told}, {{"jsonrpc":"2.0","id":"b","method":"no"}} ] "#)),
        Batch(vec![result("1", r#""pong""#), error("null", INVALID), error(r#""b""#, unknown)]),
        send(format!("[{}]", vec![ping; 1001].join(","))),
        Back(error("null", oversize)),
    ];
    steps.extend(self::ping());
    row("m6 batches are served", steps)
}

fn echoes() -> Dialogue {
    let values = [
        "[]",
        "{}",
        r#"[null,true,false,0,-0,1.0,1e400,12345678901234567890123]"#,
        r#"{"":{"":[[[]]]},"a":"b"}"#,
        r#"["\u0000\u001f\"\\\/\b\f\n\r\t"]"#,
        r#"["é ü 漢字 😀 \ud83d\ude00 \u2028 "]"#,
        r#"{"é":"é","e\u0301":"é"}"#,
        r#"["Content-Length: 5","\u000a"]"#,
    ];
    let steps = values
        .iter()
        .flat_map(|value| [request("1", "system.echo", value), Back(result("1", value))]);
    row("echoed params are unchanged", steps.collect())
}

fn big() -> Dialogue {
    let text = format!(r#"["{}"]"#, "0123456789é".repeat(9_000));
    let numbers: Vec<_> = (0..20_000).map(|number: u32| number.to_string()).collect();
    let numbers = format!("[{}]", numbers.join(","));
    row(
        "messages of 100 KB pass both ways",
        vec![
            request("1", "system.echo", &text),
            Back(result("1", &text)),
            request("2", "system.echo", &numbers),
            Back(result("2", &numbers)),
            request("3", "test.big", r#"{"bytes":100000}"#),
            Back(result("3", &format!(r#""{}""#, "x".repeat(100_000)))),
            request("4", "test.big", r#"{"bytes":0}"#),
            Back(result("4", r#""""#)),
        ],
    )
}

fn errors() -> Dialogue {
    let wanted = r#"{"code":-32042,"message":"no ünit","data":{"why":[1,null,"\u00e9"]}}"#;
    row(
        "errors carry their data",
        vec![
            request("1", "no.such.method", ""),
            Back(error("1", r#"{"code":-32601,"message":"Method not found: no.such.method"}"#)),
            request("2", "test.fail", wanted),
            Back(error("2", wanted)),
            request("3", "test.fail", r#"{"code":7,"message":""}"#),
            Back(error("3", r#"{"code":7,"message":""}"#)),
            request("4", "test.panic", ""),
            Back(error("4", r#"{"code":-32603,"message":"Internal error"}"#)),
            request("5", "test.big", r#"{"bytes":"CANARY"}"#),
            Refused(5),
        ],
    )
}

fn many() -> Dialogue {
    let steps = (0..300).flat_map(|id: u32| {
        let (id, params) = (id.to_string(), format!("[{id}]"));
        [request(&id, "system.echo", &params), Back(result(&id, &params))]
    });
    row("many requests in a row are answered", steps.collect())
}
