//! `system.echo` returns the params, byte for byte.

use std::collections::BTreeMap;

use duet_rpc::proto::frame::Framing;

use super::support::daemon::rpc;
use super::support::once::talk;
use super::{requests, ways};

/// Params without white space, so that no byte may change.
fn compact() -> Vec<String> {
    let rows = [
        "{}",
        "[]",
        "[null,true,false]",
        "[1.0,-0,0.10,1e400,-1E+3,1e-999,18446744073709551616]",
        "[1234567890123456789012345678901234567890]",
        r#"{"a":1,"a":2,"a":{"a":[]}}"#,
        r#"{"":"","jsonrpc":"1.0","id":7,"method":"no","params":null}"#,
        r#"["\u00e9\u00E9é\/\b\f\n\r\t\"\\\u0000\u001f","\ud83d\ude00😀","\ud800"]"#,
        r#"{"\u0061":1,"a":2}"#,
        "[\"\u{7f}\u{2028}\u{feff}\u{10ffff}\"]",
        r#"["Content-Length: 5"]"#,
    ];
    let (long, deep) = ("x".repeat(100_000), 127);
    // The message itself is the first level of 128.
    let nested = format!("{}{}", "[".repeat(deep), "]".repeat(deep));
    rows.into_iter().map(str::to_owned).chain([format!("[\"{long}\"]"), nested]).collect()
}

/// The results, by id.
fn results(options: &[&str], framing: Framing, params: &[String]) -> BTreeMap<u64, String> {
    let calls: Vec<_> = params.iter().map(|params| ("system.echo", params)).collect();
    let talk = talk(rpc(options), framing, &requests(&calls));
    let parts = talk.texts.iter().map(|text| {
        let rest = text.strip_prefix(r#"{"jsonrpc":"2.0","id":"#).expect("an answer");
        let (id, result) = rest.split_once(r#","result":"#).expect("a result");
        (id.parse().expect("our id"), result.strip_suffix('}').expect("its end").to_owned())
    });
    parts.collect()
}

#[test]
fn c4_echo_returns_every_byte() {
    for (options, framing) in ways(&["desktop", "agent"]) {
        let results = results(&options, framing, &compact());
        for (params, id) in compact().iter().zip(1..) {
            assert!(results[&id] == *params, "{options:?} {params}: {}", results[&id]);
        }
    }
}

#[test]
fn f5_echo_of_pretty_params_differs_only_in_white_space() {
    let pretty = [
        "{\r\n  \"a\": [\r\n    1.0,\r\n\t2\r\n  ]\r\n}\r\n",
        "[\n\n 1 , \"two\\n\" ,\t{ } ]",
        "\n{\n}\n",
    ];
    let pretty = pretty.map(str::to_owned);
    for (options, framing) in ways(&["desktop", "agent"]) {
        if framing == Framing::Ndjson {
            continue; // A line cannot contain a line break.
        }
        let results = results(&options, framing, &pretty);
        for (params, id) in pretty.iter().zip(1..) {
            let squeezed = |text: &str| text.replace(|it: char| it.is_ascii_whitespace(), "");
            assert_eq!(squeezed(&results[&id]), squeezed(params), "{options:?}");
        }
    }
    // A line can contain carriage returns, but the answer must not.
    let in_lines = ["[1,\r2,\t3 ]".to_owned()];
    let results = results(&["--profile", "agent"], Framing::Ndjson, &in_lines);
    assert_eq!(results[&1].replace(['\r', '\t', ' '], ""), "[1,2,3]");
}

#[test]
fn c4_echo_of_no_params_is_null() {
    for (options, framing) in ways(&["desktop", "agent"]) {
        let results = results(&options, framing, &[String::new(), "null".to_owned()]);
        assert_eq!(results.into_values().collect::<Vec<_>>(), ["null", "null"], "{options:?}");
    }
}

#[test]
fn m9_params_nested_too_deeply_are_refused() {
    let nested = format!("{}{}", "[".repeat(128), "]".repeat(128));
    for (options, framing) in ways(&["desktop", "agent"]) {
        let texts = requests(&[("system.echo", &*nested), ("system.ping", "")]);
        let talk = talk(rpc(&options), framing, &texts);
        assert_eq!(talk.values()[0]["error"]["code"], -32700, "{options:?}");
        assert_eq!(talk.answer(2)["result"], "pong", "{options:?}");
    }
}
