//! The same life twice: once with the daemon alone, and once behind `duet-rpc tap` (W1, W3, W4, W6).
//!
//! Both lives have the same seed, so they take the same steps. Then these must be the same:
//!
//! | | compared |
//! |---|---|
//! | end | exit code or signal, if the life allows only one |
//! | answers | every message, in any order, if the life requires all answers |
//! | bytes | the trace has exactly the bytes that the client sent and received |
//! | time | from the cause of the end to the end, the least of a few tries |
//! | processes | none is left once the tap has ended |
//!
//! The trace of a tap may also be a device that is full, or a named pipe that nobody reads. Then only its
//! bytes are not compared.

use std::os::unix::process::ExitStatusExt;

use super::prelude::*;
use crate::harness::wire::{Event, Inbound};

/// The most that the tap may add to the time of an end. It may end sooner, because its pipes take bytes too.
const APART: Duration = Duration::from_millis(50);

/// The time within which every process of a killed tap ends.
const GONE: Duration = Duration::from_millis(100);

/// The time that a tap waits for a recorder without progress.
const LAST_RECORDS: Duration = Duration::from_secs(2);

/// A life is repeated this often until it agrees with its twin, because a busy machine delays either.
const TRIES: usize = 8;

/// Kinds whose daemon must have the very descriptor of the client: behind a tap, it has a pipe. And one whose
/// result depends on the moment at which the daemon starts, and one whose client never reads more than a pipe
/// holds: a tap waits for it.
const NOT_TAPPED: [&str; 11] = [
    "signal-early",
    "stdout-unread",
    "stdin-directory",
    "stdin-unreadable",
    "stdin-none",
    "stdout-full",
    "stdout-limited",
    "stdout-none",
    "stdout-unwritable",
    "socket-broken",
    "terminal-hangs-up",
];

/// A kind whose time is that of a client that reads many messages. A tap holds more of them.
const NOT_TIMED: &str = "handler-emits";

/// Returns true if a kind can run behind a tap. Limits on resources and failing system calls are for the
/// daemon alone, and a listening daemon has sockets of its own.
pub(super) fn is_tapped(kind: &str) -> bool {
    let others = ["inject", "memory", "files", "listen", "parent"];
    !NOT_TAPPED.contains(&kind) && !others.iter().any(|other| kind.starts_with(other))
}

/// The tap of a life.
#[derive(Clone, Debug)]
pub(super) struct Tap {
    /// The place of the trace.
    trace: PathBuf,
    is_recorded: bool,
    /// True if the trace cannot be written at all, so that the tap waits for its recorder.
    pub(super) is_stuck: bool,
}

impl Tap {
    /// A tap with a trace in this folder, or a random sink that takes no records.
    fn new(folder: &Path, sink: usize) -> io::Result<Self> {
        let trace = match sink {
            0 => PathBuf::from("/dev/full"),
            1 => folder.join("fifo"),
            _ => folder.join("trace.jsonl"),
        };
        if sink == 1 && !trace.exists() {
            let is_made = Command::new("mkfifo").arg(&trace).status()?.success();
            is_made.then_some(()).ok_or_else(|| io::Error::other("no named pipe can be made"))?;
        }
        Ok(Tap { trace, is_recorded: sink > 1, is_stuck: sink == 1 })
    }

    /// The time that a tap with this sink adds.
    pub(super) fn delay(&self) -> Duration {
        if self.is_stuck { LAST_RECORDS } else { Duration::ZERO }
    }

    /// The words before the command of a server.
    pub(super) fn words(&self) -> [String; 4] {
        let trace = self.trace.to_string_lossy().into_owned();
        ["tap".to_owned(), "--to".to_owned(), trace, "--".to_owned()]
    }
}

/// The end of a life, to compare with that of its twin.
#[derive(Debug)]
pub(super) struct Ended {
    status: ExitStatus,
    /// True if no other status was allowed.
    is_certain: bool,
    framing: Framing,
    /// The bytes that the client sent and received.
    passed: [Vec<u8>; 2],
    /// True if all of them had to pass.
    is_whole: bool,
}

impl Trial<'_> {
    /// Keeps the end for a comparison.
    pub(super) fn keep_end(&mut self, status: ExitStatus, ending: &Ending) {
        let framing = self.profile.framing();
        if let Some(passed) = self.daemon().link.passed.take() {
            let is_certain = ending.codes.len() + ending.signals.len() == 1;
            let is_whole = ending.answers_all;
            self.life.ended = Some(Ended { status, is_certain, framing, passed, is_whole });
        }
    }

    /// Checks that no process of the tap is left: all of them work in the folder of this life.
    pub(super) fn check_tree(&mut self) {
        if self.tap.is_none() {
            return;
        }
        let (folder, time) = (self.folder.clone(), GONE.mul_f64(self.world.patience));
        let is_gone = wait_until(time, || proc::working_in(&folder).is_empty());
        self.check(is_gone, "a process of the server outlives the tap");
    }
}

/// Runs a life alone and behind a tap until both agree. `live` runs it, with a tap or without.
pub(super) fn live_twice(
    folder: &Path,
    sink: usize,
    live: impl Fn(Option<Tap>) -> Life,
) -> io::Result<Life> {
    fs::create_dir_all(folder)?;
    let tap = Tap::new(folder, sink)?;
    let mut least = [Duration::MAX; 2];
    let mut tries = 0;
    let life = loop {
        let alone = live(None);
        if alone.skipped.is_some() || !alone.complaints.is_empty() {
            break alone;
        }
        let mut life = live(Some(tap.clone()));
        if !life.complaints.is_empty() {
            break life;
        }
        least = [least[0].min(alone.time()), least[1].min(life.time())];
        tries += 1;
        let differences = tap.compare(&alone, &life, least);
        if differences.is_empty() || tries == TRIES {
            life.complaints.extend(differences);
            break life;
        }
    };
    let _ = fs::remove_dir_all(folder);
    Ok(life)
}

impl Tap {
    /// The differences between a life alone and its twin behind the tap.
    fn compare(&self, alone: &Life, life: &Life, [before, after]: [Duration; 2]) -> Vec<String> {
        let (Some(one), Some(other)) = (&alone.ended, &life.ended) else { return Vec::new() };
        let mut found = Vec::new();
        let end = |it: &Ended| (it.status.code(), it.status.signal());
        if one.is_certain && end(one) != end(other) {
            found.push(format!("alone it ends with {}, tapped with {}", one.status, other.status));
        }
        if one.is_whole && one.messages() != other.messages() {
            found.push("the answers are not the same alone and tapped".to_owned());
        }
        let added = after.saturating_sub(before);
        if added > APART + self.delay() && life.kind != NOT_TIMED {
            found.push(format!("alone it took {before:?} to end, tapped {after:?}"));
        }
        if self.is_recorded && other.is_whole {
            for (dir, bytes) in ["c2s", "s2c"].into_iter().zip(&other.passed) {
                if self.cat(dir).as_ref() != Some(bytes) {
                    found.push(format!("the trace does not have the bytes of {dir}"));
                }
            }
        }
        found
    }

    /// The bytes of a direction, from the trace. `None` if it is not lossless.
    fn cat(&self, dir: &str) -> Option<Vec<u8>> {
        let mut cat = Command::new(programs::duet_rpc());
        let output = cat.args(["trace", "cat", "--dir", dir]).arg(&self.trace).output().ok()?;
        output.status.success().then_some(output.stdout)
    }
}

impl Ended {
    /// The messages that the client received, sorted.
    fn messages(&self) -> Vec<String> {
        let mut inbound = Inbound::new(self.framing);
        inbound.feed(&self.passed[1]);
        let mut messages = Vec::new();
        while let Ok(Some(Event::Text(text))) = inbound.next() {
            messages.push(text);
        }
        messages.sort_unstable();
        messages
    }
}
