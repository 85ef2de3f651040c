//! Worker processes: this program, started again.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duet_rpc::{Hub, Router};
use duet_rpc_nats::Worker;
use futures_util::StreamExt;
use tokio::sync::Semaphore;

use super::say;

/// The number of `work` requests that a worker does at the same time.
pub(crate) const PLACES: usize = 8;

/// The number of `work` requests that this process has served.
static SERVED: AtomicU64 = AtomicU64::new(0);

/// A worker process. It ends with this value, and when this process ends, because its stdin closes.
pub(crate) struct WorkerProcess {
    child: Child,
    /// The number of requests that it has served, as it prints them.
    stdout: RefCell<BufReader<ChildStdout>>,
}

impl WorkerProcess {
    /// Starts a worker with this limit, and waits until the broker knows it.
    pub(crate) fn start(url: &str, limit: usize) -> Self {
        Self::start_with(&["worker", url, &limit.to_string()])
    }

    /// Starts a worker that uses async-nats alone.
    pub(crate) fn start_bare(url: &str) -> Self {
        Self::start_with(&["bare-worker", url])
    }

    fn start_with(words: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this is a file"));
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        assert_eq!(line.trim(), "ready");
        WorkerProcess { child, stdout: RefCell::new(stdout) }
    }

    /// The number of `work` requests that it has served.
    pub(crate) fn served(&self) -> u64 {
        let mut stdin = self.child.stdin.as_ref().expect("it is piped");
        stdin.write_all(b"?\n").expect("it reads");
        let mut line = String::new();
        self.stdout.borrow_mut().read_line(&mut line).expect("a line");
        line.trim().parse().expect("a number")
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory in kB.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a figure");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

/// The processor time that the threads of a process have used.
pub(crate) fn processor_time(process: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let used = threads.filter_map(|thread| {
        // A thread may have ended meanwhile.
        let figures = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        figures.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    });
    used.sum()
}

impl Drop for WorkerProcess {
    /// Kills it.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves until stdin closes.
pub(crate) fn serve(url: &str, limit: usize) -> ExitCode {
    run(async move {
        let places = Arc::new(Semaphore::new(PLACES));
        let router = Router::new()
            .method("echo", async |(value,): (u64,)| value)
            .method("wait", async |(ms,): (u64,)| {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                ms
            })
            .method("work", move |(ms,): (u64,)| {
                let places = Arc::clone(&places);
                async move {
                    let _place = places.acquire().await;
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    SERVED.fetch_add(1, Ordering::Relaxed);
                    ms
                }
            });
        let worker = Worker::connect(url).await.expect("a broker").service("trial", "0.1.0");
        let worker = worker.max_in_flight(limit).begin().await.expect("subscribed");
        say("ready");
        let hub = Hub::builder().router(router).max_connections(limit).build();
        worker.serve(hub).await.expect("it serves");
    })
}

/// Serves with async-nats alone: each request is answered with its own payload.
pub(crate) fn serve_bare(url: &str) -> ExitCode {
    run(async move {
        let client = async_nats::connect(url).await.expect("a broker");
        let queue = "bare".to_owned();
        let mut requests = client.queue_subscribe("bare.*", queue).await.expect("subscribed");
        // The broker knows the subscription when it has sent this message back.
        client.publish("bare.ready", "".into()).await.expect("sent");
        requests.next().await.expect("the message");
        say("ready");
        while let Some(request) = requests.next().await {
            let Some(reply) = request.reply else { continue };
            client.publish(reply, request.payload).await.expect("sent");
        }
    })
}

fn run(serving: impl Future<Output = ()>) -> ExitCode {
    std::thread::spawn(|| {
        for line in std::io::stdin().lines() {
            if line.is_err() {
                break;
            }
            say(&SERVED.load(Ordering::Relaxed).to_string());
        }
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(serving);
    ExitCode::SUCCESS
}
