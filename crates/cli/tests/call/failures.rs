//! Failing calls: each reports the failure, and has its own exit code.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::daemon::after;
use crate::{
    Command, answers, answers_and_stays, big_params, call, call_script, command, file, fs,
    read_all, wait, write,
};

#[test]
fn e1_an_error_answer_is_reported_with_its_data() {
    #[rustfmt::skip]
    let rows = [
        (r#"{"code":-32000,"message":"no such file"}"#,
         "duet-rpc: the server answered with an error: no such file (-32000)\n"),
        (r#"{"code":7,"message":"it broke","data":{ "a": [1.0, 2] }}"#,
         "duet-rpc: the server answered with an error: it broke (7)\ndata: {\"a\":[1.0,2]}\n"),
        (r#"{}"#, "duet-rpc: the server answered with an error (code missing or 0)\n"),
        (r#"{"message":"broken"}"#,
         "duet-rpc: the server answered with an error: broken (code missing or 0)\n"),
        // The text can neither forge a line nor control the terminal.
        (r#"{"code":1,"message":"a\nb\u001b[2J\u202ec","data":"\u001b[2J"}"#,
         "duet-rpc: the server answered with an error: a\\nb\\u{1b}[2J\\u{202e}c (1)\n\
          data: \"\\u001b[2J\"\n"),
        ("{\"code\":1,\"message\":\"m\",\"data\":\"\u{9b}2J\"}",
         "duet-rpc: the server answered with an error: m (1)\ndata: \"\\u009b2J\"\n"),
    ];
    for (error, told) in rows {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
        let ended = call_script(&[], &answers_and_stays(&answer));
        ended.has_failed(3, &[]);
        assert_eq!(ended.err, told);
    }
}

#[test]
fn m5_an_error_with_id_null_answers_the_only_request() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#;
    let told = "duet-rpc: the server answered with an error: Parse error (-32700)\n";
    for script in [answers(error), answers_and_stays(error)] {
        call_script(&[], &script).has_failed(3, &[told]);
    }
    // Here the error may refer to our error response to the stray line.
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":"ok"}"#;
    let script = answers_and_stays(&format!("stray output\n{error}\n{answer}"));
    call_script(&[], &script).has_result(r#""ok""#);
}

#[test]
fn p2_a_timeout_is_reported_with_the_received_data() {
    let silent = "cat >/dev/null; :";
    let other_id = answers_and_stays(r#"{"jsonrpc":"2.0","id":"1","result":1}"#);
    let half = "read -r request; printf '{\"jsonrpc\":'; cat >/dev/null; :";
    let print = answers_and_stays("Listening on stdin");
    let log = answers_and_stays(r#"{"jsonrpc":"2.0","method":"log","params":["hello"]}"#);
    #[rustfmt::skip]
    let rows = [
        (silent, "it wrote nothing to stdout"),
        (&*other_id, "it answered something that was not asked"),
        (half, "it began a message and did not end it"),
        (&*print, "it wrote something to stdout that is not a message (\"Listening on stdin\")"),
        (&*log, "it sent messages, but no answer to this one"),
    ];
    for (script, told) in rows {
        let ended = call_script(&["--timeout", "0.5"], script);
        ended.has_failed(4, &["duet-rpc: no answer within 0.5 s", told]);
    }
}

#[test]
fn p2_a_server_that_sends_the_request_back_fails_immediately_and_is_named() {
    for options in [&[][..], &["--framing", "lsp"], &["--framing", "length"]] {
        let ended = call(&[options, &["m", "[1]", "--", "cat"]].concat());
        let told = "duet-rpc: the server sends our own message back, as `cat` does";
        ended.has_failed(6, &[told]);
        assert!(!ended.err.contains("--answer"), "{}", ended.err);
    }
}

#[test]
fn c6_a_handshake_without_an_answer_names_the_other_handshake() {
    for (handshake, other) in [("lsp", "mcp"), ("mcp", "lsp")] {
        let options = ["--handshake", handshake, "--timeout", "0.5"];
        let told = format!("Then use `--handshake {other}`");
        let ended = call_script(&options, "cat >/dev/null; :");
        ended.has_failed(4, &["duet-rpc: initialize: no answer within 0.5 s", &told]);
    }
}

#[test]
fn p2_another_framing_fails_immediately_and_is_named() {
    let line = answers_and_stays(r#"{"jsonrpc":"2.0","id":1,"result":1}"#);
    let headers = "read -r request; printf 'Content-Length: 2\\r\\n\\r\\n{}'; cat >/dev/null; :";
    let after_print = format!("echo Loading...; {headers}");
    let prefix = "read -r request; printf '\\000\\000\\000\\002{}'; cat >/dev/null; :";
    #[rustfmt::skip]
    let rows = [
        // Requests in the other framings have no newline.
        ("lsp", line.replace("read -r request", "head -c 9 >/dev/null"), "ndjson"),
        ("length", line.replace("read -r request", "head -c 9 >/dev/null"), "ndjson"),
        ("ndjson", headers.to_owned(), "lsp"),
        ("ndjson", after_print, "lsp"),
        ("ndjson", prefix.to_owned(), "length"),
        ("length", headers.replace("read -r request", "head -c 9 >/dev/null"), "lsp"),
    ];
    for (framing, script, other) in rows {
        let told = format!("use `--framing {other}`\n");
        // Without a time limit: only the bytes can end the call.
        let ended = call_script(&["--timeout", "0", "--framing", framing], &script);
        ended.has_failed(6, &["duet-rpc: the server speaks another framing: it ", &told]);
    }
    // Log lines and other prints are skipped.
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":"ok"}"#;
    let script = format!(
        "echo '{{\"level\":\"info\"}}'; head -c 9 >/dev/null; \
         printf 'Content-Length: {}\\r\\n\\r\\n%s' '{answer}'; cat >/dev/null",
        answer.len()
    );
    call_script(&["--framing", "lsp"], &script).has_result(r#""ok""#);
}

#[test]
fn p2_a_forgotten_handshake_is_named() {
    let silent = "cat >/dev/null";
    let refuses = answers(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"no"}}"#);
    let unknown = answers(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#);
    let (lsp, mcp) = ("`--handshake lsp`", "`--handshake mcp`");
    #[rustfmt::skip]
    let rows: [(&[&str], &str, i32, &str); 9] = [
        (&["textDocument/hover", "{}"], silent, 4, lsp),
        (&["workspace/symbol"], &refuses, 3, lsp),
        (&["tools/list"], silent, 4, mcp),
        (&["tools/list"], "read -r request", 6, mcp),
        (&["resources/list"], &refuses, 3, mcp),
        (&["tools/list"], &unknown, 3, ""),
        (&["system.ping"], silent, 4, ""),
        // It was not forgotten, but it may be the wrong one.
        (&["--handshake", "mcp", "tools/list"], silent, 4, lsp),
        (&["initialize", "--then", "tools/list"], silent, 4, ""),
    ];
    for (words, script, code, told) in rows {
        let ended = call(&[&["--timeout", "0.5"], words, &["--", "sh", "-c", script]].concat());
        ended.has_failed(code, &[told]);
        assert_eq!(ended.err.contains("--handshake"), !told.is_empty(), "{ended:?}");
    }
}

#[test]
fn p2_a_server_that_never_reads_times_out() {
    let params = write("big-and-unread.json", big_params().as_bytes());
    let params = format!("@{params}");
    let server = ["--timeout", "0.5", "m", &params, "--", "sleep", "600"];
    call(&server).has_failed(4, &["no answer within 0.5 s"]);
    let ended = call(&[&["--notify"][..], &server].concat());
    ended.has_failed(4, &["did not read the notification within 0.5 s"]);
}

#[test]
fn t1_a_server_that_cannot_be_started_is_named_with_advice() {
    let no_program = write("no-program", b"hello\n");
    #[rustfmt::skip]
    let rows = [
        ("no-such-program-anywhere", "is it installed and on PATH?"),
        ("./no/such/program", "is the path right"),
        (&*no_program, "may you execute it?"),
    ];
    for (program, told) in rows {
        for options in [&[][..], &["--notify"]] {
            let ended = call(&[options, &["m", "--", program]].concat());
            ended.has_failed(5, &[&format!("duet-rpc: cannot start \"{program}\": "), told]);
        }
    }
}

#[test]
fn t1_a_server_that_ends_without_an_answer_is_reported_with_its_exit_status() {
    let print = answers("usage: server [--stdio]");
    let other_id = answers(r#"{"jsonrpc":"2.0","id":2,"result":1}"#);
    #[rustfmt::skip]
    let rows = [
        ("echo it broke >&2; exit 3", ["it broke\nduet-rpc: ", "exit status: 3; it wrote nothing"]),
        ("read -r request; kill -KILL $$", ["ended without an answer", "signal: 9"]),
        ("exit 0", ["ended without an answer", "exit status: 0"]),
        (&*print, ["exit status: 0", "that is not a message (\"usage: server [--stdio]\"): does it print there"]),
        ("read -r request; printf '{\"jsonrpc\":\"2.0\",'", ["exit status: 0", "not a message"]),
        (&*other_id, ["exit status: 0", "it answered something that was not asked"]),
        ("exec >&-; exec sleep 600", ["closed its stdout without an answer", "had to be stopped"]),
    ];
    for (script, told) in rows {
        call_script(&[], script).has_failed(6, &told);
    }
}

#[test]
fn t1_call_stops_and_names_leftover_processes_of_the_server() {
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":1}"#;
    #[rustfmt::skip]
    let rows = [
        ("sleep 600 & exit", "sleep (pid ", "SIGTERM)"),
        ("setsid sleep 600 & exit", "sleep (pid ", "SIGTERM)"),
        ("(trap '' TERM; exec sleep 600) & exit", "sleep (pid ", "SIGKILL)"),
        ("sleep 600; :", "sh (pid ", "SIGTERM)"),
    ];
    for (then, program, signal) in rows {
        let ended = call_script(&[], &format!("{}; {then}", answers(answer)));
        ended.has_result("1");
        let line = ended.err.lines().find(|line| line.starts_with("duet-rpc: stopped processes"));
        let line = line.unwrap_or_else(|| panic!("{then}: {ended:?}"));
        assert!(line.contains(program) && line.contains(signal), "{then}: {line}");
        let pid = line.split("(pid ").nth(1).and_then(|rest| rest.split(',').next());
        let status = format!("/proc/{}/status", pid.expect("a pid"));
        // It may be a zombie until somebody reaps it.
        let status = std::fs::read_to_string(status).unwrap_or_default();
        assert!(status.is_empty() || status.contains("zombie"), "{then}: {status}");
    }
    // A process that exits when stdin closes gets no signal, even if a wrapper started it.
    let script = format!("sh -c '{}; cat >/dev/null; :' ; :", answers("{}").replace('\'', "\""));
    let ended = call_script(&["--timeout", "0.3"], &script);
    assert!(!ended.err.contains("stopped processes"), "{ended:?}");
}

#[test]
fn m8_an_error_that_is_not_an_object_breaks_the_protocol() {
    for error in ["5", "null", r#""text""#, "[]"] {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
        let ended = call_script(&[], &answers_and_stays(&answer));
        ended.has_failed(6, &["the server's answer cannot be used"]);
    }
}

/// Waiting longer would end in a timeout, which hides the cause.
#[test]
fn m7_m8_an_unusable_answer_ends_the_call_immediately_and_is_described() {
    #[rustfmt::skip]
    let rows = [
        (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":null}"#, "has both `result` and `error`"),
        (r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"m"}}"#,
         "has both `result` and `error`"),
        (r#"{"jsonrpc":"2.0","id":1}"#, "has neither `result` nor `error`"),
        (r#"{"id":1,"result":1}"#, r#"does not have `"jsonrpc": "2.0"`"#),
        (r#"{"id":1,"result":1,"error":null}"#, r#"does not have `"jsonrpc": "2.0"`"#),
        (r#"{"jsonrpc":"1.0","id":1,"result":1}"#, r#"does not have `"jsonrpc": "2.0"`"#),
        (r#"{"jsonrpc":"2.0","id":1,"result":1,"result":2}"#, "has a member twice"),
        (r#"{"jsonrpc":"2.0","result":1}"#, "does not have the `id` of the request"),
        (r#"{"jsonrpc":"2.0","id":[1],"result":1}"#, "does not have the `id` of the request"),
        (r#"[{"jsonrpc":"2.0","id":1}]"#, "has neither `result` nor `error`"),
    ];
    for (answer, told) in rows {
        let told = format!("duet-rpc: the server's answer {told}");
        for script in [answers_and_stays(answer), answers(answer)] {
            call_script(&["--timeout", "0"], &script).has_failed(6, &[&told]);
        }
    }
    // A usable answer counts, even after an unusable one.
    let good = r#"{"jsonrpc":"2.0","id":1,"result":"ok"}"#;
    for bad in [r#"{"jsonrpc":"2.0","id":2}"#, r#"{"jsonrpc":"2.0","id":1,"method":1}"#] {
        let script = answers_and_stays(&format!("{bad}\n{good}"));
        call_script(&[], &script).has_result(r#""ok""#);
    }
}

#[test]
fn f14_f31_an_answer_over_the_limit_ends_the_call_immediately() {
    let over = "over the limit of 16 MiB: is `--framing length`";
    let rows = [
        ("lsp", r"printf 'Content-Length: 268435457\r\n\r\n{'", "over the limit of 256 MiB"),
        ("length", r"printf '\001\000\000\000{'", over),
    ];
    for (framing, print, told) in rows {
        let script = format!("head -c 20 >/dev/null; {print}; cat >/dev/null; :");
        let ended = call_script(&["--timeout", "0", "--framing", framing], &script);
        ended.has_failed(6, &["duet-rpc: the server sent a message", told]);
    }
}

#[test]
fn t1_a_notification_is_sent_without_any_output() {
    let ended = call(&["--notify", "n", "[1]", "--", "sh", "-c", "cat >&2"]);
    let sent = "{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":[1]}\n";
    assert_eq!((ended.code, &*ended.out, &*ended.err), (Some(0), "", sent));
    // Even a large notification reaches the server completely before its stdin ends.
    let params = write("big-notification.json", big_params().as_bytes());
    let ended = call(&["--notify", "n", &format!("@{params}"), "--", "sh", "-c", "wc -c >&2"]);
    let length = "{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":}\n".len() + big_params().len();
    assert_eq!((ended.code, ended.err.trim()), (Some(0), &*length.to_string()));
}

#[test]
fn t1_a_notification_to_a_server_that_exited_is_a_failure() {
    let params = write("big-and-refused.json", big_params().as_bytes());
    let ended = call(&["--notify", "n", &format!("@{params}"), "--", "sh", "-c", "exit 3"]);
    ended.has_failed(6, &["ended before it had read the notification, with exit status: 3"]);
}

/// Starts a call, and waits until its server prints `ready`. Also returns the rest of stderr.
fn start(mut call: Command) -> (Child, BufReader<ChildStderr>) {
    let mut child = call.stdin(Stdio::null()).spawn().expect("the program starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("stderr can be read");
    assert_eq!(line, "ready\n");
    (child, stderr)
}

#[test]
fn t1_an_interrupt_ends_a_call() {
    let script = "echo ready >&2; cat >/dev/null; :";
    let (child, _) = start(command(&["--timeout", "0", "m", "--", "sh", "-c", script]));
    kill_process(Pid::from_child(&child), Signal::INT).expect("the process is not reaped yet");
    assert_eq!(wait(child).signal(), Some(2));
}

/// The server must not outlive the call, even if it ignores everything except SIGKILL.
#[test]
fn t1_an_interrupted_call_stops_its_server() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        // The server prints when it is ready, and its stderr is open as long as it runs.
        let script = "trap '' INT TERM HUP; echo ready >&2; while :; do sleep 0.05; done";
        let (mut child, mut stderr) = start(command(&["m", "--", "sh", "-c", script]));
        // An impatient user sends the signal repeatedly.
        while child.try_wait().expect("our child").is_none() {
            kill_process(Pid::from_child(&child), signal).expect("the process is not reaped yet");
            thread::yield_now();
        }
        let status = wait(child);
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status:?}");
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).expect("stderr ends when no process has it open");
    }
}

#[test]
fn l4_a_signal_ends_a_call_whose_result_nobody_reads() {
    let params = write("long-and-unread.json", format!("[\"{}\"]", "x".repeat(500_000)).as_bytes());
    let mut child =
        command(&["system.echo", &format!("@{params}")]).spawn().expect("the program starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    // The call prints now, and the pipe is too small for the whole result.
    stdout.read_exact(&mut [0]).expect("there is a result");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("the process is not reaped yet");
    assert_eq!(wait(child).signal(), Some(15));
}

/// SIGHUP is ignored under `nohup`, and SIGINT in the background of a script.
#[test]
#[cfg(target_os = "linux")]
fn l4_a_signal_ignored_at_the_start_does_not_end_a_call() {
    for (name, signal) in [("HUP", Signal::HUP), ("INT", Signal::INT), ("TERM", Signal::TERM)] {
        let go = file(&format!("go-{name}"));
        let answer = answers(r#"{"jsonrpc":"2.0","id":1,"result":7}"#);
        let wait_for_go = format!("while ! [ -e '{}' ]; do sleep 0.01; done", go.display());
        let server = format!("echo ready >&2; {wait_for_go}; {answer}");
        let call = command(&["m", "--", "sh", "-c", &server]);
        let mut shell = after(&format!("trap '' {name}"), &call);
        shell.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (mut child, _stderr) = start(shell);
        for _ in 0..3 {
            kill_process(Pid::from_child(&child), signal).expect("the process is not reaped yet");
        }
        fs::write(&go, "").expect("the file can be written");
        let out = read_all(child.stdout.take());
        assert_eq!(wait(child).code(), Some(0), "{name}");
        assert_eq!(out.join().expect("UTF-8"), "7\n");
        fs::remove_file(&go).expect("the file can be removed");
    }
}

#[test]
fn t1_a_server_that_fails_after_a_notification_is_reported() {
    let failed = "duet-rpc: the notification was sent, and the server ended with exit status: 7\n";
    for (script, told) in [("read r; exit 0", ""), ("read r; exit 7", failed)] {
        let ended = call(&["--notify", "n", "--", "sh", "-c", script]);
        assert_eq!((ended.code, &*ended.out, &*ended.err), (Some(0), "", told));
    }
}
