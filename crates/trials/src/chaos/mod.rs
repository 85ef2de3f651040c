//! Chaos: many short lives of the real daemon, each ended in another way and checked.
//!
//! A seed and a number determine a life, so a failed one can be repeated. Its kind determines the events in
//! it. Each kind has a name, and a row in the file of its subject:
//!
//! | file | content |
//! |---|---|
//! | `command` `report` | the options and the command; the outcome of all lives |
//! | `trial` `start` `checks` | one life and its steps; the start of a daemon; the checks at its end |
//! | `piped` `requests` | a daemon driven by one thread; requests and their expected answers |
//! | `scheduler_lag` | the machine's own lag |
//! | `signals` | signals of every kind, one by one and in storms; the death of the parent |
//! | `pipes` | stdin, stdout and stderr that are closed, in every order |
//! | `unusual_fds` | descriptors that are files, devices, sockets, terminals, or missing |
//! | `handlers` | handlers that run at the end |
//! | `logs` | log files that cannot be written |
//! | `interrupts` | non-blocking descriptors, small pipes, interrupted calls |
//! | `inject` | failing system calls, one by one |
//! | `memory` | limits on memory and descriptors, and remotes that demand much |
//! | `listen` | listening daemons, with connections in every state |
//! | `tapped` | the same life alone and behind `duet-rpc tap` |

mod checks;
pub mod command;
mod handlers;
mod inject;
mod interrupts;
mod listen;
mod logs;
mod memory;
mod piped;
mod pipes;
pub mod report;
mod requests;
mod scheduler_lag;
mod signals;
mod start;
mod tapped;
mod trial;
mod unusual_fds;

use std::panic::{AssertUnwindSafe, catch_unwind};

use command::ChaosOptions;
use prelude::*;
use report::ChaosReport;
use scheduler_lag::SchedulerLag;
use tapped::Tap;

/// Imports shared by the files of the kinds.
mod prelude {
    pub(super) use super::checks::{Ending, complete};
    pub(super) use super::piped::PipedDaemon;
    pub(super) use super::report::{Life, Skipped};
    pub(super) use super::trial::{Lived, Trial};
    pub(super) use super::{Kind, World};
    pub(super) use crate::harness::prelude::*;
}

/// A kind of life: its name and its steps.
type Kind = (&'static str, fn(&mut Trial<'_>) -> Lived);

/// State shared by all lives.
struct World {
    daemon: PathBuf,
    testbed: PathBuf,
    /// Factor for all time limits.
    patience: f64,
    /// True if a kind fails when a program that it needs is missing.
    is_required: bool,
    /// True if each life also runs behind a tap.
    is_tapped: bool,
    /// Parent of the folders of the lives.
    folder: TempFolder,
    /// True if strace can inject faults here, and if unshare can mount.
    can_inject: bool,
    can_mount: bool,
    lag: SchedulerLag,
}

/// All kinds, or those that can run behind a tap.
fn all_kinds(is_tapped: bool) -> Vec<Kind> {
    let files = [
        signals::KINDS,
        pipes::KINDS,
        unusual_fds::KINDS,
        handlers::KINDS,
        signals::PARENT_KINDS,
        logs::KINDS,
        interrupts::KINDS,
        inject::KINDS,
        memory::KINDS,
        listen::KINDS,
    ];
    let mut kinds = files.concat();
    kinds.retain(|(name, _)| !is_tapped || tapped::is_tapped(name));
    kinds
}

/// The names of all kinds, or of those that can run behind a tap.
pub fn kinds(is_tapped: bool) -> Vec<&'static str> {
    all_kinds(is_tapped).into_iter().map(|(name, _)| name).collect()
}

/// Runs all lives, a few concurrently, and passes each to `tell` when it ends.
pub fn run(options: &ChaosOptions, tell: &(dyn Fn(&Life) + Sync)) -> io::Result<ChaosReport> {
    let numbers = options.life.map_or_else(|| (0..options.lives).collect(), |one| vec![one]);
    let mut kinds = all_kinds(options.tap);
    let only = options.only.as_deref().unwrap_or_default();
    kinds.retain(|(name, _)| name.starts_with(only));
    if kinds.is_empty() {
        return Err(io::Error::other("no such kind; see --list"));
    }
    let world = World::new(options)?;
    let next = AtomicUsize::new(0);
    let report = Mutex::new(ChaosReport::new(kinds.iter().map(|(name, _)| *name)));
    let work = || {
        while let Some(&number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
            let life = live_or_compare(&world, options.seed, number, &kinds);
            tell(&life);
            lock(&report).add(life);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| world.lag.measure());
        let workers: Vec<_> = (0..options.jobs).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            // A panic in a life is reported with that life.
            let _ = worker.join();
        }
        world.lag.end();
    });
    Ok(report.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Runs one life, or the same life alone and behind a tap. The first taps write a trace; the others may have
/// a sink that takes none.
fn live_or_compare(world: &World, seed: u64, number: usize, kinds: &[Kind]) -> Life {
    let live = |tap| live(world, seed, number, kinds, tap);
    if !world.is_tapped {
        return live(None);
    }
    let sink = if number < kinds.len() { usize::MAX } else { number % 5 };
    let traces = world.folder.path().join(format!("{number}-traces"));
    let lived = tapped::live_twice(&traces, sink, live);
    lived.unwrap_or_else(|trouble| {
        let complaints = vec![format!("the trial itself failed: {trouble}")];
        Life { number, complaints, ..Life::default() }
    })
}

/// Runs one life. The first lives cover each kind once, the others are random.
fn live(world: &World, seed: u64, number: usize, kinds: &[Kind], tap: Option<Tap>) -> Life {
    let mut random = Random::new(seed ^ (number as u64).wrapping_mul(0x9e6c_63d0_876a_3f6b));
    let any = random.below(kinds.len());
    let (kind, steps) = *kinds.get(number).unwrap_or(&kinds[any]);
    let folder = world.folder.path().join(number.to_string());
    let mut trial = Trial::new(world, random, folder);
    trial.tap = tap;
    let lived = fs::create_dir_all(&trial.folder).and_then(|()| {
        let lived = catch_unwind(AssertUnwindSafe(|| steps(&mut trial)));
        lived.unwrap_or_else(|_| Err(io::Error::other("a panic")))
    });
    let skipped = trial.life.skipped;
    // A life that could not continue has recorded the reason.
    let has_told = skipped.is_some() || !trial.life.complaints.is_empty();
    if let Some(trouble) = lived.err().filter(|_| !has_told) {
        trial.complain(format_args!("the trial itself failed: {trouble}"));
    }
    if let Some(lacking) = skipped.filter(|lacking| world.is_required && lacking.can_be_helped) {
        trial.life.skipped = None;
        trial.complain(format_args!("{}, and CHAOS=required is set", lacking.why));
    }
    let _ = fs::remove_dir_all(&trial.folder);
    Life { number, kind, ..trial.life }
}

impl World {
    fn new(options: &ChaosOptions) -> io::Result<Self> {
        let fault = ["-D", "-f", "-o", "/dev/null", "-e", "inject=chdir:error=EIO", "true"];
        let mount = ["-rm", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"];
        Ok(World {
            daemon: options.daemon.clone().unwrap_or_else(programs::duet_rpc),
            testbed: options.testbed.clone().unwrap_or_else(programs::testbed),
            patience: options.patience,
            is_required: std::env::var_os("CHAOS").is_some_and(|value| value == "required"),
            is_tapped: options.tap,
            folder: TempFolder::new("chaos")?,
            can_inject: programs::works("strace", &fault),
            can_mount: programs::works("unshare", &mount),
            lag: SchedulerLag::default(),
        })
    }
}
