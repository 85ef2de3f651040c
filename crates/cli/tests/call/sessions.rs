//! Several calls in one session, handshakes, open files, and messages of the server (C6, C7, C8).

use std::fs;
use std::process::Command;

use super::support::daemon::guard;
use super::support::folder::Folder;
use super::support::once;
use super::{Ended, call, call_with, command, wait, write};

/// A server in lines that logs each message on stderr, and runs the case of its method. `$id` is the id of the message,
/// and `say` writes a message.
fn server(cases: &str) -> String {
    format!(
        r#"say() {{ printf '{{"jsonrpc":"2.0",%s}}\n' "$1"; }}
        while read -r line; do
            printf 'got %s\n' "$line" >&2
            id=${{line#*\"id\":}}; id=${{id%%,*}}
            method=${{line#*\"method\":\"}}; method=${{method%%\"*}}
            case $method in
            {cases}
            exit) exit 0;;
            *) case $line in *'"id"'*'"method"'*) say '"id":'$id',"result":"'$method'"';; esac;;
            esac
        done"#
    )
}

fn call_server(words: &[&str], cases: &str) -> Ended {
    call(&[words, &["--", "sh", "-c", &server(cases)]].concat())
}

impl Ended {
    /// The messages that the server got, without `jsonrpc`.
    fn got(&self) -> Vec<String> {
        let lines = self.err.lines().filter_map(|line| line.strip_prefix("got "));
        lines.map(|line| line.replacen(r#""jsonrpc":"2.0","#, "", 1)).collect()
    }

    fn methods(&self) -> Vec<String> {
        let method = |line: String| {
            let message: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            message.get("method").and_then(|it| it.as_str()).unwrap_or("answer").to_owned()
        };
        self.got().into_iter().map(method).collect()
    }
}

#[test]
fn c7_further_calls_follow_in_order_with_one_result_per_line() {
    let ended =
        call_server(&["a", "[1]", "--then", "b", "--then", "c", r#"{"x":1.0}"#, "--then", "d"], "");
    assert_eq!((ended.code, &*ended.out), (Some(0), "\"a\"\n\"b\"\n\"c\"\n\"d\"\n"), "{ended:?}");
    let expect = [
        r#"{"id":1,"method":"a","params":[1]}"#,
        r#"{"id":2,"method":"b"}"#,
        r#"{"id":3,"method":"c","params":{"x":1.0}}"#,
        r#"{"id":4,"method":"d"}"#,
    ];
    assert_eq!(ended.got(), expect);
}

#[test]
fn c7_a_script_is_read_from_a_file_or_from_stdin() {
    let script = "# calls\na [1]\n\n--notify note {\"n\":2}\nb\n";
    let file = write("script", script.as_bytes());
    let stay = server("");
    for (name, input) in [(&*file, ""), ("-", script)] {
        let words = ["--script", name, "--", "sh", "-c", &stay];
        let ended = call_with(&words, input.as_bytes());
        assert_eq!((ended.code, &*ended.out), (Some(0), "\"a\"\n\"b\"\n"), "{ended:?}");
        assert_eq!(ended.methods(), ["a", "note", "b"]);
    }
    // A method on the command line comes first.
    let ended = call_server(&["first", "--then", "second", "--script", &file], "");
    assert_eq!(ended.methods(), ["first", "second", "a", "note", "b"]);
}

#[test]
fn c7_the_first_failure_ends_the_session() {
    let fails = r#"bad) say '"id":'$id',"error":{"code":-1,"message":"no"}';;"#;
    let ended = call_server(&["a", "--then", "bad", "--then", "c"], fails);
    assert_eq!((ended.code, &*ended.out), (Some(3), "\"a\"\n"), "{ended:?}");
    assert_eq!(ended.methods(), ["a", "bad"]);
    assert!(ended.err.contains("duet-rpc: bad: the server answered with an error: no (-1)"));
    let ended = call_server(&["a", "--then", "die", "--then", "c"], "die) exit 7;;");
    assert_eq!((ended.code, &*ended.out), (Some(6), "\"a\"\n"), "{ended:?}");
    assert!(ended.err.contains("duet-rpc: die: the server ended without an answer, with exit"));
}

#[test]
fn c7_each_answer_has_the_whole_timeout() {
    // Together they take longer than one may.
    let slow = r#"*) sleep 0.7; say '"id":'$id',"result":1';;"#;
    let ended = call_server(&["--timeout", "1.9", "a", "--then", "b", "--then", "c"], slow);
    assert_eq!((ended.code, &*ended.out), (Some(0), "1\n1\n1\n"), "{ended:?}");
    let ended = call_server(&["--timeout", "0.3", "a", "--then", "b"], "b) ;;");
    assert_eq!((ended.code, &*ended.out), (Some(4), "\"a\"\n"), "{ended:?}");
}

#[test]
fn c7_every_call_is_read_before_the_first_is_sent() {
    let bad = write("bad-script", b"a\nb oops\n");
    #[rustfmt::skip]
    let rows: [(&[&str], i32, &str); 8] = [
        (&["a", "--then", "b", "oops"], 2, "are not JSON"),
        (&["--script", &bad], 2, "line 2 of the script are not JSON"),
        (&["--script", "no/such/file"], 1, "cannot read the script from the file `no/such/file`"),
        (&["a", "-", "--then", "b", "-"], 2, "only one of the calls can read stdin"),
        (&["a", "--answer", "m"], 2, "`--answer m` has no method: write METHOD=JSON"),
        (&["a", "--answer", "m={"], 2, "the answer to `m` from the command line is not JSON"),
        (&["a", "--handshake", "lsp", "--init", "[]"], 2, "`--init` takes a JSON object"),
        (&["a", "--handshake", "mcp", "--open", "x"], 2, "use `--handshake lsp`"),
    ];
    for (words, code, told) in rows {
        let ended = call_server(words, "");
        ended.has_failed(code, &[told]);
        assert_eq!(ended.got(), [""; 0]);
    }
    for words in [&[][..], &["--then", "a"], &["a", "--open", "x"], &["a", "--handshake", "x"]] {
        assert_eq!(call(words).code, Some(2), "{words:?}");
    }
}

#[test]
fn c6_lsp_begins_with_initialize_and_ends_with_shutdown_and_exit() {
    let ended = call_server(
        &["--handshake", "lsp", "--framing", "ndjson", "a", "--init", r#"{"locale":"de"}"#],
        "",
    );
    assert_eq!((ended.code, &*ended.out), (Some(0), "\"a\"\n"), "{ended:?}");
    assert_eq!(ended.methods(), ["initialize", "initialized", "a", "shutdown", "exit"]);
    let initialize: serde_json::Value = serde_json::from_str(&ended.got()[0]).expect("JSON");
    let params = &initialize["params"];
    assert_eq!(
        (&params["locale"], &params["clientInfo"]["name"]),
        (&"de".into(), &"duet-rpc".into())
    );
    assert!(params["processId"].is_u64() && params["capabilities"]["textDocument"].is_object());
    assert!(params["rootUri"].as_str().is_some_and(|uri| uri.starts_with("file:///")));
    // After an error too, and the error decides the exit code.
    let fails = r#"a) say '"id":'$id',"error":{"code":-1,"message":"no"}';;"#;
    let ended = call_server(&["--handshake", "lsp", "--framing", "ndjson", "a"], fails);
    assert_eq!(ended.code, Some(3));
    assert_eq!(ended.methods(), ["initialize", "initialized", "a", "shutdown", "exit"]);
    // A server that refuses the handshake gets no calls.
    let refuses = r#"initialize) say '"id":'$id',"error":{"code":-1,"message":"no"}';;"#;
    let ended = call_server(&["--handshake", "lsp", "--framing", "ndjson", "a"], refuses);
    ended.has_failed(3, &["duet-rpc: initialize: the server answered with an error: no (-1)"]);
    assert_eq!(ended.methods(), ["initialize"]);
}

#[test]
fn c6_mcp_begins_with_initialize() {
    let ended = call_server(&["--handshake", "mcp", "tools/list"], "");
    assert_eq!((ended.code, &*ended.out), (Some(0), "\"tools/list\"\n"), "{ended:?}");
    assert_eq!(ended.methods(), ["initialize", "notifications/initialized", "tools/list"]);
    assert!(ended.got()[0].contains(r#""protocolVersion":"2025-11-25""#), "{ended:?}");
}

#[test]
fn c6_result_of_initialize_that_is_not_an_object_is_a_warning() {
    for (result, told) in [
        ("null", "duet-rpc: warning: initialize: the result is not an object: null\n"),
        (r#""x""#, "duet-rpc: warning: initialize: the result is not an object: \"x\"\n"),
        (r#"{"capabilities":{}}"#, ""),
    ] {
        for protocol in ["lsp", "mcp"] {
            let cases = format!("initialize) say '\"id\":'$id',\"result\":{result}';;");
            let words = ["--handshake", protocol, "--framing", "ndjson", "a"];
            let ended = call_server(&words, &cases);
            assert_eq!((ended.code, &*ended.out), (Some(0), "\"a\"\n"), "{ended:?}");
            assert_eq!(ended.err.contains("warning"), !told.is_empty(), "{ended:?}");
            assert!(ended.err.contains(told), "{ended:?}");
        }
    }
}

#[test]
fn c6_mcp_without_a_handshake_gets_meta_in_each_request() {
    let unknown = r#"initialize) say '"id":'$id',"error":{"code":-32601,"message":"unknown"}';;"#;
    let ended =
        call_server(&["--handshake", "mcp", "tools/list", "--then", "t", r#"{"a":1}"#], unknown);
    assert_eq!((ended.code, &*ended.out), (Some(0), "\"tools/list\"\n\"t\"\n"), "{ended:?}");
    assert_eq!(ended.methods(), ["initialize", "server/discover", "tools/list", "t"]);
    for line in &ended.got()[1..] {
        let meta = r#""params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}"#;
        assert!(line.contains(meta), "{line}");
    }
    assert!(ended.got()[3].ends_with(r#""2026-07-28"},"a":1}}"#), "{ended:?}");
    // The error of `initialize` counts if there is no `server/discover` either.
    let none = format!(
        "{unknown}\n{}",
        unknown.replace("initialize", "server/discover").replace("unknown", "other")
    );
    let ended = call_server(&["--handshake", "mcp", "tools/list"], &none);
    ended.has_failed(3, &["duet-rpc: initialize: the server answered with an error: unknown"]);
}

#[test]
fn c6_an_open_file_completes_the_params() {
    let folder = Folder::new();
    let file = folder.write("a b.py", "x = 1\nü😀x\n");
    let words = ["--handshake", "lsp", "--framing", "ndjson", "--settle", "0", "--open"];
    let ended =
        call_server(&[&words[..], &[&format!("{file}:2:3"), "textDocument/hover"]].concat(), "");
    let got = ended.got();
    let uri = format!("file://{}", file.replace(' ', "%20"));
    let open = format!(
        r#"{{"method":"textDocument/didOpen","params":{{"textDocument":{{"languageId":"python","text":"x = 1\nü😀x\n","uri":"{uri}","version":1}}}}}}"#
    );
    assert_eq!(got[2], open);
    let hover = format!(
        r#"{{"id":2,"method":"textDocument/hover","params":{{"textDocument":{{"uri":"{uri}"}},"position":{{"character":3,"line":1}}}}}}"#
    );
    assert_eq!(got[3], hover);
    for (place, told) in [
        (":9", "it has no line 9, only 2"),
        (":0:0", "0:0 is not a place: lines and columns count from 1"),
        (":2:0", "2:0 is not a place: lines and columns count from 1"),
        (".gone", "No such file"),
    ] {
        let open = format!("{file}{place}");
        call_server(&[&words[..], &[&open, "m"]].concat(), "")
            .has_failed(1, &["cannot open", told]);
    }
}

#[test]
fn c8_requests_of_the_server_are_answered_and_shown() {
    let asks = r#"a) say '"id":"s1","method":"workspace/configuration","params":{"items":[{},{}]}'; read -r one
        say '"id":"s2","method":"my/question"'; read -r two
        say '"id":"s3","method":"my/riddle"'; read -r three
        printf 'got %s\n' "$one" "$two" "$three" >&2; say '"id":'$id',"result":1';;"#;
    let words =
        ["--handshake", "lsp", "--framing", "ndjson", "--answer", r#"my/question={"b": 1}"#];
    let ended = call_server(&[&words[..], &["a"]].concat(), asks);
    assert_eq!((ended.code, &*ended.out), (Some(0), "1\n"), "{ended:?}");
    let got = ended.got();
    let has = |text: &str| got.iter().any(|line| line == text);
    assert!(has(r#"{"id":"s1","result":[null,null]}"#), "{ended:?}");
    assert!(has(r#"{"id":"s2","result":{"b":1}}"#) || has(r#"{"id":"s2","result":{"b": 1}}"#));
    assert!(got.iter().any(|line| line.contains(r#""id":"s3","error":{"code":-32601"#)));
    for told in [
        r#"duet-rpc: request workspace/configuration {"items":[{},{}]}: answered [null,null]"#,
        r#"duet-rpc: request my/question: answered {"b":1}"#,
        "duet-rpc: request my/riddle: answered with Method not found; `--answer 'my/riddle=JSON'`",
    ] {
        assert!(ended.err.contains(told), "{told}: {ended:?}");
    }
}

#[test]
fn c8_notifications_and_log_messages_are_lines_on_stderr() {
    let talks = r#"a) say '"method":"window/logMessage","params":{"type":2,"message":"careful"}'
        say '"method":"other","params":{"a":[1]}'; say '"id":'$id',"result":1';;"#;
    let ended = call_server(&["a"], talks);
    assert_eq!((ended.code, &*ended.out), (Some(0), "1\n"), "{ended:?}");
    assert!(ended.err.contains("\nduet-rpc: server log: warning: careful\n"), "{ended:?}");
    assert!(ended.err.contains("\nduet-rpc: notification other {\"a\":[1]}\n"), "{ended:?}");
}

#[test]
fn c8_a_server_that_talks_without_end_does_not_hold_up_the_session() {
    let floods = r#"a) (while :; do say '"method":"noise","params":[]'; done) & noise=$!
        say '"id":'$id',"result":1';;
        b) kill $noise; say '"id":'$id',"result":2';;"#;
    let ended = call_server(&["a", "--then", "b"], floods);
    assert_eq!((ended.code, &*ended.out), (Some(0), "1\n2\n"), "{:?}", ended.code);
}

#[test]
fn c6_c7_a_session_works_over_a_connection_and_with_our_daemon() {
    let folder = Folder::new();
    let socket = format!("unix://{}", folder.text("socket"));
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_duet-rpc"));
    daemon.args(["rpc", "--profile", "agent", "--listen", &socket]);
    let mut daemon = daemon.stderr(fs::File::create(folder.path("log")).unwrap()).spawn().unwrap();
    let running = guard(&daemon);
    while !fs::read_to_string(folder.path("log")).unwrap().contains("listening on") {
        std::thread::yield_now();
    }
    let words = ["system.ping", "--then", "system.echo", "[1]"];
    for options in
        [&["--connect", &*socket][..], &["--connect", &socket, "--handshake", "mcp"], &[]]
    {
        let ended = call(&[options, &words[..]].concat());
        assert_eq!((ended.code, &*ended.out), (Some(0), "\"pong\"\n[1]\n"), "{ended:?}");
    }
    let ended = call(&["--handshake", "lsp", "version"]);
    assert_eq!((ended.code, &*ended.out), (Some(0), "{\"version\":\"0.1.0\"}\n"), "{ended:?}");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    drop(running);
}

#[test]
fn c7_a_signal_ends_a_session_and_its_server() {
    let folder = Folder::new();
    let ready = folder.text("ready");
    let script = server(&format!("b) echo $$ > '{ready}.new'; mv '{ready}.new' '{ready}';;"));
    let mut child = command(&["a", "--then", "b", "--", "sh", "-c", &script]);
    let child = child.spawn().unwrap();
    while !folder.path("ready").exists() {
        std::thread::yield_now();
    }
    let server = fs::read_to_string(folder.path("ready")).unwrap();
    let mut kill = Command::new("kill");
    kill.args(["-TERM", &child.id().to_string()]);
    assert!(once::run(kill, b"").status.success());
    wait(child);
    assert!(!std::path::Path::new("/proc").join(server.trim()).exists());
}
