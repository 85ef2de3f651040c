//! The daemon as a process: one for the whole soak.

use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Plan;
use super::config::{Config, IN_FLIGHT, MESSAGE_LIMIT, Over, Profile};
use super::counters::{Broken, Counters};
use super::log::Log;

pub(super) struct Daemon {
    process: Child,
    pub(super) log: Arc<Log>,
    stderr: JoinHandle<()>,
    /// Where it listens, if it does.
    pub(super) url: Option<String>,
}

impl Daemon {
    /// Starts it.
    pub(super) fn start(
        plan: &Plan,
        config: Config,
        listen: Option<&str>,
        counters: &Arc<Counters>,
    ) -> Result<Self, Broken> {
        let (first, rest) = plan.program.split_first().ok_or_else(|| Broken::new("no program"))?;
        let mut command = Command::new(first);
        command.args(rest);
        command.args(["--profile", &config.profile.to_string(), "--log-format", "json"]);
        command.args(["--framing", config.framing.name()]);
        command.args(["--max-message-bytes", &MESSAGE_LIMIT.to_string()]);
        command.args(["--read-timeout", &plan.read_timeout.as_secs_f64().to_string()]);
        if config.profile == Profile::Agent {
            command.args(["--max-in-flight", &IN_FLIGHT.to_string()]);
        }
        command.args(listen.iter().flat_map(|url| ["--listen", url]));
        // On stdio it changes nothing.
        command.arg("--share-log");
        command.env_remove("DUET_RPC_LOG").env_remove("TESTBED_TELLS");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawned = command.spawn();
        let mut process = spawned.map_err(|error| Broken::new(format!("{first:?}: {error}")))?;
        let log = Arc::<Log>::default();
        let stderr = process.stderr.take().ok_or_else(|| Broken::new("stderr is not piped"))?;
        let (tell, told) = channel();
        let listens = config.over != Over::Stdio;
        let stderr = log.read(stderr, counters, move |line| {
            let url = line.strip_prefix("listening on ").filter(|_| listens);
            url.is_some_and(|url| tell.send(url.trim().to_owned()).is_ok())
        });
        let url = listens.then(|| told.recv_timeout(plan.patience));
        let url = url.transpose().map_err(|_| Broken::new("the daemon does not listen"))?;
        Ok(Daemon { process, log, stderr, url })
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its stdin and stdout.
    pub(super) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        self.process.stdin.take().zip(self.process.stdout.take())
    }

    /// Tells it to end.
    pub(super) fn terminate(&self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
    }

    /// Waits for its end, which must be a good one, and checks the log.
    pub(super) fn wait(mut self, patience: Duration) -> Result<(), Broken> {
        let until = Instant::now() + patience;
        let status = loop {
            match self.process.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
                _ => return Err(Broken::new("the daemon does not end")),
            }
        };
        let stderr = std::mem::replace(&mut self.stderr, std::thread::spawn(|| {}));
        let _ = stderr.join();
        if status.code() != Some(0) {
            return Err(Broken::because(
                "the daemon ends badly",
                "exit code 0",
                &status.to_string(),
            ));
        }
        self.log.check()
    }
}

impl Drop for Daemon {
    /// None is left behind, whatever broke.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
