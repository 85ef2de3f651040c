//! Queries over the figures, for tables and charts.

use crate::contenders::{LIMIT, OURS, OURS_AS_TREE, OURS_TYPED, READY_LIMIT, WIDE_LIMIT};
use crate::figures::{Curve, CurveKind, Fairness, Figures, Row, Startup, SystemCalls, median};
use crate::load::{Handler, Load, TABLE};
use crate::server::Pinning;
use crate::wire::Framing;

/// In the order of all tables.
pub const FRAMINGS: [Framing; 3] = [Framing::Lsp, Framing::Ndjson, Framing::Length];

/// The framings of stdio and of sockets, in the order of all tables.
pub const ALL_FRAMINGS: [Framing; 5] =
    [Framing::Lsp, Framing::Ndjson, Framing::Length, Framing::WebSocket, Framing::Http];

/// Load that orders the servers, if no other is given.
pub const FIRST: Load = TABLE[0];

#[derive(Clone, Copy)]
pub struct View<'a>(pub &'a Figures);

/// A server in one of its framings: a line of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entrant<'a> {
    pub server: &'a str,
    pub framing: Framing,
}

/// In the order of all tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Limit,
    OtherLimit,
    Ours,
    OursTyped,
    OursAsTree,
    Peer,
}

impl Role {
    pub fn from_server(server: &str) -> Self {
        match server {
            LIMIT => Role::Limit,
            WIDE_LIMIT | READY_LIMIT => Role::OtherLimit,
            OURS => Role::Ours,
            OURS_TYPED => Role::OursTyped,
            OURS_AS_TREE => Role::OursAsTree,
            _ => Role::Peer,
        }
    }

    pub fn is_limit(self) -> bool {
        matches!(self, Role::Limit | Role::OtherLimit)
    }
}

impl Entrant<'_> {
    pub fn role(self) -> Role {
        Role::from_server(self.server)
    }

    pub fn ours(framing: Framing) -> Entrant<'static> {
        Entrant { server: OURS, framing }
    }

    pub fn limit(framing: Framing) -> Entrant<'static> {
        Entrant { server: LIMIT, framing }
    }

    fn is(self, server: &str, framing: Framing) -> bool {
        self.server == server && self.framing == framing
    }
}

impl<'a> View<'a> {
    /// All measured servers, by framing: the limit first, then ours, then the others, ordered by
    /// their time under `first`.
    pub fn entrants(self, cores: Pinning, first: Load) -> Vec<Entrant<'a>> {
        let mut entrants = Vec::new();
        for row in self.0.rows.iter().filter(|row| row.cores == cores) {
            let entrant = Entrant { server: row.server.as_str(), framing: row.framing };
            if !entrants.contains(&entrant) {
                entrants.push(entrant);
            }
        }
        let framing =
            |entrant: &Entrant<'_>| ALL_FRAMINGS.iter().position(|f| *f == entrant.framing);
        let nanos = |entrant: &Entrant<'_>| self.nanos(*entrant, cores, first).unwrap_or(f64::MAX);
        entrants.sort_by(|one, other| nanos(one).total_cmp(&nanos(other)));
        entrants.sort_by_key(|entrant| (framing(entrant), entrant.role()));
        entrants
    }

    /// The measured loads, with handlers that wait or not.
    pub fn loads(self, cores: Pinning, waiting: bool) -> Vec<Load> {
        let is_measured =
            |load: &Load| self.0.rows.iter().any(|row| row.cores == cores && row.load == *load);
        let is_wanted = |load: &Load| (load.handler != Handler::Echo) == waiting;
        TABLE.into_iter().filter(is_wanted).filter(is_measured).collect()
    }

    pub fn row(self, entrant: Entrant<'_>, cores: Pinning, load: Load) -> Option<&'a Row> {
        self.0.rows.iter().find(|row| {
            entrant.is(&row.server, row.framing) && row.cores == cores && row.load == load
        })
    }

    /// Nanoseconds per message.
    pub fn nanos(self, entrant: Entrant<'_>, cores: Pinning, load: Load) -> Option<f64> {
        self.row(entrant, cores, load).map(|row| median(&row.nanos)).filter(|n| n.is_finite())
    }

    /// Nanoseconds of CPU time per message.
    pub fn cpu_nanos(self, entrant: Entrant<'_>, cores: Pinning, load: Load) -> Option<f64> {
        self.row(entrant, cores, load).map(|row| median(&row.cpu_nanos)).filter(|n| n.is_finite())
    }

    /// Nanoseconds of the driver's CPU time per message.
    pub fn driver_nanos(self, entrant: Entrant<'_>, cores: Pinning, load: Load) -> Option<f64> {
        let row = self.row(entrant, cores, load)?;
        Some(median(&row.driver_nanos)).filter(|nanos| nanos.is_finite())
    }

    pub fn fairness(self, entrant: Entrant<'_>) -> Option<&'a Fairness> {
        self.0.fairness.iter().find(|waits| entrant.is(&waits.server, waits.framing))
    }

    /// Ratio to the bare loop in the same framing. WebSocket and HTTP have no bare loop, so they
    /// use the one over plain TCP.
    pub fn ratio(self, entrant: Entrant<'_>, cores: Pinning, load: Load) -> Option<f64> {
        let limit = self.row(Entrant::limit(entrant.framing), cores, load);
        let limit = limit.or_else(|| self.row(Entrant::limit(Framing::Ndjson), cores, load))?;
        let row = self.row(entrant, cores, load)?;
        Some(row.ratio_to(limit)).filter(|ratio| ratio.is_finite())
    }

    pub fn startup(self, entrant: Entrant<'_>) -> Option<&'a Startup> {
        self.0.startups.iter().find(|startup| entrant.is(&startup.server, startup.framing))
    }

    /// Time from the start to the first answer, in nanoseconds.
    pub fn start_nanos(self, entrant: Entrant<'_>) -> Option<f64> {
        self.startup(entrant).map(|startup| median(&startup.start_nanos)).filter(|n| n.is_finite())
    }

    /// Ratio to the bare loop's start.
    pub fn start_ratio(self, entrant: Entrant<'_>) -> Option<f64> {
        let limit = self.start_nanos(Entrant::limit(entrant.framing))?;
        Some(self.start_nanos(entrant)? / limit)
    }

    /// Peak memory, in KiB.
    pub fn peak_kib(self, entrant: Entrant<'_>) -> Option<u64> {
        let peaks = self.0.peaks.iter();
        peaks.filter(|peak| entrant.is(&peak.server, peak.framing)).map(|peak| peak.kib).max()
    }

    pub fn system_calls(self, entrant: Entrant<'_>, load: Load) -> Option<Calls> {
        let of_entrant =
            |calls: &&SystemCalls| entrant.is(&calls.server, calls.framing) && calls.load == load;
        self.0.system_calls.iter().find(of_entrant).map(Calls::from_counts)
    }

    /// Loads with counted system calls.
    pub fn loads_of_system_calls(self) -> Vec<Load> {
        let mut loads: Vec<Load> = Vec::new();
        for calls in &self.0.system_calls {
            if !loads.contains(&calls.load) {
                loads.push(calls.load);
            }
        }
        loads
    }

    pub fn curves(self, kind: CurveKind) -> impl Iterator<Item = &'a Curve> {
        self.0.curves.iter().filter(move |curve| curve.kind == kind && !curve.points.is_empty())
    }
}

/// System calls per message, by purpose.
#[derive(Clone, Copy, Default)]
pub struct Calls {
    pub all: f64,
    pub reads: f64,
    pub writes: f64,
    /// Waits for readiness.
    pub waits: f64,
    pub futexes: f64,
    pub others: f64,
}

impl Calls {
    fn from_counts(counted: &SystemCalls) -> Self {
        let mut calls = Calls { all: counted.all, ..Calls::default() };
        for (name, count) in &counted.by_name {
            let kind =
                match name.as_str() {
                    "read" | "readv" | "pread64" | "preadv" | "preadv2" | "recvfrom"
                    | "recvmsg" => &mut calls.reads,
                    "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendto"
                    | "sendmsg" => &mut calls.writes,
                    "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll" | "ppoll" | "select"
                    | "pselect6" => &mut calls.waits,
                    "futex" => &mut calls.futexes,
                    _ => &mut calls.others,
                };
            *kind += count;
        }
        calls
    }
}

/// Short name of a load.
pub fn short_name(load: Load) -> String {
    load.to_string().replace("round trip, ", "round trip ").replace(" at once, ", " × ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn the_limit_comes_first_then_ours_then_the_fastest() {
        let figures = sample::figures();
        let entrants = View(&figures).entrants(Pinning::OneCore, FIRST);
        let names: Vec<_> =
            entrants.iter().map(|entrant| (entrant.framing.name(), entrant.server)).collect();
        assert_eq!(
            names,
            [
                ("lsp", LIMIT),
                ("lsp", OURS),
                ("lsp", "quick 1.0"),
                ("lsp", "slow & <old> 2"),
                ("ndjson", LIMIT),
                ("ndjson", OURS),
            ]
        );
    }

    #[test]
    fn system_calls_are_grouped_by_purpose() {
        let figures = sample::figures();
        let load = View(&figures).loads_of_system_calls()[0];
        let calls = View(&figures).system_calls(Entrant::ours(Framing::Lsp), load).unwrap();
        assert_eq!((calls.reads, calls.writes, calls.waits), (1.0, 1.0, 1.0));
        assert_eq!((calls.futexes, calls.others), (0.0, 0.0));
    }

    #[test]
    fn loads_have_short_names() {
        assert_eq!(short_name(TABLE[2]), "round trip 1 KB nested");
        assert_eq!(short_name(TABLE[6]), "64 × 1 KB nested");
    }
}
