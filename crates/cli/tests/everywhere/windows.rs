//! The parts of the command that only Windows has, and the sentences about those that it lacks.

use crate::programs::DUET_RPC;
use crate::run::{Listening, duet_rpc, finish, fresh, run};

#[test]
fn t2_named_pipes_carry_calls_and_bridges() {
    let name = format!("pipe://duet-rpc-test-{}", std::process::id());
    let daemon = Listening::start(&["rpc", "--profile", "agent", "--listen", &name], 1);
    let ran = run(&["call", "--connect", &name, "version"], b"");
    assert_eq!((ran.code, ran.text()), (Some(0), r#"{"version":"0.1.0"}"#), "{ran:?}");
    // From a WebSocket to the pipe, and from a pipe to a program.
    let words = ["bridge", "--listen", "ws://127.0.0.1:0/", "--connect", &name];
    let to_pipe = Listening::start(&words, 1);
    let ran = run(&["call", "--connect", &to_pipe.addresses[0], "version"], b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    drop((to_pipe, daemon));
    let words = ["bridge", "--listen", &name, "--", DUET_RPC, "rpc", "--profile", "agent"];
    let from_pipe = Listening::start(&words, 1);
    let ran = run(&["call", "--connect", &from_pipe.addresses[0], "version"], b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

/// A system that lacks something says so in one sentence.
#[test]
fn t2_what_windows_lacks_is_refused_with_a_reason() {
    for (words, code, said) in [
        (
            &["rpc", "--listen", "unix:///tmp/a.sock"][..],
            1,
            "this system has no Unix sockets: use a pipe:// address",
        ),
        (
            &["call", "--connect", "unix:///tmp/a.sock", "version"],
            5,
            "this system has no Unix sockets: use a pipe:// address",
        ),
        (
            &["rpc", "--listen", "pipe://a", "--allow-uid", "me"],
            2,
            "Windows has no user ids: a pipe:// address lets only your own user connect",
        ),
        (
            &["tap", "--listen", "tcp://127.0.0.1:0", "--connect", "pipe://a"],
            2,
            "a tap cannot stand in between there; use tcp://, ws:// or http://",
        ),
        (
            &["tap", "--fault", "kill=TERM", "--", DUET_RPC, "rpc"],
            2,
            "expected KILL: Windows has no other signals",
        ),
    ] {
        let ran = run(words, b"");
        assert_eq!(ran.code, Some(code), "{words:?}: {ran:?}");
        assert!(ran.stderr.contains(said), "{words:?}: {ran:?}");
    }
    let mut command = duet_rpc(&["rpc"]);
    command.env("LISTEN_FDS", "1");
    let ran = finish(command, b"");
    assert!(ran.stderr.contains("Windows has no socket activation"), "{ran:?}");
}

/// `npx` and its like are scripts of `cmd`, which start the server as a further process.
#[test]
fn t1_w6_scripts_of_cmd_are_found_and_leave_no_process() {
    let folder = std::path::PathBuf::from(fresh("npx-like.cmd"));
    std::fs::write(&folder, format!("@\"{DUET_RPC}\" %*\r\n")).expect("a file");
    let script = folder.with_extension("");
    let script = script.to_str().expect("plain");
    let ran = run(&["call", "version", "--", script, "rpc", "--profile", "agent"], b"");
    assert_eq!((ran.code, ran.text()), (Some(0), r#"{"version":"0.1.0"}"#), "{ran:?}");
    let words = ["tap", "--no-record", "--", script, "rpc", "--listen", "tcp://127.0.0.1:0"];
    let tap = Listening::start(&words, 1);
    let address = tap.addresses[0].clone();
    tap.kill();
    crate::run::wait_until_gone(&address);
}
