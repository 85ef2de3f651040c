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
use duet_rpc::{Context, Error, Failure, Router};
use duet_rpc_cli::Additions;
use serde_json::value::RawValue;

/// Says something on stderr, if that is wanted.
fn tell(what: &str) {
    if std::env::var_os("TESTBED_TELLS").is_some() {
        // With one write, so that a record of the log cannot come in between.
        let _ = std::io::stderr().write_all(format!("{what}\n").as_bytes());
    }
}

struct Testbed;

#[duet_rpc::service(prefix = "test.")]
impl Testbed {
    /// Waits as a good handler does: others run meanwhile.
    #[rpc]
    async fn sleep(&self, ms: u64) -> u64 {
        tell("test.sleep begins");
        tokio::time::sleep(Duration::from_millis(ms)).await;
        ms
    }

    /// Blocks its thread, and with it everything that the thread has to do.
    #[rpc(blocking)]
    async fn block(&self, ms: u64) -> u64 {
        hold("test.block", ms)
    }

    /// The same, with the processor busy.
    #[rpc(blocking)]
    async fn spin(&self, ms: u64) -> u64 {
        tell("test.spin begins");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(ms) {
            std::hint::spin_loop();
        }
        ms
    }

    /// Blocks too, and nobody says so.
    #[rpc]
    async fn nap(&self, ms: u64) -> u64 {
        hold("test.nap", ms)
    }

    /// The same, but only after it has waited.
    #[rpc]
    async fn late(&self, ms: u64) -> u64 {
        tokio::task::yield_now().await;
        hold("test.late", ms)
    }

    /// Blocks the very thread that reads and writes, before it is even a future.
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
            return Err(Failure::internal("there is not so much memory"));
        }
        Ok("x".repeat(bytes))
    }

    /// As many notifications as are asked for, and then the answer.
    #[rpc]
    async fn emit(&self, count: u64, cx: Context) -> Result<u64, Error> {
        for number in 1..=count {
            cx.peer().notify("test.event", [number]).await?;
        }
        Ok(count)
    }

    /// Prints where it should not.
    #[rpc]
    #[expect(clippy::print_stdout, reason = "that is the test")]
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
