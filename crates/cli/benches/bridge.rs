//! The cost of `duet-rpc bridge` between a WebSocket and a server on stdio, beside `websocat`, npm `supergateway` and
//! no bridge at all. All take turns within one run, with the same client and the same server.
//!
//! ```console
//! WEBSOCAT=websocat SUPERGATEWAY=node_modules/.bin/supergateway cargo bench -p duet-rpc-cli --bench bridge
//! ```
//!
//! Contenders without their variable are left out. The environment variable `DUET_RPC` names a program to measure
//! instead of a new build.

#![expect(clippy::print_stdout, reason = "it prints its result")]

mod common;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{BufRead, Write};
use std::net::TcpListener;
use std::process::{Child as Process, Command, Stdio};
use std::task::Poll;
use std::time::{Duration, Instant};

use common::{build_released, quartile};
use duet_rpc::Profile;
use duet_rpc::transport::{Child, Connector, MessagePipe, PipeEvent, Transport};

const ROUNDS: usize = 60;
/// The time for a contender to listen.
const START: Duration = Duration::from_secs(20);
/// A contender that has used this time takes no further turns.
const MOST_TIME: Duration = Duration::from_secs(20);
/// Message size, calls of one turn, calls at the same time.
const LOADS: [(usize, usize, usize); 4] =
    [(64, 200, 1), (64, 2000, 64), (1000, 2000, 64), (1_000_000, 8, 1)];
const SERVER: &str = "--server";

fn main() {
    if std::env::args().any(|word| word == SERVER) {
        return server();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(compare());
}

/// Answers each line: a result of the size of its params.
fn server() {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = Vec::new();
    while matches!(input.read_until(b'\n', &mut line), Ok(1..)) {
        let text = String::from_utf8_lossy(&line);
        let id = text.split_once("\"id\":").map_or("0", |(_, rest)| rest);
        let id = id.split([',', '}']).next().unwrap_or("0");
        let size = text.len().saturating_sub(50);
        let answer =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"{}\"}}\n", "x".repeat(size));
        if output.write_all(answer.as_bytes()).and_then(|()| output.flush()).is_err() {
            return;
        }
        line.clear();
    }
}

struct Contender {
    name: &'static str,
    process: Option<Process>,
    pipe: MessagePipe<Box<dyn Transport>>,
    /// The time of one call, for each load, in each round.
    times: [Vec<Duration>; LOADS.len()],
    used: Duration,
}

async fn compare() {
    let profile = Profile::agent().with(|it| it.limits.message_bytes = 16 * 1024 * 1024);
    let mut contenders = contenders(&profile).await;
    for _ in 0..ROUNDS {
        for contender in contenders.iter_mut().filter(|it| it.used < MOST_TIME) {
            let begun = Instant::now();
            for (load, (size, count, together)) in LOADS.into_iter().enumerate() {
                let time = contender.calls(size, count, together).await;
                contender.times[load].push(time);
            }
            contender.used += begun.elapsed();
        }
    }
    println!("| | round trip 64 B | 64 B ×64 | 1 KB ×64 | 1 MB |");
    println!("|---|---:|---:|---:|---:|");
    let base: Vec<f64> = contenders[1].times.iter().map(|times| quartile(times)).collect();
    for contender in &contenders {
        let shown = contender.times.iter().zip(&base).map(|(times, base)| {
            let time = quartile(times);
            format!("{:.1} µs, {:.2}", time * 1e6, time / base)
        });
        println!("| {} | {} |", contender.name, shown.collect::<Vec<_>>().join(" | "));
    }
    for mut contender in contenders {
        if let Some(process) = &mut contender.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

async fn contenders(profile: &Profile) -> Vec<Contender> {
    let here = std::env::current_exe().expect("this is a file");
    let mut direct = tokio::process::Command::new(&here);
    direct.arg(SERVER);
    let child: Box<dyn Transport> = Box::new(Child::spawn(direct).expect("the server starts"));
    let pipe = MessagePipe::new(child, profile);
    let mut found = vec![Contender::new("no bridge", None, pipe)];
    let released = build_released();
    for (name, options) in
        [("`duet-rpc bridge`", &[][..]), ("`duet-rpc bridge --shared`", &["--shared"])]
    {
        let mut command = Command::new(&released);
        let port = free_port();
        command.args(["bridge", "--listen", &format!("ws://127.0.0.1:{port}/")]).args(options);
        command.arg("--").arg(&here).arg(SERVER);
        found.push(Contender::start(name, command, port, profile).await);
    }
    if let Some(websocat) = std::env::var_os("WEBSOCAT") {
        let (mut command, port) = (Command::new(websocat), free_port());
        command.args(["--text", "-B", "4000000", &format!("ws-l:127.0.0.1:{port}")]);
        command.arg(format!("sh-c:{} {SERVER}", here.display()));
        found.push(Contender::start("`websocat`", command, port, profile).await);
    }
    if let Some(supergateway) = std::env::var_os("SUPERGATEWAY") {
        let (mut command, port) = (Command::new(supergateway), free_port());
        command.args(["--outputTransport", "ws", "--messagePath", "/", "--logLevel", "none"]);
        command.args(["--port", &port.to_string()]);
        command.arg("--stdio").arg(format!("{} {SERVER}", here.display()));
        found.push(Contender::start("`supergateway`", command, port, profile).await);
    }
    found
}

impl Contender {
    fn new(
        name: &'static str,
        process: Option<Process>,
        pipe: MessagePipe<Box<dyn Transport>>,
    ) -> Self {
        Contender { name, process, pipe, times: Default::default(), used: Duration::ZERO }
    }

    async fn start(name: &'static str, mut command: Command, port: u16, profile: &Profile) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("the program starts");
        let connector = Connector::new(&*format!("ws://127.0.0.1:{port}/")).expect("an address");
        let begun = Instant::now();
        let transport = loop {
            match connector.connect(profile).await {
                Ok(transport) => break transport,
                Err(error) => assert!(begun.elapsed() < START, "{name}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let mut contender =
            Contender::new(name, Some(process), MessagePipe::new(transport, profile));
        contender.calls(64, 100, 1).await;
        contender
    }

    /// Makes calls, several at the same time. Returns the time of one.
    async fn calls(&mut self, size: usize, count: usize, together: usize) -> Duration {
        let message = |id: usize| {
            let filler = "x".repeat(size.saturating_sub(50));
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\",\"params\":[\"{filler}\"]}}"
            )
        };
        let mut waiting: VecDeque<String> = (0..count).map(message).collect();
        let (begun, mut running, mut answered) = (Instant::now(), 0, 0);
        poll_fn(|cx| {
            loop {
                while running < together
                    && let Some(message) = waiting.pop_front()
                {
                    self.pipe.send(message.as_bytes());
                    running += 1;
                }
                let _ = self.pipe.poll_flush(cx).map(|sent| sent.expect("it is open"));
                let before = answered;
                let received = self.pipe.poll_receive(cx, |event| {
                    if let PipeEvent::Message(_) = event {
                        answered += 1;
                    }
                });
                running -= answered - before;
                match received {
                    Poll::Ready(Ok(true)) if answered == count => return Poll::Ready(()),
                    Poll::Ready(Ok(true)) => {}
                    Poll::Ready(end) => panic!("{} ended: {end:?}", self.name),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
        begun.elapsed().div_f64(count as f64)
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}
