//! Limits on input: sizes and times (C3, F6, F13, F14, F21, F31).

use std::thread;
use std::time::Duration;

use duet_rpc::proto::frame::Framing;
use serde_json::{Value, json};

use super::support::daemon::{Trigger, frame, framing_of, request, rpc};
use super::support::once::{talk, talk_in_bytes};
use super::support::{concurrently, pairs};
use super::{FRAMINGS, message, start};

/// A request of exactly this length.
fn request_of(bytes: usize) -> String {
    let empty = request(1, "version", r#"[""]"#);
    request(1, "version", &format!(r#"["{}"]"#, "x".repeat(bytes - empty.len())))
}

/// Sends a request of this size to a daemon with this limit, and another request after it.
fn check_size(options: &[&str], framing: Framing, bytes: usize, bound: usize) {
    let texts = [request_of(bytes), message(Some(2), "version", "")];
    let talk = talk(rpc(options), framing, &texts);
    let first = &talk.values()[0];
    let case = format!("{options:?} {framing:?} {bytes}: {first}");
    if bytes <= bound {
        let result = json!({"version": "0.1.0"});
        assert_eq!(*first, json!({"jsonrpc": "2.0", "id": 1, "result": result}), "{case}");
    } else {
        check_refusal(first, "oversize", &case);
    }
    assert_eq!(talk.answer(2)["result"]["version"], "0.1.0", "{case}");
    assert_eq!(talk.texts.len(), 2, "{case}");
}

fn check_refusal(answer: &Value, reason: &str, case: &str) {
    let members = ["id", "result"].map(|name| answer.get(name));
    assert_eq!(members, [Some(&Value::Null), None], "{case}");
    let error = &answer["error"];
    assert_eq!(error["code"], -32600, "{case}");
    assert_eq!(error["data"], json!({"reason": reason}), "{case}");
    let is_named = error["message"].as_str().is_some_and(|it| it.starts_with("Invalid Request"));
    assert!(is_named, "{case}");
}

#[test]
fn c3_f14_f21_f31_the_option_limits_the_size_of_a_message() {
    for (profile, (name, framing)) in pairs(super::PROFILES, FRAMINGS) {
        for bound in ["100", "70000"] {
            let options = ["--profile", profile, "--framing", name, "--max-message-bytes", bound];
            let bound = bound.parse().expect("a number");
            for bytes in [bound - 1, bound, bound + 1] {
                check_size(&options, framing, bytes, bound);
            }
        }
    }
}

#[test]
fn c3_f14_f21_f31_the_profile_limits_the_size_of_a_message() {
    const MIB: usize = 1024 * 1024;
    let rows = [("editor", 10 * MIB), ("desktop", MIB), ("agent", MIB)];
    for (profile, bound) in rows {
        for bytes in [bound, bound + 1] {
            check_size(&["--profile", profile], framing_of(profile), bytes, bound);
        }
    }
}

#[test]
fn f13_a_header_section_may_take_8192_bytes() {
    for (profile, (bytes, fits)) in pairs(super::PROFILES, [(8192, true), (8193, false)]) {
        let body = message(Some(1), "version", "");
        let length = format!("Content-Length: {}\r\n", body.len());
        let padding = "x".repeat(bytes - length.len() - "X: \r\n".len());
        let long = format!("{length}X: {padding}\r\n\r\n{body}");
        let input = [long.as_bytes(), &frame(Framing::Lsp, &message(Some(2), "version", ""))];
        let options = ["--profile", profile, "--framing", "lsp"];
        let talk = talk_in_bytes(rpc(&options), Framing::Lsp, &input.concat());
        let first = &talk.values()[0];
        if fits {
            assert_eq!(first["result"]["version"], "0.1.0", "{profile}: {first}");
        } else {
            check_refusal(first, "header-too-large", profile);
        }
        assert_eq!(talk.answer(2)["result"]["version"], "0.1.0", "{profile}");
        assert_eq!(talk.texts.len(), 2, "{profile}");
    }
}

#[test]
fn f6_a_stalled_frame_is_dropped_with_a_warning_and_the_next_is_served() {
    concurrently(FRAMINGS, |(name, framing)| {
        let options = ["--framing", name, "--read-timeout", "0.05", "--log-format", "json"];
        let mut daemon = start(&options, framing);
        // Any number of consecutive timeouts leaves the daemon alive.
        for id in 1..=3 {
            let stalled = frame(framing, &request(id, "shutdown", "null"));
            let (begin, rest) = stalled.split_at(stalled.len() / 2);
            daemon.send_raw(begin);
            let line = daemon.wait_for_line(|line| line.contains(r#""severity":"warn""#));
            let record: Value = serde_json::from_str(&line).expect("JSON");
            let message = record["message"].as_str().expect("a text");
            let figures = message.split(|it: char| !it.is_ascii_digit());
            let figures: Vec<_> = figures.filter(|figure| !figure.is_empty()).collect();
            assert!(figures.len() >= 2 && figures.contains(&"50"), "{name}: {line}");
            // The late rest is skipped.
            daemon.send_raw(rest);
            let answer = daemon.ask(id + 10, "version", "[]");
            assert_eq!(answer["id"], id + 10);
            assert_eq!(answer["result"]["version"], "0.1.0");
        }
        let end = daemon.end(Trigger::Eof);
        assert_eq!((end.status.code(), end.answers), (Some(0), vec![]), "{name}");
    });
}

#[test]
fn f6_an_idle_connection_never_times_out_and_zero_disables_the_timeout() {
    // The elapsed time is the test here: longer than one timeout, and shorter than another.
    let pause = Duration::from_millis(300);
    let timeouts = [("0.05", 0), ("0", 1), ("30", 1)];
    concurrently(pairs(timeouts, FRAMINGS), |((timeout, cut), (name, framing))| {
        let mut daemon = start(&["--framing", name, "--read-timeout", timeout], framing);
        assert_eq!(daemon.ask(1, "version", "[]")["id"], 1, "{timeout} {name}");
        let text = frame(framing, &request(2, "version", "[]"));
        let (begin, rest) = text.split_at(cut * text.len() / 2);
        daemon.send_raw(begin);
        thread::sleep(pause);
        daemon.send_raw(rest);
        assert_eq!(daemon.answer()["id"], 2, "{timeout} {name}");
        let end = daemon.end(Trigger::Eof);
        let warnings = end.lines.iter().filter(|line| line.contains(" WARN "));
        assert_eq!((end.status.code(), warnings.count()), (Some(0), 0), "{timeout} {name}");
    });
}
