//! A process in the place of the client, which can end while doctor still runs.

use std::io;
use std::process::Stdio;

use tokio::process::{Child, Command};

/// A process that waits. Dropping it kills it.
pub(super) struct StandIn(Child);

impl StandIn {
    pub(super) fn start() -> io::Result<StandIn> {
        // It reads a stdin that never ends.
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["explain", "ndjson"]).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(StandIn)
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.0.id()
    }

    /// Ends it, and waits until nobody can find its process any more.
    pub(super) async fn end(mut self) {
        // It fails only if the process is gone.
        let _ = self.0.kill().await;
    }
}
