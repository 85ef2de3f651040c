//! How a server ends: after `shutdown`, the end of its stdin, and signals.
//!
//! | reaction | verdict |
//! |---|---|
//! | exit code 1 without `shutdown` | right for LSP |
//! | still running 2 s after the end of stdin or SIGTERM | warning up to 10 s, then fault |
//! | exit within 5 s because `processId` is gone, not because stdin ended | right for LSP |
//! | still running after SIGINT | warning: the terminal sends it to the client too |

use std::time::Duration;

use duet_rpc::transport::ExitReport;
use serde_json::Value;

use super::super::stand_in::StandIn;
use super::super::verdict::Verdict;
use super::{Examination, brief, status};
use crate::args::ProtocolName;

/// Exit times up to this are good, and up to the second one acceptable.
const QUICK_EXIT: Duration = Duration::from_secs(2);
const SLOW_EXIT: Duration = Duration::from_secs(10);

/// Exit times of a language server that watches the process of its client, every few seconds.
const QUICK_WATCH: Duration = Duration::from_secs(5);

/// Time of a server to finish what it does after the handshake.
const SETTLE_TIME: Duration = Duration::from_millis(700);

impl Examination<'_> {
    pub(super) async fn shutdown(&mut self) -> Verdict {
        let time = self.setup.answer_time;
        let Some(server) = self.server().await else { return Verdict::gone() };
        let answer = server.call("shutdown", &Value::Null, time).await;
        server.notify("exit", &Value::Null);
        let verdict = self.exit("`exit`", "end the process when `exit` arrives", QUICK_EXIT).await;
        match (answer, verdict) {
            (_, Err(verdict)) => verdict,
            (Err(_), Ok(_)) => {
                Verdict::fault("no answer to `shutdown`", "answer `shutdown` with the result null")
            }
            (Ok(answer), Ok(_)) if answer.get("error").is_some() => Verdict::warning(
                format!("answered `shutdown` with an error: {}", brief(&answer["error"])),
                "answer `shutdown` with the result null",
            ),
            (Ok(_), Ok((end, _))) if !end.exit.is_some_and(|exit| exit.success()) => {
                let text = format!("{} after `shutdown` and `exit`, expected 0", status(&end));
                Verdict::warning(text, "exit with 0 if `shutdown` came before `exit`")
            }
            (Ok(_), Ok((_, took))) => Verdict::Ok(format!("exit status 0 after {took:.1?}")),
        }
    }

    /// Ends the server's client: its stdin, and the process in `processId`. A language server may watch either.
    pub(super) async fn end_of_input(&mut self) -> Verdict {
        self.drop_server().await;
        self.client = StandIn::start().ok();
        let Some(server) = self.server().await else { return Verdict::gone() };
        // A server that is in use has timers and requests that one without has not.
        server.listen(SETTLE_TIME).await;
        if let Some(client) = self.client.take() {
            client.end().await;
        }
        if let Some(server) = &mut self.server {
            server.close_stdin();
        }
        let (advice, quick) = match self.setup.protocol {
            Some(ProtocolName::Lsp) => (
                "end the process when stdin ends or `processId` is gone, or it stays behind when its client dies",
                QUICK_WATCH,
            ),
            _ => (
                "end the process when stdin ends, or it stays behind when its client dies",
                QUICK_EXIT,
            ),
        };
        match self.exit("the end of stdin", advice, quick).await {
            Err(verdict) => verdict,
            Ok((end, took)) => {
                let text = format!("{} after {took:.1?}", status(&end));
                let is_clean = end.exit.is_some_and(|exit| exit.success());
                match is_clean || self.setup.protocol == Some(ProtocolName::Lsp) {
                    true => Verdict::Ok(text),
                    false => Verdict::warning(text, "exit with 0 when stdin ends"),
                }
            }
        }
    }

    pub(super) async fn signal(
        &mut self,
        signal: i32,
        name: &str,
        may_be_ignored: bool,
    ) -> Verdict {
        let Some(server) = self.server().await else { return Verdict::gone() };
        server.listen(SETTLE_TIME).await;
        server.signal(signal);
        match self.exit(name, "let the signal end the process", QUICK_EXIT).await {
            Ok((end, took)) => Verdict::Ok(format!("{} after {took:.1?}", status(&end))),
            Err(Verdict::Fault { why, next }) if may_be_ignored => Verdict::Warning { why, next },
            Err(verdict) => verdict,
        }
    }

    /// Waits for the exit of the server. Returns the verdict if it is late.
    async fn exit(
        &mut self,
        after: &str,
        advice: &'static str,
        quick: Duration,
    ) -> Result<(ExitReport, Duration), Verdict> {
        let Some(server) = &mut self.server else { return Err(Verdict::gone()) };
        let took = server.exit(SLOW_EXIT).await;
        let end = self.drop_server().await.unwrap_or_default();
        match took {
            None => {
                let text = format!("still running {SLOW_EXIT:?} after {after}");
                Err(Verdict::fault(text, advice))
            }
            Some(took) if took > quick => {
                let text = format!("exit {took:.1?} after {after}, expected within {quick:?}");
                Err(Verdict::warning(text, advice))
            }
            Some(took) => Ok((end, took)),
        }
    }
}
