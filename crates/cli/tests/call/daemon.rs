//! Calls of our own daemon, the default server.

use crate::{big_params, call, write};

#[test]
fn t1_the_daemon_is_called_in_each_profile_and_framing() {
    for profile in [&[][..], &["--profile", "editor"], &["--profile", "desktop"]] {
        for framing in
            [&[][..], &["--framing", "lsp"], &["--framing", "ndjson"], &["--framing", "length"]]
        {
            let ended = call(&[profile, framing, &["version"]].concat());
            ended.has_result(r#"{"version":"0.1.0"}"#);
            assert_eq!(ended.err, "", "{profile:?} {framing:?}");
        }
    }
}

#[test]
fn m2_echoed_params_are_unchanged() {
    for params in ["[]", "{}", r#"[1.0,1e400,-0,"\u00e9é",{"a":1,"a":2}]"#] {
        call(&["system.echo", params]).has_result(params);
    }
    call(&["system.echo"]).has_result("null");
}

#[test]
fn e1_an_error_of_the_daemon_is_reported() {
    let told = "duet-rpc: the server answered with an error: Method not found: nothing (-32601)\n";
    call(&["nothing"]).has_failed(3, &[told]);
    let ended = call(&["setLogLevel", r#"{"level": "loud"}"#]);
    ended.has_failed(3, &["Invalid params", "(-32602)\n", "data: {", r#""accepted":["#]);
    let params = write("too-big.json", big_params().as_bytes());
    call(&["system.echo", &format!("@{params}")]).has_failed(3, &["(-32600)\n", "oversize"]);
}

#[test]
fn g2_the_daemon_logs_with_the_options_of_the_call() {
    let quiet = call(&["system.ping"]);
    quiet.has_result(r#""pong""#);
    assert_eq!(quiet.err, "");
    let text = call(&["--log-level", "info", "system.ping"]);
    assert!(text.err.contains(" INFO "), "{text:?}");
    let json = call(&["--log-level", "info", "--log-format", "json", "--no-color", "system.ping"]);
    assert!(json.err.lines().all(|line| line.starts_with('{')), "{json:?}");
    assert!(json.err.contains(r#""severity":"info""#), "{json:?}");
}

#[test]
fn t1_a_notification_to_the_daemon_is_silent() {
    for method in ["shutdown", "version"] {
        let ended = call(&["--notify", method]);
        assert_eq!((ended.code, &*ended.out), (Some(0), ""), "{ended:?}");
    }
}
