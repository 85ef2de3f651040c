//! The chaos: many short lives of the real daemon, each ended in another way, and each checked.
//!
//! A life is a function of a seed and a number, so one that went wrong can be had again. What is done in it is
//! its kind; every kind has a name, and stands in the file of what it is about:
//!
//! | file | what it holds |
//! |---|---|
//! | `options` `report` | what is wanted, and what came of it |
//! | `trial` `ending` `checks` | one life; what it may end with; what is checked of each |
//! | `daemon` `channel` | a process, and what it is started on |
//! | `frames` `ledger` | what it writes; what it was asked and has to answer |
//! | `scheduler_lag` | how late the machine is by itself |
//! | `signals` | signals of every kind, one by one and in storms |
//! | `pipes` | stdin, stdout and stderr that are closed, in every order |
//! | `unusual_fds` | descriptors that are files, devices, sockets, terminals, or not there |
//! | `handlers` | handlers that run when the end comes |
//! | `parents` | the death of who has started it |
//! | `logs` | log files that cannot be written |
//! | `interrupts` | descriptors that others have made non-blocking, pipes that hold little, calls that are interrupted |
//! | `inject` | calls of the system that fail, one by one |
//! | `memory` | little memory, few descriptors, and remotes that want much |
//! | `listen` `client` | daemons that listen, with connections in every state |

mod channel;
mod checks;
mod client;
pub mod command;
mod daemon;
mod ending;
pub mod frames;
mod handlers;
mod inject;
mod interrupts;
pub mod ledger;
mod listen;
mod logs;
mod memory;
pub mod options;
mod parents;
mod pipes;
pub mod report;
mod scheduler_lag;
mod signals;
mod trial;
mod unusual_fds;

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::harness::programs;
use crate::random::Random;
use options::Options;
use report::{Life, Report};
use scheduler_lag::SchedulerLag;
use trial::Trial;

/// A way to live and to end.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    live: fn(&mut Trial<'_>) -> io::Result<()>,
}

/// What all lives share.
#[derive(Debug)]
pub struct World {
    daemon: PathBuf,
    testbed: PathBuf,
    /// Times are allowed to be so many times as long.
    patience: f64,
    /// Whether what can be installed has to be there.
    is_required: bool,
    /// Where lives have their folders.
    folder: PathBuf,
    /// Whether calls of the system can be made to fail here, and file systems be made.
    can_inject: bool,
    can_mount: bool,
    scheduler_lag: SchedulerLag,
}

/// All kinds, those that show the most first.
pub fn kinds() -> Vec<Kind> {
    let files = [
        signals::KINDS,
        pipes::KINDS,
        unusual_fds::KINDS,
        handlers::KINDS,
        parents::KINDS,
        logs::KINDS,
        interrupts::KINDS,
        inject::KINDS,
        memory::KINDS,
        listen::KINDS,
    ];
    files.concat()
}

/// Lives all the lives that are wanted, a few at a time; each is told as it ends.
pub fn run(options: &Options, tell: &(dyn Fn(&Life) + Sync)) -> io::Result<Report> {
    let wanted = options.numbers();
    let kinds: Vec<_> = kinds().into_iter().filter(|kind| options.wants(kind.name)).collect();
    if kinds.is_empty() {
        return Err(io::Error::other("there is no such kind; see --list"));
    }
    let world = World::new(options)?;
    let next = AtomicUsize::new(0);
    let report = Mutex::new(Report::new(&kinds));
    let work = || {
        while let Some(&number) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            let life = live(&world, options.seed, number, &kinds);
            tell(&life);
            report.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(life);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| world.scheduler_lag.beat());
        let workers: Vec<_> = (0..options.jobs).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            // What panics in a life is told of that life.
            let _ = worker.join();
        }
        world.scheduler_lag.end();
    });
    let _ = fs::remove_dir_all(&world.folder);
    Ok(report.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// One life. The first are one of each kind, the others are as it comes.
fn live(world: &World, seed: u64, number: usize, kinds: &[Kind]) -> Life {
    let mut random = Random::new(seed ^ (number as u64).wrapping_mul(0x9e6c_63d0_876a_3f6b));
    let any = random.below(kinds.len());
    let kind = kinds.get(number).unwrap_or(&kinds[any]);
    let folder = world.folder.join(number.to_string());
    let mut trial = Trial::new(world, random, folder);
    let lived = fs::create_dir_all(&trial.folder).and_then(|()| {
        let lived = catch_unwind(AssertUnwindSafe(|| (kind.live)(&mut trial)));
        lived.unwrap_or_else(|_| Err(io::Error::other("a panic")))
    });
    if let Err(trouble) = lived {
        trial.complain(format_args!("the trial itself failed: {trouble}"));
    }
    if let Some(lacking) =
        trial.skipped.take_if(|lacking| world.is_required && lacking.can_be_helped)
    {
        trial.complain(format_args!("{}, and CHAOS=required is set", lacking.why));
    }
    let _ = fs::remove_dir_all(&trial.folder);
    let Trial { complaints, skipped, took, late, was_idle, story, .. } = trial;
    Life { number, kind: kind.name, complaints, skipped, took, late, was_idle, story }
}

impl World {
    fn new(options: &Options) -> io::Result<Self> {
        let folder = std::env::temp_dir();
        // A socket's path has little room.
        let folder = if folder.as_os_str().len() > 40 { PathBuf::from("/tmp") } else { folder };
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let folder = folder.join(format!("duet-chaos-{}-{run}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(World {
            daemon: options.daemon.clone().unwrap_or_else(programs::duet_rpc),
            testbed: options.testbed.clone().unwrap_or_else(programs::testbed),
            patience: options.patience,
            is_required: options.is_required,
            folder,
            can_inject: works(
                "strace",
                &["-D", "-f", "-o", "/dev/null", "-e", "inject=chdir:error=EIO", "true"],
            ),
            can_mount: works(
                "unshare",
                &["-rm", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"],
            ),
            scheduler_lag: SchedulerLag::default(),
        })
    }
}

/// Whether a tool is there, and may do what it is needed for.
fn works(program: &str, words: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
