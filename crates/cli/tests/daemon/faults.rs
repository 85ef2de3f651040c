//! Bad bytes and bad messages over real pipes: later messages are served (F1, F2, F7, M3–M5).

use duet_rpc::proto::frame::Framing;
use serde_json::json;

use super::support::daemon::{Trigger, frame, request, rpc};
use super::support::once::{talk, talk_in_bytes};
use super::support::pairs;
use super::{PROFILES, explicit_ways, message, start, ways};

#[test]
fn f1_frames_may_come_a_byte_at_a_time() {
    for (options, framing) in ways(&PROFILES) {
        let mut daemon = start(&options, framing);
        for id in 1..=2 {
            for byte in frame(framing, &request(id, "version", r#"{"é":"\u00e9"}"#)) {
                daemon.send_raw(&[byte]);
            }
            assert_eq!(daemon.answer()["id"], id, "{options:?}");
        }
        assert_eq!(daemon.end(Trigger::Eof).status.code(), Some(0));
    }
}

#[test]
fn f2_messages_after_bad_bytes_are_served() {
    // The framing, the bad bytes, and the number of faults.
    let rows: [(Framing, &[u8], usize); 9] = [
        (Framing::Lsp, b"oops, a stray line\r\n", 1),
        (Framing::Lsp, b"Content-Length: many\r\n\r\n", 1),
        (Framing::Lsp, b"Content-Length: 2\r\n\r\n{]", 1),
        (Framing::Lsp, b"Content-Length: 4\r\n\r\n[\"\xff\"", 1),
        (Framing::Ndjson, b"oops\n{]\n", 2),
        (Framing::Ndjson, b"[\"\xff\"]\n", 1),
        (Framing::Length, b"\0\0\0\x02{]\n", 1),
        (Framing::Length, b"\0\0\0\0\n", 1),
        (Framing::Length, b"\0\0\0\x02{}!", 1),
    ];
    for (profile, (framing, bytes, faults)) in pairs(PROFILES, rows) {
        let name = framing.to_string();
        let options = ["--profile", profile, "--framing", &name];
        let case = format!("{profile} {framing} {:?}", String::from_utf8_lossy(bytes));
        let input = [bytes, &frame(framing, &message(Some(7), "version", ""))].concat();
        let talk = talk_in_bytes(rpc(&options), framing, &input);
        let error = json!({"code": -32700, "message": "Parse error"});
        let fault = json!({"jsonrpc": "2.0", "id": null, "error": error});
        let answers = talk.values();
        let (last, before) = answers.split_last().expect("answers");
        assert_eq!(before, vec![fault; faults], "{case}");
        assert_eq!(last["id"], 7, "{case}");
        assert_eq!(last["result"]["version"], "0.1.0", "{case}");
    }
}

#[test]
fn m2_m3_m4_m5_invalid_requests_get_an_error_response() {
    // The id, code and reason of the answer, and the message.
    let id_type = Some("invalid-id-type");
    let rows = [
        ("null", -32600, None, "7"),
        ("null", -32600, None, "\"text\""),
        ("null", -32600, None, "{}"),
        ("null", -32600, None, r#"{"jsonrpc":"2.0"}"#),
        ("1", -32600, None, r#"{"jsonrpc":"2.0","id":1}"#),
        ("1", -32600, None, r#"{"id":1,"method":"version"}"#),
        ("1", -32600, None, r#"{"jsonrpc":"1.0","id":1,"method":"version"}"#),
        ("1", -32600, None, r#"{"jsonrpc":"2.0","id":1,"method":7}"#),
        ("null", -32600, id_type, r#"{"jsonrpc":"2.0","id":{},"method":"version"}"#),
        ("null", -32600, id_type, r#"{"jsonrpc":"2.0","id":true,"method":"version"}"#),
        (r#""a""#, -32600, None, r#"{"jsonrpc":"2.0","id":"a","method":"version","params":"b"}"#),
        ("null", -32600, None, r#"{"jsonrpc":"2.0","method":"version","params":7}"#),
        ("1", -32600, None, r#"{"jsonrpc":"2.0","id":1,"method":"version","method":"version"}"#),
        ("null", -32600, None, r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"version"}"#),
        ("1", -32601, None, r#"{"jsonrpc":"2.0","id":1,"method":"CANARY"}"#),
        ("1", -32602, None, r#"{"jsonrpc":"2.0","id":1,"method":"setLogLevel","params":[7]}"#),
    ];
    for (profile, (id, code, reason, text)) in pairs(PROFILES, rows) {
        let options = ["--profile", profile, "--framing", "ndjson"];
        let talk = talk(rpc(&options), Framing::Ndjson, &[text.to_owned()]);
        let answers = talk.values();
        assert_eq!(answers.len(), 1, "{profile} {text}");
        let error = &answers[0]["error"];
        assert_eq!(answers[0]["id"].to_string(), id, "{profile} {text}");
        assert_eq!(error["code"], code, "{profile} {text}");
        assert_eq!(error["data"]["reason"], json!(reason), "{profile} {text}");
    }
}

#[test]
fn f7_only_a_thousand_consecutive_faults_are_answered() {
    for (options, framing) in explicit_ways(&PROFILES) {
        let bad = frame(framing, "}").repeat(1500);
        let good = frame(framing, &message(Some(1), "nonsense", ""));
        let input = [&bad[..], &good, &bad, &good].concat();
        let options = [&options[..], &["--log-format", "json"]].concat();
        let talk = talk_in_bytes(rpc(&options), framing, &input);
        let codes: Vec<_> =
            talk.values().iter().filter_map(|answer| answer["error"]["code"].as_i64()).collect();
        let storm = [vec![-32700; 1000], vec![-32601]].concat();
        assert_eq!(codes.len(), 2 * storm.len(), "{options:?}");
        assert!(codes == storm.repeat(2), "{options:?}: the answers come in order");
        // Unanswered faults do not flood the log either.
        let warnings = talk.log.iter().filter(|line| line.contains(r#""severity":"warn""#)).count();
        assert!(warnings < 2100, "{options:?}: {warnings}");
    }
}
