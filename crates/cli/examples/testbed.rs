//! The test bed: the daemon with methods that misbehave on purpose. Tests of the life cycle drive it
//! as a process. Its options are those of `duet-rpc rpc`.
//!
//! ```console
//! testbed [--profile editor|desktop|agent] …
//! ```

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use duet_rpc::proto::message::{Code, ErrorObject};
use duet_rpc::{Context, Error, Failure, Router, blocking};
use duet_rpc_cli::Additions;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Time {
    ms: u64,
}

impl Time {
    fn as_duration(&self) -> Duration {
        Duration::from_millis(self.ms)
    }
}

#[derive(Deserialize)]
struct Size {
    bytes: usize,
}

#[derive(Deserialize)]
struct Count {
    count: u64,
}

#[derive(Deserialize)]
struct Wanted {
    code: i64,
    message: String,
    #[serde(default)]
    data: Option<Box<RawValue>>,
}

/// Says something on stderr, if that is wanted.
fn tell(what: &str) {
    if std::env::var_os("TESTBED_TELLS").is_some() {
        // With one write, so that a record of the log cannot come in between.
        let _ = std::io::stderr().write_all(format!("{what}\n").as_bytes());
    }
}

/// Waits as a good handler does: others run meanwhile.
async fn sleep(time: Time) -> Result<u64, Failure> {
    tell("test.sleep begins");
    tokio::time::sleep(time.as_duration()).await;
    Ok(time.ms)
}

/// Blocks its thread, and with it everything that the thread has to do.
async fn block(name: &str, time: Time) -> Result<u64, Failure> {
    tell(&format!("{name} begins"));
    std::thread::sleep(time.as_duration());
    Ok(time.ms)
}

/// The same, with the processor busy.
async fn spin(time: Time) -> Result<u64, Failure> {
    tell("test.spin begins");
    let begun = Instant::now();
    while begun.elapsed() < time.as_duration() {
        std::hint::spin_loop();
    }
    Ok(time.ms)
}

/// Blocks the very thread that reads and writes, before it is even a future.
fn jam(time: Time) -> impl Future<Output = Result<u64, Failure>> {
    tell("test.jam begins");
    std::thread::sleep(time.as_duration());
    async move { Ok(time.ms) }
}

async fn panic() -> Result<(), Failure> {
    panic!("this message must not show anywhere")
}

async fn fail(wanted: Wanted) -> Result<(), ErrorObject> {
    Err(ErrorObject::application(Code(wanted.code), wanted.message, wanted.data))
}

async fn big(size: Size) -> Result<String, Failure> {
    const MOST: usize = 1 << 30;
    if size.bytes > MOST {
        return Err(Failure::internal("there is not so much memory"));
    }
    Ok("x".repeat(size.bytes))
}

/// As many notifications as are asked for, and then the answer.
async fn emit(wanted: Count, cx: Context) -> Result<u64, Error> {
    for number in 1..=wanted.count {
        cx.peer().notify("test.event", [number]).await?;
    }
    Ok(wanted.count)
}

/// Prints where it should not.
#[expect(clippy::print_stdout, reason = "that is the test")]
async fn print() -> Result<(), Failure> {
    print!("Content-Length: 5\r\n\r\nstray\n");
    std::io::stdout().flush()?;
    Ok(())
}

fn add_methods(router: Router) -> Router {
    router
        .method("test.sleep", sleep)
        .method("test.block", blocking(|time| block("test.block", time)))
        .method("test.spin", blocking(spin))
        // These block too, and nobody says so; the second only after it has waited.
        .method("test.nap", |time| block("test.nap", time))
        .method("test.late", async |time| {
            tokio::task::yield_now().await;
            block("test.late", time).await
        })
        .method("test.jam", jam)
        .method("test.panic", panic)
        .method("test.fail", fail)
        .method("test.big", big)
        .method("test.emit", emit)
        .method("test.print", print)
}

/// A last act that never ends must not keep the process.
fn last_act() {
    tell("the last act begins");
    if std::env::var_os("TESTBED_IS_NEVER_DONE").is_some() {
        loop {
            std::thread::park();
        }
    }
}

fn main() -> ExitCode {
    let additions = Additions { methods: add_methods, before_exit: last_act };
    duet_rpc_cli::run_daemon(std::env::args_os(), &additions)
}
