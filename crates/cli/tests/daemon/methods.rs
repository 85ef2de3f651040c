//! Answers of the methods, in every profile and framing (section 4).

use std::time::Instant;

use serde_json::{Value, json};

use super::catalog::methods_of;
use super::support::daemon::{Daemon, framing_of, rpc};
use super::support::once::talk;
use super::support::pairs;
use super::{PROFILES, explicit_ways, message, requests, start, ways};

/// Params that methods without parameters accept.
const NO_PARAMS: [&str; 6] = ["", "null", "{}", "[]", r#"[1, "more"]"#, r#"{"more": {}}"#];

/// Methods of a profile without parameters that answer immediately.
fn plain_methods(profile: &str) -> Vec<&'static str> {
    let six = ["initialize", "listMethods", "describeMethods", "version"];
    let more = ["system.ping", "rpc.discover"];
    six.into_iter().chain(more.into_iter().filter(|_| profile != "editor")).collect()
}

/// The result of a method, if the contract defines the whole result.
fn known_result(method: &str) -> Option<Value> {
    let server = json!({"name": "duet-rpc", "version": "0.1.0"});
    match method {
        "initialize" => Some(json!({"serverInfo": server, "protocolVersion": "2.0"})),
        "version" => Some(json!({"version": "0.1.0"})),
        "system.ping" => Some(json!("pong")),
        _ => None,
    }
}

#[test]
fn c4_methods_without_parameters_ignore_params() {
    for (options, framing) in ways(&PROFILES) {
        let methods = plain_methods(options[1]);
        let calls: Vec<_> =
            methods.iter().flat_map(|method| NO_PARAMS.map(|params| (method, params))).collect();
        let talk = talk(rpc(&options), framing, &requests(&calls));
        assert_eq!(talk.texts.len(), calls.len(), "{options:?}");
        let mut ids = 1..;
        for method in methods {
            let answers = NO_PARAMS.map(|_| talk.answer(ids.next().expect("the range is endless")));
            let expected = known_result(method).unwrap_or(answers[0]["result"].clone());
            assert!(!expected.is_null(), "{options:?} {method}: {answers:?}");
            for (answer, params) in answers.iter().zip(NO_PARAMS) {
                assert_eq!(answer["result"], expected, "{options:?} {method} {params}");
                assert_eq!(answer["jsonrpc"], "2.0", "{options:?} {method} {params}");
            }
        }
    }
}

#[test]
fn m2_ids_are_returned_exactly_as_written() {
    let ids = ["0", "-0", "1.0", "1e3", "-7", "18446744073709551616", "0.1e-999", "null"];
    let long = "1234567890".repeat(4);
    let ids: Vec<_> = ids.into_iter().chain([&*long, r#""""#, r#""7""#, r#""é 💡""#]).collect();
    for profile in PROFILES {
        let text = |id| format!(r#"{{"method":"version","id":{id},"jsonrpc":"2.0"}}"#);
        let texts: Vec<_> = ids.iter().map(text).collect();
        let talk = talk(rpc(&["--profile", profile]), framing_of(profile), &texts);
        let answer =
            |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"version":"0.1.0"}}}}"#);
        let mut expected: Vec<_> = ids.iter().map(answer).collect();
        let mut texts = talk.texts;
        expected.sort_unstable();
        texts.sort_unstable();
        assert_eq!(texts, expected, "{profile}");
    }
}

#[test]
fn c4_set_log_level_takes_a_level_in_any_case_by_name_and_by_position() {
    let rows = [
        (r#"{"level":"debug"}"#, "debug"),
        (r#"{"level":"INFO"}"#, "info"),
        (r#"{"level":"Warn"}"#, "warn"),
        (r#"{"level":"eRRoR"}"#, "error"),
        (r#"{"level":"\u0069nfo"}"#, "info"),
        (r#"["debug"]"#, "debug"),
        (r#"["WARN"]"#, "warn"),
    ];
    for (options, framing) in ways(&PROFILES) {
        let calls = rows.map(|(params, _)| ("setLogLevel", params));
        let talk = talk(rpc(&options), framing, &requests(&calls));
        for ((params, level), id) in rows.iter().zip(1..) {
            let expected = json!({"level": level, "success": true});
            assert_eq!(talk.answer(id)["result"], expected, "{options:?} {params}");
        }
    }
}

#[test]
fn e1_e4_a_bad_level_gets_the_accepted_ones_and_is_cut_at_64_characters() {
    let long = format!(r#"{{"level":"{}"}}"#, "é".repeat(65));
    let cut = "é".repeat(64);
    let fits = format!(r#"["{cut}"]"#);
    let rows = [
        (r#"{"level":"loud"}"#, "loud"),
        (r#"["loud"]"#, "loud"),
        (r#"{"level":""}"#, ""),
        (r#"{"level":" info"}"#, " info"),
        (&*fits, &*cut),
        (&*long, &*cut),
        (r#"{"level":7}"#, "number"),
        (r#"{"level":null}"#, "null"),
        (r#"{"level":true}"#, "boolean"),
        (r#"{"level":["info"]}"#, "array"),
        (r#"[1.5]"#, "number"),
        ("[]", "missing"),
        (r#"{"LEVEL":"info"}"#, "missing"),
        ("{}", "missing"),
        ("null", "missing"),
        ("", "missing"),
    ];
    for profile in PROFILES {
        let calls = rows.map(|(params, _)| ("setLogLevel", params));
        let talk = talk(rpc(&["--profile", profile]), framing_of(profile), &requests(&calls));
        for ((params, received), id) in rows.iter().zip(1..) {
            let error = &talk.answer(id)["error"];
            assert_eq!(error["code"], -32602, "{profile} {params}");
            let message = error["message"].as_str().expect("a message");
            assert!(message.starts_with("Invalid params"), "{profile} {params}: {message}");
            let data = error["data"].as_object().expect("data");
            assert_eq!(data["received"], *received, "{profile} {params}");
            assert_eq!(data["accepted"], json!(["debug", "info", "warn", "error"]), "{params}");
            assert_eq!(data["param"], "level", "{profile} {params}");
            assert!(data["expected"].is_string(), "{profile} {params}");
            assert_eq!(data.len(), 4, "{profile} {params}: {data:?}");
        }
    }
}

#[test]
fn c4_set_log_level_takes_effect_with_the_next_record() {
    for profile in PROFILES {
        let options = ["--profile", profile, "--log-level", "error", "--log-format", "json"];
        let talk = talk(
            rpc(&options),
            framing_of(profile),
            &[
                message(Some(1), "before", ""),
                message(Some(2), "setLogLevel", r#"["warn"]"#),
                message(Some(3), "during", ""),
                message(Some(4), "setLogLevel", r#"["error"]"#),
                message(Some(5), "after", ""),
            ],
        );
        let is_logged =
            |method: &str| talk.log.iter().any(|line| line.contains(&format!("\"{method}\"")));
        let logged = ["before", "during", "after"].map(is_logged);
        assert_eq!(logged, [false, true, false], "{profile}: {:?}", talk.log);
    }
}

#[test]
fn m10_a_notification_is_never_answered() {
    let methods = methods_of("desktop").into_iter().filter(|method| *method != "shutdown");
    let methods: Vec<_> = methods.chain(["$/cancelRequest", "nonsense"]).collect();
    let params = ["", "null", "{}", "[]", r#"{"level":"info"}"#, r#"{"topics":["stats"]}"#];
    for (options, framing) in ways(&PROFILES) {
        let every = methods.iter().flat_map(|method| params.map(|it| message(None, method, it)));
        let mut texts: Vec<_> = every.collect();
        // These params make no call to the client.
        texts.push(message(None, "system.callback", r#"{"method":7}"#));
        texts.push(message(Some(1), "version", ""));
        let talk = talk(rpc(&options), framing, &texts);
        assert_eq!(talk.answer(1)["result"]["version"], "0.1.0");
        let is_event = |text: &&String| text.contains(r#""method":"event""#);
        let answers: Vec<_> = talk.texts.iter().filter(|text| !is_event(text)).collect();
        assert_eq!(answers.len(), 1, "{options:?}: {answers:?}");
    }
}

#[test]
fn l4_shutdown_answers_and_ends_the_daemon_with_any_params_and_as_a_notification() {
    let result = json!({"message": "Shutting down gracefully"});
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result});
    let check = |mut daemon: Daemon, id, params: &str, case: &str| {
        daemon.send(&message(id, "shutdown", params));
        let end = daemon.wait(Instant::now());
        let expected: Vec<_> = id.map(|_| answer.clone()).into_iter().collect();
        assert_eq!((end.status.code(), end.answers), (Some(0), expected), "{case} {params}");
    };
    for (profile, params) in pairs(PROFILES, NO_PARAMS) {
        check(Daemon::rpc(profile, &[]), Some(1), params, profile);
    }
    for ((options, framing), id) in pairs(explicit_ways(&PROFILES), [Some(1), None]) {
        check(start(&options, framing), id, "", &format!("{options:?}"));
    }
}
