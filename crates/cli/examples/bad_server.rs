//! A server with one planted fault, for the tests of `duet-rpc doctor`: `bad_server lsp|ndjson FAULT`.
//!
//! Without a fault (`fine`) it serves `initialize`, `server/discover`, `shutdown`, `exit` and `tools/list` as a careful
//! server does. Each fault changes one reaction, at the place that names it.

#![allow(clippy::print_stdout, clippy::zombie_processes, reason = "these are some of the faults")]

use std::io::{self, Read, Write};
use std::process::{Command, Stdio, exit};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use duet_rpc::proto::Limits;
use duet_rpc::proto::frame::{Decoder, Event, Framing};
use duet_rpc::proto::message::{Incoming, Reply};
use duet_rpc::proto::policy::BatchRule;
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

/// A message of more bytes is large.
const LARGE: usize = 1024 * 1024;

/// A long time for a process that should have ended.
const FOREVER: Duration = Duration::from_secs(600);

fn main() {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [framing, fault] = &words[..] else { panic!("usage: bad_server lsp|ndjson FAULT") };
    let framing = if framing == "lsp" { Framing::Lsp } else { Framing::Ndjson };
    Server { framing, fault: fault.clone(), parent: None, has_shut_down: false, is_hung: false }
        .run();
}

struct Server {
    framing: Framing,
    fault: String,
    /// The process of the client, as `initialize` names it.
    parent: Option<i32>,
    has_shut_down: bool,
    /// It reads and does not answer any more.
    is_hung: bool,
}

impl Server {
    fn has(&self, fault: &str) -> bool {
        self.fault == fault
    }

    fn run(mut self) {
        for (fault, signal) in [("ignores-sigterm", SIGTERM), ("ignores-sigint", SIGINT)] {
            if self.has(fault) {
                signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
                    .expect("the signal can be handled");
            }
        }
        if self.has("dies-at-start") {
            eprintln!("no configuration found");
            exit(4);
        }
        if self.has("leaves-a-process") {
            let mut child = Command::new("sleep");
            child.arg("600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            child.spawn().expect("there is a sleep");
        }
        if self.has("prints-at-start") {
            println!("Welcome to the server!");
        }
        let limits = Limits::default().with(|it| it.message_bytes = 64 * LARGE);
        let mut decoder = Decoder::new(self.framing, &limits);
        let mut chunk = vec![0; 64 * 1024];
        loop {
            let count = io::stdin().lock().read(&mut chunk).unwrap_or(0);
            if count == 0 {
                return self.end();
            }
            let (mut rest, mut requests) = (&chunk[..count], 0);
            while !rest.is_empty() {
                let taken = decoder.feed(rest);
                rest = &rest[taken..];
                while let Some(event) = decoder.next_event() {
                    let is_request =
                        matches!(&event, Event::Frame(text) if text.as_str().contains("\"id\":"));
                    requests += usize::from(is_request);
                    if requests <= 1 || !self.has("one-per-read") {
                        self.handle(&event, &limits);
                    }
                }
            }
        }
    }

    /// The end of stdin.
    fn end(&self) {
        match &*self.fault {
            "ignores-eof" => std::thread::sleep(FOREVER),
            "slow-exit" => std::thread::sleep(Duration::from_secs(6)),
            "prints-at-the-end" => print!("Goodbye!"),
            "exit-code" => exit(3),
            "watches-parent" => {
                let is_there = |pid: i32| Pid::from_raw(pid).map(test_kill_process) == Some(Ok(()));
                while self.parent.is_some_and(is_there) {
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
            _ => {}
        }
    }

    fn handle(&mut self, event: &Event<'_>, limits: &Limits) {
        let text = match event {
            Event::Frame(text) => text,
            Event::Fault(fault) => {
                match &*self.fault {
                    "dies-of-bad-json" => exit(70),
                    "hangs-after-bad-json" => self.is_hung = true,
                    "silent-about-bad-json" => return,
                    _ => {}
                }
                return self.reply(&Reply::to_fault(fault));
            }
        };
        if text.as_str().len() > LARGE {
            match &*self.fault {
                "dies-of-large" => exit(71),
                "hangs-after-large" => self.is_hung = true,
                "drops-large" => return,
                _ => {}
            }
        }
        let message: Value = serde_json::from_str(text.as_str()).unwrap_or_default();
        match Incoming::classify(text, BatchRule::Reject, limits) {
            Incoming::Invalid(reply) => match &*self.fault {
                "dies-of-invalid" => exit(72),
                "silent-about-invalid" => {}
                _ => self.reply(&reply),
            },
            Incoming::Request(_) => self.request(&message),
            Incoming::Notification(_) => self.notification(&message),
            _ => {}
        }
    }

    fn notification(&self, message: &Value) {
        let method = message["method"].as_str().unwrap_or_default();
        let is_cancellation = matches!(method, "$/cancelRequest" | "notifications/cancelled");
        let is_known = is_cancellation || method.ends_with("initialized");
        match &*self.fault {
            "dies-of-notification" if !is_known => exit(73),
            "dies-of-cancellation" if is_cancellation => exit(74),
            "answers-notifications" if !is_known => {
                let error = json!({"code": -32601, "message": "Method not found"});
                self.send(&json!({"jsonrpc": "2.0", "id": null, "error": error}));
            }
            _ => {}
        }
        if method == "exit" && !self.has("ignores-exit") {
            exit(i32::from(!self.has_shut_down || self.has("exit-code-after-shutdown")));
        }
    }

    fn request(&mut self, message: &Value) {
        let (method, params) = (message["method"].as_str().unwrap_or_default(), &message["params"]);
        match (method, &*self.fault) {
            (_, "mute") => self.is_hung = true,
            ("initialize", "refuses-initialize" | "only-discover") => {
                return self.fail(message, -32601);
            }
            ("initialize", "fails-initialize") => return self.fail(message, -32803),
            ("initialize", "null-initialize") => {
                return self.answer(message, &json!({"result": null}));
            }
            ("initialize", "dies-in-initialize") => {
                eprintln!("error: no license file found");
                exit(3);
            }
            ("server/discover", "only-discover") => {}
            ("server/discover", _) => return self.fail(message, -32601),
            ("initialize", "answers-nobody") => {
                self.send(&json!({"jsonrpc": "2.0", "id": 31_337, "result": null}));
            }
            ("initialize", "prints") => println!("debug: initialize"),
            ("shutdown", "shutdown-unanswered") => return,
            ("workspace/symbol" | "tools/list", "cancelled-unanswered") => return,
            _ => {}
        }
        let result = match method {
            "initialize" | "server/discover" => {
                self.parent = params["processId"].as_i64().and_then(|pid| i32::try_from(pid).ok());
                let capabilities = json!({"workspaceSymbolProvider": true});
                let info = json!({"name": "bad_server", "version": self.fault});
                let mut result = json!({"protocolVersion": "2025-11-25", "serverInfo": info});
                if !self.has("no-capabilities") {
                    result["capabilities"] = capabilities;
                }
                result
            }
            "shutdown" => {
                self.has_shut_down = true;
                Value::Null
            }
            "workspace/symbol" => json!([]),
            "tools/list" => json!({"tools": []}),
            _ => return self.unknown(message),
        };
        self.answer(message, &json!({"result": result}));
        if method == "initialize" && self.has("exits-after-initialize") {
            exit(4);
        }
    }

    fn unknown(&self, message: &Value) {
        match &*self.fault {
            "hangs-on-unknown" => {}
            "result-for-unknown" => self.answer(message, &json!({"result": null})),
            "other-code" => self.fail(message, -32000),
            "only-discover" if message["params"]["_meta"].is_null() => self.fail(message, -32602),
            _ => self.fail(message, -32601),
        }
    }

    fn fail(&self, message: &Value, code: i64) {
        self.answer(message, &json!({"error": {"code": code, "message": "no"}}));
    }

    /// Answers with a `result` or an `error`.
    fn answer(&self, message: &Value, members: &Value) {
        let mut answer = json!({"jsonrpc": "2.0", "id": message["id"]});
        for (name, value) in members.as_object().into_iter().flatten() {
            answer[name] = value.clone();
        }
        match &*self.fault {
            "ids-as-text" => answer["id"] = json!(message["id"].to_string()),
            "id-zero-lost" if message["id"] == 0 => answer["id"] = Value::Null,
            "no-version" => answer["jsonrpc"] = json!("1.0"),
            "result-and-error" if answer.get("error").is_some() => answer["result"] = Value::Null,
            "answers-twice" => self.send(&answer),
            _ => {}
        }
        self.send(&answer);
    }

    fn reply(&self, reply: &Reply) {
        let mut text = Vec::new();
        reply.write(&mut text);
        self.send(&serde_json::from_slice(&text).unwrap_or_default());
    }

    fn send(&self, message: &Value) {
        if self.is_hung {
            return;
        }
        let text = message.to_string();
        // One byte too few: the client reads the rest as garbage.
        let length = text.len() - usize::from(self.has("wrong-length"));
        let frame = match self.framing {
            Framing::Lsp => format!("Content-Length: {length}\r\n\r\n{text}"),
            _ => format!("{text}\n"),
        };
        let mut stdout = io::stdout().lock();
        // The client may be gone.
        let _ = stdout.write_all(frame.as_bytes()).and_then(|()| stdout.flush());
    }
}
