//! Broken servers: the real one behind `duet-rpc tap --fault`. A test of a client that does not notice a broken
//! server proves nothing.

use std::io::Read;
use std::process::{Child, Command, Stdio};

use super::support::programs::DUET_RPC;

/// A way to break a server.
pub(crate) struct Sabotage {
    pub(crate) name: &'static str,
    /// Fault rules.
    rules: &'static [&'static str],
    /// A shell command that runs the server, which is `"$0" "$@"` in it.
    shell: Option<&'static str>,
}

const fn by(name: &'static str, rules: &'static [&'static str]) -> Sabotage {
    Sabotage { name, rules, shell: None }
}

/// Changes nothing. A client that fails with it fails for another reason.
pub(crate) const NOTHING: &str = "nothing";

/// Every sabotage of messages, by its name.
pub(crate) const SABOTAGE: [Sabotage; 17] = [
    by(NOTHING, &["delay=0s dir:s2c"]),
    by("mute", &["drop dir:s2c"]),
    by("answer-lost", &["drop dir:s2c kind:response|error nth:2"]),
    by("wrong-id", &["corrupt=id dir:s2c kind:response|error nth:2"]),
    by("wrong-result", &["set=/result=\"sabotage\" dir:s2c kind:response nth:2"]),
    by("error-code", &["set=/error/code=-32099 dir:s2c kind:error"]),
    by("error-data", &["unset=/error/data dir:s2c"]),
    by("short-count", &["corrupt=length dir:s2c nth:2"]),
    by("stray-print", &["corrupt=print dir:s2c nth:2"]),
    by("call-lost", &["drop dir:s2c kind:request"]),
    by("event-lost", &["drop dir:s2c kind:notification"]),
    by("event-twice", &["dup dir:s2c kind:notification"]),
    by("cancel-lost", &["drop dir:c2s method:$/cancelRequest|notifications/cancelled"]),
    by(
        "cancel-answered",
        &[
            "error=-32800:\"Request cancelled\" dir:c2s method:$/cancelRequest|notifications/cancelled",
        ],
    ),
    by(
        "notice-lost",
        &["drop dir:c2s kind:notification -method:$/cancelRequest|notifications/cancelled"],
    ),
    Sabotage { name: "status", rules: &["delay=0s dir:s2c"], shell: Some("\"$0\" \"$@\"; exit 3") },
    by("no-result", &["unset=/result dir:s2c", "unset=/error dir:s2c"]),
];

/// Rules for the bytes of any protocol: nothing, a wrong bit in each piece after the first, and no bytes.
pub(crate) const OF_BYTES: [(&str, &str); 3] =
    [(NOTHING, "delay=0s"), ("bits", "corrupt=bit dir:s2c nth:>1"), ("mute", "drop dir:s2c")];

impl Sabotage {
    pub(crate) fn named(name: &str) -> &'static Self {
        let found = SABOTAGE.iter().find(|it| it.name == name);
        found.unwrap_or_else(|| panic!("there is no sabotage {name}"))
    }

    /// A shell script that runs a program so. Its arguments are those of the program.
    pub(crate) fn script(&self, program: &str) -> String {
        let rules: String = self.rules.iter().map(|rule| format!(" --fault '{rule}'")).collect();
        let shell = self.shell.map(|shell| format!("sh -c '{shell}' ")).unwrap_or_default();
        format!("#!/bin/sh\nexec {DUET_RPC} tap --no-record{rules} -- {shell}{program} \"$@\"\n")
    }
}

/// A tap with a fault rule before a listening server, killed on drop.
pub(crate) struct SocketTap {
    process: Child,
    /// Its own address.
    pub(crate) url: String,
}

impl SocketTap {
    /// Starts a tap before the server at this address.
    pub(crate) fn start(rule: &str, server: &str) -> Self {
        let (scheme, _) = server.split_once("://").expect("an address");
        let mut command = Command::new(DUET_RPC);
        command.args(["tap", "--no-record", "--fault", rule, "--connect", server]);
        command.args(["--listen", &format!("{scheme}://127.0.0.1:0/")]);
        let mut process = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let stderr = process.stderr.as_mut().expect("a pipe");
        let mut line = Vec::new();
        // Byte by byte: the rest stays in the pipe, for nobody.
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            stderr.read_exact(&mut byte).expect("a line");
            line.extend(byte);
        }
        let line = String::from_utf8(line).expect("text");
        let url = line.trim().strip_prefix("listening on ").expect("an address");
        SocketTap { url: url.to_owned(), process }
    }
}

impl Drop for SocketTap {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
