//! Servers that start other processes.

use std::process::{Command, Stdio};

/// A server, and how it starts other processes.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// What it does.
    pub name: &'static str,
    /// What runs it.
    interpreter: Interpreter,
    /// Its text, with `MARK` for a time to sleep that nobody else has, and `ANSWER` for what reads the
    /// request and answers it.
    script: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interpreter {
    Sh,
    Node,
}

const ANSWER: &str = r#"read r; echo "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}""#;

use Interpreter::{Node, Sh};

/// All of them.
pub const SHAPES: &[Shape] = &[
    Shape { name: "exits on EOF", interpreter: Sh, script: "ANSWER; cat >/dev/null" },
    Shape {
        name: "a wrapper whose server exits on EOF",
        interpreter: Sh,
        script: "sh -c 'ANSWER; cat >/dev/null; : MARK'; :",
    },
    Shape {
        name: "a wrapper whose server ignores EOF",
        interpreter: Sh,
        script: "sh -c 'ANSWER; exec sleep MARK'; :",
    },
    Shape { name: "never answers", interpreter: Sh, script: "sleep MARK; :" },
    Shape { name: "leaves one behind and exits", interpreter: Sh, script: "ANSWER; sleep MARK &" },
    Shape {
        name: "leaves one behind in a session of its own",
        interpreter: Sh,
        script: "ANSWER; setsid sleep MARK >/dev/null 2>&1 & cat >/dev/null",
    },
    Shape {
        name: "a double fork with a session of its own",
        interpreter: Sh,
        script: "(setsid sh -c 'sleep MARK & exec sleep MARK' >/dev/null 2>&1 &); ANSWER",
    },
    Shape {
        name: "ignores SIGTERM, and so does what it starts",
        interpreter: Sh,
        script: "trap '' TERM HUP INT; setsid sleep MARK & ANSWER; sleep MARK; sleep MARK",
    },
    Shape {
        name: "starts processes without end",
        interpreter: Sh,
        script: "ANSWER; while :; do sleep MARK & [ $((i+=1)) -lt 40 ] || wait; done",
    },
    Shape {
        name: "job control, and one that is stopped",
        interpreter: Sh,
        script: "set -m; sleep MARK & sleep MARK & kill -STOP $!; ANSWER; sleep MARK",
    },
    Shape {
        name: "like npx: node waits for a shell that waits for the server",
        interpreter: Node,
        script: r#"require("child_process").spawn("sh", ["-c", `ANSWER; sleep MARK; :`],
            {stdio: "inherit"}).on("exit", code => process.exit(code))"#,
    },
    Shape {
        name: "node with a detached process",
        interpreter: Node,
        script: r#"require("child_process").spawn("sleep", ["MARK"],
            {detached: true, stdio: "ignore"}).unref(); process.stdin.resume();
            process.stdin.once("data", () =>
                console.log(JSON.stringify({jsonrpc: "2.0", id: 1, result: 1})))"#,
    },
];

impl Shape {
    /// Whether what it needs is installed.
    pub(super) fn can_be_tried(&self) -> bool {
        let mut node = Command::new("node");
        node.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.interpreter == Sh || node.status().is_ok_and(|status| status.success())
    }

    /// The command that starts it.
    pub(super) fn words(&self, mark: &str) -> [String; 3] {
        let (program, flag, answer) = match self.interpreter {
            Sh => ("sh", "-c", ANSWER.to_owned()),
            // In a template of JavaScript a backslash has to be doubled.
            Node => ("node", "-e", ANSWER.replace('\\', "\\\\")),
        };
        let script = self.script.replace("ANSWER", &answer).replace("MARK", mark);
        [program.to_owned(), flag.to_owned(), script]
    }
}
