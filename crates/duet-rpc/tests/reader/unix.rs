//! A server on stdio whose input is read by the runtime's thread or by the reading thread. Handlers run in
//! the same environment on both, and no wake-up is lost (E2, L5, P2).

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use duet_rpc::{Context, Failure, Profile, Router, Server};
use serde_json::Value;

use super::{blocked, inside};

const SERVE: &str = "--serve";
pub(crate) const SERVE_INSIDE: &str = "--serve-inside";

/// The in-flight limit of the server.
pub(crate) const IN_FLIGHT: usize = 3500;

/// A lost wake-up shows only when a timer fires, which takes seconds; a normal one comes in far less
/// time, on any machine.
const STALL: Duration = Duration::from_millis(2500);

pub(crate) fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    match &arguments[..] {
        [_, serve, threads] if serve == SERVE => {
            return run_server(threads.parse().expect("a number"));
        }
        [_, serve, runtime] if serve == SERVE_INSIDE => return inside::run_server(runtime),
        _ => {}
    }
    p2_posts_and_answers_come_at_once_whoever_reads();
    e2_handlers_are_inside_the_runtime_on_every_thread();
    without_threads_all_handlers_run_on_one();
    blocked::run();
    inside::run();
    ExitCode::SUCCESS
}

fn run_server(threads: usize) -> ExitCode {
    let later = async |(micros,): (u64,), cx: Context| {
        let peer = cx.peer().clone();
        let runtime = tokio::runtime::Handle::current();
        thread::spawn(move || {
            thread::sleep(Duration::from_micros(micros));
            runtime.spawn(async move { peer.notify("later", ()).await });
        });
        Ok::<_, Failure>("soon")
    };
    let router = Router::new()
        .method("ping", async || Ok::<_, Failure>("pong"))
        .method("sleep", async |(micros,): (u64,)| {
            tokio::time::sleep(Duration::from_micros(micros)).await;
            Ok::<_, Failure>("slept")
        })
        .method("later", later)
        .method("block_on", async |cx: Context| {
            let call = cx.peer().call::<Value>("never", ());
            tokio::runtime::Handle::current().block_on(call).map_err(Failure::internal)
        })
        .method("thread", async || {
            Ok::<_, Failure>(thread::current().name().unwrap_or("none").to_owned())
        });
    let router = blocked::add_methods(router);
    let mut profile = Profile::agent();
    profile.limits.in_flight = IN_FLIGHT;
    let server = Server::new().profile(profile).router(router).threads(threads);
    server.run().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

pub(crate) struct Client {
    server: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
}

impl Client {
    pub(crate) fn start(threads: usize) -> Self {
        Client::start_with([SERVE, &threads.to_string()])
    }

    pub(crate) fn start_with(arguments: [&str; 2]) -> Self {
        let mut server = Command::new(std::env::current_exe().expect("this is a file"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let input = server.stdin.take();
        let output: ChildStdout = server.stdout.take().expect("a pipe");
        let (tell, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = tell.send(serde_json::from_str(&line).expect("stdout holds JSON"));
            }
        });
        Client { server, input, lines }
    }

    pub(crate) fn send(&mut self, id: u64, method: &str, params: &str) {
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n"
        );
        let input = self.input.as_mut().expect("stdin is open");
        input.write_all(text.as_bytes()).expect("the remote reads");
    }

    pub(crate) fn next(&self) -> Value {
        self.lines.recv_timeout(STALL).expect("nothing waits without a reason")
    }

    pub(crate) fn ask(&mut self, id: u64, method: &str, params: &str) -> Value {
        self.send(id, method, params);
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub(crate) fn end(mut self) {
        self.input = None;
        assert!(self.server.wait().expect("our child").success());
    }
}

fn p2_posts_and_answers_come_at_once_whoever_reads() {
    let mut client = Client::start(32);
    for id in 0..6000 {
        match id * 7 % 5 {
            0 | 1 => assert_eq!(client.ask(id, "ping", "[]")["result"], "pong"),
            2 | 3 => {
                let micros = id * 13 % 300;
                assert_eq!(client.ask(id, "sleep", &format!("[{micros}]"))["result"], "slept");
            }
            _ => {
                client.send(id, "later", &format!("[{}]", id * 11 % 150));
                let both = [client.next(), client.next()];
                assert!(both.iter().any(|message| message["result"] == "soon"), "{both:?}");
                assert!(both.iter().any(|message| message["method"] == "later"), "{both:?}");
            }
        }
    }
    client.end();
}

fn e2_handlers_are_inside_the_runtime_on_every_thread() {
    for threads in [0, 32] {
        let mut client = Client::start(threads);
        for id in 0..40 {
            // A handler that blocks on the runtime gets an error instead of a deadlock.
            assert_eq!(client.ask(id, "block_on", "[]")["error"]["code"], -32603);
            assert_eq!(client.ask(id, "ping", "[]")["result"], "pong");
        }
        client.end();
    }
}

fn without_threads_all_handlers_run_on_one() {
    let mut client = Client::start(0);
    for id in 0..200 {
        assert_eq!(client.ask(id, "thread", "[]")["result"], "main");
        if id % 50 == 0 {
            client.ask(id, "sleep", "[1]");
        }
    }
    client.end();
}
