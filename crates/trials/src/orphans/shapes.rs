//! Servers that start other processes, as shell or Node scripts.

use crate::harness::prelude::*;

/// A server that starts other processes.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Description of the server.
    pub name: &'static str,
    /// Interpreter: `sh` or `node`.
    program: &'static str,
    /// Script text. `MARK` stands for a unique sleep time, and `ANSWER` for the command that reads the
    /// request and answers it.
    script: &'static str,
}

const ANSWER: &str = r#"read r; echo "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}""#;

const fn sh(name: &'static str, script: &'static str) -> Shape {
    Shape { name, program: "sh", script }
}

const fn node(name: &'static str, script: &'static str) -> Shape {
    Shape { name, program: "node", script }
}

/// All servers.
pub const SHAPES: &[Shape] = &[
    sh("exits on EOF", "ANSWER; cat >/dev/null"),
    sh("a wrapper whose server exits on EOF", "sh -c 'ANSWER; cat >/dev/null; : MARK'; :"),
    sh("a wrapper whose server ignores EOF", "sh -c 'ANSWER; exec sleep MARK'; :"),
    sh("never answers", "sleep MARK; :"),
    sh("leaves a process behind and exits", "ANSWER; sleep MARK &"),
    sh(
        "leaves a process behind in its own session",
        "ANSWER; setsid sleep MARK >/dev/null 2>&1 & cat >/dev/null",
    ),
    sh(
        "a double fork with its own session",
        "(setsid sh -c 'sleep MARK & exec sleep MARK' >/dev/null 2>&1 &); ANSWER",
    ),
    sh(
        "ignores SIGTERM, and so do the processes that it starts",
        "trap '' TERM HUP INT; setsid sleep MARK & ANSWER; sleep MARK; sleep MARK",
    ),
    sh(
        "starts processes without end",
        "ANSWER; while :; do sleep MARK & [ $((i+=1)) -lt 40 ] || wait; done",
    ),
    sh(
        "uses job control, with one stopped process",
        "set -m; sleep MARK & sleep MARK & kill -STOP $!; ANSWER; sleep MARK",
    ),
    node(
        "like npx: node waits for a shell that waits for the server",
        r#"require("child_process").spawn("sh", ["-c", `ANSWER; sleep MARK; :`],
            {stdio: "inherit"}).on("exit", code => process.exit(code))"#,
    ),
    node(
        "node with a detached process",
        r#"require("child_process").spawn("sleep", ["MARK"],
            {detached: true, stdio: "ignore"}).unref(); process.stdin.resume();
            process.stdin.once("data", () =>
                console.log(JSON.stringify({jsonrpc: "2.0", id: 1, result: 1})))"#,
    ),
];

impl Shape {
    /// Returns true if the interpreter is installed.
    pub(crate) fn can_be_tried(&self) -> bool {
        self.program == "sh" || programs::works(self.program, &["--version"])
    }

    /// The command that starts the server.
    pub(crate) fn words(&self, mark: &str) -> [String; 3] {
        let (flag, answer) = match self.program {
            "sh" => ("-c", ANSWER.to_owned()),
            // A JavaScript template needs doubled backslashes.
            _ => ("-e", ANSWER.replace('\\', "\\\\")),
        };
        let script = self.script.replace("ANSWER", &answer).replace("MARK", mark);
        [self.program.to_owned(), flag.to_owned(), script]
    }
}
