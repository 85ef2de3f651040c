//! The reverse: our client, the example `any_server`, starts a foreign server.

use std::process::{Command, Stdio};

use super::sabotage::NOTHING;
use super::script::Stage;
use super::support::programs::example;
use super::{fetched, has, skip};

#[test]
fn t1_p3_our_client_starts_and_stops_bash_language_server() {
    let program = "node_modules/.bin/bash-language-server";
    let Some(server) = fetched(program).filter(|_| has("node")) else {
        return skip("`bash-language-server`", "scripts/clients has not fetched it");
    };
    let run = |program: &std::path::Path, timeout: &str| {
        let mut command = Command::new(example("duet-rpc", "any_server"));
        command.args(["--timeout", timeout, "--"]).arg(program).arg("start");
        command.stdin(Stdio::null()).output().expect("the program starts")
    };
    let unchanged = Stage::foreign(&server, NOTHING);
    for program in [&*server, unchanged.program("SERVER")] {
        let output = run(program, "60");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let lines: Vec<_> = said.lines().collect();
        let [name, can, asked, end] = lines[..] else { panic!("{said}") };
        assert_eq!(name, "name: unknown");
        for capability in ["completionProvider", "hoverProvider", "textDocumentSync"] {
            assert!(can.contains(capability), "{can}");
        }
        assert_eq!(asked, "asked: workspace/configuration");
        assert_eq!(end, "end: closed by the remote; the child process ended with exit status: 0");
    }
    // Requests in both directions, and the final messages, must all arrive.
    std::thread::scope(|scope| {
        let (run, server) = (&run, &server);
        for sabotage in ["mute", "wrong-id", "answer-lost", "status", "no-result"] {
            scope.spawn(move || {
                let stage = Stage::foreign(server, sabotage);
                let output = run(stage.program("SERVER"), "3");
                assert_eq!(output.status.code(), Some(1), "{sabotage}");
            });
        }
    });
}
