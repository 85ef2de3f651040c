//! The test bed: the daemon with methods that misbehave on purpose. Life-cycle tests run it as a process. Its
//! options are those of `duet-rpc rpc`.
//!
//! ```console
//! testbed [--profile editor|desktop|agent] …
//! ```

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use duet_rpc::proto::message::{Code, ErrorObject};
use duet_rpc::{Context, Error, Failure, Router};
use duet_rpc_cli::Additions;
use serde_json::value::RawValue;

/// Prints a line to stderr, if enabled.
fn tell(what: &str) {
    if std::env::var_os("TESTBED_TELLS").is_some() {
        // One write, so that no log record comes in between.
        let _ = std::io::stderr().write_all(format!("{what}\n").as_bytes());
    }
}

struct Testbed;

#[duet_rpc::service(prefix = "test.")]
impl Testbed {
    /// Waits asynchronously: other handlers run meanwhile.
    #[rpc]
    async fn sleep(&self, ms: u64) -> u64 {
        tell("test.sleep begins");
        tokio::time::sleep(Duration::from_millis(ms)).await;
        ms
    }

    /// Blocks its thread, and everything else on that thread.
    #[rpc(blocking)]
    async fn block(&self, ms: u64) -> u64 {
        hold("test.block", ms)
    }

    /// Blocks its thread with a busy processor.
    #[rpc(blocking)]
    async fn spin(&self, ms: u64) -> u64 {
        tell("test.spin begins");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(ms) {
            std::hint::spin_loop();
        }
        ms
    }

    /// Blocks its thread without being marked as blocking.
    #[rpc]
    async fn nap(&self, ms: u64) -> u64 {
        hold("test.nap", ms)
    }

    /// Like `nap`, but only after it has yielded once.
    #[rpc]
    async fn late(&self, ms: u64) -> u64 {
        tokio::task::yield_now().await;
        hold("test.late", ms)
    }

    /// Blocks the thread that reads and writes, before it returns a future.
    #[rpc]
    fn jam(&self, ms: u64) -> u64 {
        hold("test.jam", ms)
    }

    #[rpc]
    async fn panic(&self) {
        panic!("this message must not show anywhere")
    }

    #[rpc]
    async fn fail(
        &self,
        code: i64,
        message: String,
        data: Option<Box<RawValue>>,
    ) -> Result<(), ErrorObject> {
        Err(ErrorObject::application(Code(code), message, data))
    }

    #[rpc]
    async fn big(&self, bytes: usize) -> Result<String, Failure> {
        const MOST: usize = 1 << 30;
        if bytes > MOST {
            return Err(Failure::internal("not enough memory"));
        }
        Ok("x".repeat(bytes))
    }

    /// Sends this many notifications, and then the answer.
    #[rpc]
    async fn emit(&self, count: u64, cx: Context) -> Result<u64, Error> {
        for number in 1..=count {
            cx.peer().notify("test.event", [number]).await?;
        }
        Ok(count)
    }

    /// Prints to stdout, which belongs to the messages.
    #[rpc]
    #[expect(clippy::print_stdout, reason = "the test needs a stray print")]
    async fn print(&self) -> Result<(), Failure> {
        print!("Content-Length: 5\r\n\r\nstray\n");
        std::io::stdout().flush()?;
        Ok(())
    }
}

fn hold(name: &str, ms: u64) -> u64 {
    tell(&format!("{name} begins"));
    std::thread::sleep(Duration::from_millis(ms));
    ms
}

fn add_methods(router: Router) -> Router {
    router.merge(Testbed.into_router())
}

/// Runs before the exit. If it never returns, the process must still end.
fn exit_hook() {
    tell("the exit hook begins");
    if std::env::var_os("TESTBED_IS_NEVER_DONE").is_some() {
        loop {
            std::thread::park();
        }
    }
}

fn main() -> ExitCode {
    let additions = Additions { methods: add_methods, before_exit: exit_hook };
    duet_rpc_cli::run_daemon(std::env::args_os(), &additions)
}
