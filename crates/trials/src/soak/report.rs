//! The report of a soak.

use super::Plan;
use super::resources::Resources;
use crate::harness::prelude::*;

/// Counters of a run, and its resources.
#[derive(Debug)]
pub struct SoakReport {
    pub(super) plan: Plan,
    pub(super) took: Duration,
    pub(super) rounds: u64,
    /// All counters.
    pub counters: Arc<Counters>,
    /// Log records dropped because nobody read them.
    pub(super) dropped: u64,
    pub(super) resources: Resources,
}

impl fmt::Display for SoakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { seed, over, profile, .. } = &self.plan;
        writeln!(f, "{:<20} {seed}", "seed")?;
        writeln!(f, "{:<20} {profile} over {over}, {}", "daemon", self.plan.framing())?;
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
