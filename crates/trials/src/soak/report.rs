//! What is told when it is over.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Plan;
use super::counters::{Counters, Group};
use super::resources::Resources;

/// What was done, and what it cost.
#[derive(Debug)]
pub struct Report {
    /// What was asked for.
    pub plan: Plan,
    /// How long it took.
    pub took: Duration,
    /// How many rounds were played.
    pub rounds: u64,
    /// What was counted.
    pub counters: std::sync::Arc<Counters>,
    /// Records of the log that were dropped, as nobody read them.
    pub dropped: u64,
    /// What the daemon cost.
    pub resources: Resources,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { seed, over, profile, .. } = &self.plan;
        writeln!(f, "{:<20} {seed}", "seed")?;
        writeln!(f, "{:<20} {profile} over {over}, {}", "daemon", self.plan.framing().name())?;
        let seconds = self.took.as_secs_f64();
        writeln!(f, "{:<20} {seconds:.1} s, {} rounds", "time", self.rounds)?;
        let names = [
            (Group::Answers, "answered"),
            (Group::BadInput, "bad input"),
            (Group::Actions, "besides"),
            (Group::Connections, "connections"),
            (Group::LogLines, "log records"),
        ];
        for (group, name) in names {
            let sum = self.counters.sum(group);
            if sum == 0 {
                continue;
            }
            let parts = self.counters.group(group);
            let parts: Vec<_> =
                parts.iter().map(|(name, count)| format!("{name} {count}")).collect();
            let total = if group == Group::Actions { String::new() } else { format!("{sum}: ") };
            writeln!(f, "{name:<20} {total}{}", parts.join(", "))?;
        }
        writeln!(f, "{:<20} {}", "log records dropped", self.dropped)?;
        let [sent, received] = [&self.counters.sent, &self.counters.received];
        let [sent, received] = [sent, received].map(|it| it.load(Ordering::Relaxed));
        writeln!(f, "{:<20} {sent} to the daemon, {received} from it", "bytes")?;
        write!(f, "{}", self.resources)
    }
}
