//! Faults in a tap: the rules of `--fault` between the pumps of a session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use duet_rpc::proto::frame::FramingChoice;
use duet_rpc_trace::{FaultLink, FaultRule, Faults, Feed};

use crate::args::TapArgs;
use crate::console;
use crate::exit::Problem;
use crate::sys::SignalSender;

/// The time that a server has to end after its connection was cut, and then after SIGTERM.
const AFTER_CUT: Duration = Duration::from_secs(2);

/// The number of matches of each rule, over all sessions of this tap, and of those that got its fault.
#[derive(Default)]
pub(super) struct FaultTotals(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    running: Vec<Arc<FaultLink>>,
    /// The numbers of the sessions that have ended.
    ended: Vec<(u64, u64)>,
}

impl FaultTotals {
    /// A session begins.
    pub(super) fn begin(&self, link: &Arc<FaultLink>) {
        self.lock().running.push(Arc::clone(link));
    }

    /// A session has ended.
    pub(super) fn end(&self, link: &Arc<FaultLink>) {
        let mut counted = self.lock();
        counted.running.retain(|it| !Arc::ptr_eq(it, link));
        add_counts(&mut counted.ended, &link.counts());
    }

    /// Names the rules that made no fault: most often their filter is mistyped.
    pub(super) fn report(&self, rules: &[FaultRule]) {
        let counted = self.lock();
        let mut totals = counted.ended.clone();
        counted.running.iter().for_each(|link| add_counts(&mut totals, &link.counts()));
        name_unused_rules(rules, &totals);
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names the rules that made no fault, by the number of matches of each, and of those that got its fault.
pub(in crate::cmd) fn name_unused_rules(rules: &[FaultRule], totals: &[(u64, u64)]) {
    for (place, rule) in rules.iter().enumerate() {
        let why = match totals.get(place).copied().unwrap_or_default() {
            (0, _) => "no message matched it",
            (_, 0) => "its nth:, every: or p: chose none of the messages that matched it",
            _ => continue,
        };
        console::say(format_args!("the fault rule `{rule}` made no fault: {why}"));
    }
}

/// Adds the numbers of a session.
pub(in crate::cmd) fn add_counts(totals: &mut Vec<(u64, u64)>, counts: &[(u64, u64)]) {
    totals.resize(counts.len(), (0, 0));
    for (total, count) in totals.iter_mut().zip(counts) {
        *total = (total.0 + count.0, total.1 + count.1);
    }
}

/// The rules of a session. `number` tells the connections of a tap from each other.
pub(super) fn rules(args: &TapArgs, number: u64) -> Faults {
    let framing = match args.framing.choice() {
        FramingChoice::Fixed(framing) => Some(framing),
        FramingChoice::Auto => None,
    };
    let seed = args.faults.seed.wrapping_add(number);
    Faults::new(args.faults.fault.clone(), seed).with_framing(framing)
}

/// Rules for a server that this process started; `signals` sends signals to it.
pub(super) fn link(
    args: &TapArgs,
    feed: Option<&Feed>,
    signals: SignalSender,
) -> std::io::Result<Arc<FaultLink>> {
    let kill = move |signal| signals.send(signal);
    FaultLink::new(rules(args, 0), feed, kill).map(Arc::new)
}

/// Refuses rules that cannot work between sockets.
pub(super) fn check_for_sockets(args: &TapArgs, has_messages: bool) -> Result<(), Problem> {
    for rule in &args.faults.fault {
        let why = match has_messages {
            _ if rule.needs_process() => "there is no process to send a signal to; use cut",
            false if rule.needs_messages() => {
                "a tap sees the bytes of ws:// and http://, not their messages; use tcp:// or unix://"
            }
            _ => continue,
        };
        return Err(Problem::usage(format!("cannot use the fault rule `{rule}`: {why}")));
    }
    Ok(())
}

/// Ends a server that does not end after its connection was cut.
pub(super) fn end_after_cut(signals: SignalSender) {
    let end = move || {
        thread::sleep(AFTER_CUT);
        signals.ask();
        thread::sleep(AFTER_CUT);
        signals.kill();
    };
    // This process ends as soon as the server has, and this thread with it.
    let _ = thread::Builder::new().name("cut".to_owned()).spawn(end);
}
