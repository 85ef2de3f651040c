//! Little memory, few threads and few descriptors, and a remote that wants much of each (F3, L7, L8).
//!
//! The limit is on the address space (`ulimit -v`), of which a daemon takes more than it uses: stacks of threads,
//! libraries, what the allocator sets aside. The one of glibc sets aside 64 MiB for each thread that allocates,
//! unless it is told not to, as here.

use std::io::{self, Write};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::channel::in_shell;
use super::daemon::Daemon;
use super::ending::Ending;
use super::frames::Framing;
use super::ledger::Expect;
use super::trial::{PROFILES, Trial};
use super::{Kind, World};

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "memory-little", live: little },
    Kind { name: "memory-hostile", live: hostile },
    Kind { name: "memory-threads", live: many_threads },
    Kind { name: "files-few", live: few_files },
];

/// With so much, in KiB, every profile serves whatever a remote sends.
const ENOUGH: usize = 64 * 1024;
/// The same with handlers that keep a thread each, 32 at most.
const ENOUGH_FOR_THREADS: usize = 192 * 1024;

/// With so many descriptors every profile serves.
const ENOUGH_FILES: usize = 18;

/// With less than this it may find out that it has too little only when it serves.
const LITTLE: usize = 32 * 1024;
/// How the loader and Rust itself say that there is no memory; nobody else can say it then.
pub(super) const WITHOUT_MEMORY: [&str; 8] = [
    "error while loading shared libraries",
    "cannot allocate",
    "memory allocation of",
    "stack_overflow.rs",
    "alternative stack",
    "fatal runtime error",
    "RUST_BACKTRACE=1",
    "skipping backtrace",
];

/// What a remote can do to have much memory used.
#[derive(Clone, Copy, Debug)]
enum Want {
    /// Lengths that are announced, and never come.
    Announced,
    /// Messages as long as they may be.
    Long,
    /// Longer ones.
    TooLong,
    /// Many requests at once.
    Many,
    /// Brackets, as many as fit.
    Deep,
    /// Large answers that are not read for a while.
    Unread,
    /// Handlers that keep a thread each, of which only the test bed has some.
    Threads,
}

const WANTS: [Want; 6] =
    [Want::Announced, Want::Long, Want::TooLong, Want::Many, Want::Deep, Want::Unread];

/// The longest message that a profile takes.
fn limit_of(profile: &str) -> usize {
    if profile == "editor" { 10 << 20 } else { 1 << 20 }
}

/// Wants this, and has what is due noted.
fn want(trial: &mut Trial<'_>, daemon: &mut Daemon, what: Want) {
    trial.tell(format_args!("{what:?}"));
    let (framing, limit) = (daemon.framing, limit_of(trial.profile));
    let letters = |count: usize| "x".repeat(count);
    match what {
        Want::Announced => {
            for _ in 0..20 {
                let bytes: &[u8] = match framing {
                    Framing::Lsp => b"Content-Length: 4000000000\r\n\r\n{",
                    Framing::Length => b"\0\xff\xff\xff{",
                    // There is no such thing; each line is a fault by itself.
                    Framing::Ndjson => b"{\n",
                };
                daemon.send(bytes);
                daemon.ledger.expect_fault();
                // What stands behind a fault may be of the same, but not this.
                trial.ask(daemon, "version", &json!([]), Expect::Anything);
            }
        }
        Want::Long => {
            for _ in 0..3 {
                trial.ask(daemon, "version", &json!([letters(limit - 200)]), Expect::Anything);
            }
        }
        Want::TooLong => {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, letters(limit));
            daemon.send(&framing.frame(&text));
            daemon.ledger.expect_fault();
        }
        Want::Many => {
            for _ in 0..3_000 {
                trial.ask(daemon, "version", &json!([]), Expect::Anything);
            }
        }
        Want::Deep => {
            daemon.send(&framing.frame(&"[".repeat(limit - 2)));
            daemon.ledger.expect_fault();
        }
        Want::Unread => {
            daemon.leaves_stdout = true;
            for _ in 0..3_000 {
                trial.ask(daemon, "describeMethods", &json!([]), Expect::Anything);
            }
            daemon.pump(Duration::from_millis(50), |_| false);
            daemon.leaves_stdout = false;
        }
        Want::Threads => {
            for _ in 0..40 {
                trial.ask(daemon, "test.block", &json!({"ms": 5}), Expect::Result(json!(5)));
            }
        }
    }
    trial.ask(daemon, "version", &json!([]), Expect::Anything);
}

/// A daemon that has so many KiB.
fn limited(trial: &mut Trial<'_>, kib: usize) -> io::Result<Daemon> {
    trial.tell(format_args!("{kib} KiB"));
    let mut command = trial.command();
    command.env("MALLOC_ARENA_MAX", "1");
    // On a machine that is late, the making of the next long message may take longer than a frame may.
    command.args(["--read-timeout", "600"]);
    trial.start(in_shell(format!(r#"ulimit -v {kib}; exec "$@""#), &command))
}

/// It says that it cannot start, or serves as ever.
fn little(trial: &mut Trial<'_>) -> io::Result<()> {
    trial.is_testbed = false;
    let kib = 3_000 + trial.random.below(40_000);
    let mut daemon = limited(trial, kib)?;
    trial.messages(&mut daemon, 10);
    trial.close_stdin(&mut daemon);
    if kib >= LITTLE {
        trial.finish(&mut daemon, &Ending::complete());
        return Ok(());
    }
    trial.excused.extend(WITHOUT_MEMORY);
    trial.may_say_nothing = true;
    let mut ending = Ending::code(0).or(1).or(127);
    // With almost nothing the system cannot even load it.
    ending.signals.extend([Signal::ABORT, Signal::SEGV, Signal::KILL]);
    trial.finish(&mut daemon, &ending);
    let status = daemon.ended.map(|(status, _)| status);
    if status.is_none_or(|status| status.code().is_none()) {
        return Ok(());
    }
    let has_succeeded = status.is_some_and(|status| status.success());
    let is_told =
        has_succeeded && daemon.ledger.is_settled() || !has_succeeded && !daemon.said.is_empty();
    trial.check(is_told, "it neither serves nor says why");
    Ok(())
}

/// Where there is enough, whatever a remote wants is survived.
fn hostile(trial: &mut Trial<'_>) -> io::Result<()> {
    trial.is_testbed = false;
    let mut daemon = limited(trial, ENOUGH)?;
    for _ in 0..1 + trial.random.below(4) {
        let what = *trial.random.pick(&WANTS);
        want(trial, &mut daemon, what);
        if trial.random.once_in(2) {
            trial.settle(&mut daemon);
        }
    }
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// It serves with few descriptors, and says so if they are too few to start with.
fn few_files(trial: &mut Trial<'_>) -> io::Result<()> {
    let is_enough = trial.random.once_in(2);
    let most = if is_enough {
        ENOUGH_FILES + trial.random.below(8)
    } else {
        3 + trial.random.below(ENOUGH_FILES - 3)
    };
    trial.tell(format_args!("at most {most} descriptors"));
    let limit = most + inherited();
    let mut daemon = trial.daemon_in_shell(&format!(r#"ulimit -n {limit}; exec "$@""#))?;
    trial.messages(&mut daemon, 10);
    trial.close_stdin(&mut daemon);
    if is_enough {
        trial.finish(&mut daemon, &Ending::complete());
        return Ok(());
    }
    trial.may_say.push("error while loading shared libraries");
    trial.finish(&mut daemon, &Ending::code(0).or(1).or(127));
    let has_succeeded = daemon.ended.is_some_and(|(status, _)| status.success());
    let is_told =
        has_succeeded && daemon.ledger.is_settled() || !has_succeeded && !daemon.said.is_empty();
    trial.check(is_told, "it neither serves nor says why");
    Ok(())
}

/// Descriptors that every child of this process has besides its standard ones: whoever has started us left them
/// open. Those beyond any limit here take no room.
fn inherited() -> usize {
    const CLOEXEC: u32 = 0o2_000_000;
    let is_inherited = |entry: std::fs::DirEntry| {
        let number: usize = entry.file_name().to_str()?.parse().ok()?;
        let text = std::fs::read_to_string(entry.path()).ok()?;
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
        ((3..2 * ENOUGH_FILES).contains(&number) && flags & CLOEXEC == 0).then_some(())
    };
    let all = std::fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
    all.filter_map(is_inherited).count()
}

/// Handlers that keep as many threads as there may be.
fn many_threads(trial: &mut Trial<'_>) -> io::Result<()> {
    trial.is_testbed = true;
    let mut daemon = limited(trial, ENOUGH_FOR_THREADS)?;
    for _ in 0..1 + trial.random.below(3) {
        want(trial, &mut daemon, Want::Threads);
        let what = *trial.random.pick(&WANTS);
        want(trial, &mut daemon, what);
    }
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(())
}

/// Finds the smallest limits with which each profile serves, at rest and whatever a remote wants.
pub(super) fn smallest(world: &World) -> io::Result<bool> {
    for profile in PROFILES {
        let mut text =
            format!("{profile:8} serves with {} KiB", search(world, profile, false, &[])?);
        for what in WANTS {
            text.push_str(&format!(", {what:?} {}", search(world, profile, false, &[what])?));
        }
        text.push_str(&format!(", all of them {}", search(world, profile, false, &WANTS)?));
        text.push_str(&format!(", Threads {}", search(world, profile, true, &[Want::Threads])?));
        writeln!(io::stdout(), "{text}")?;
    }
    let _ = std::fs::remove_dir_all(&world.folder);
    Ok(true)
}

/// The smallest limit with which these are survived three times, to 64 KiB.
fn search(
    world: &World,
    profile: &'static str,
    is_testbed: bool,
    wants: &[Want],
) -> io::Result<usize> {
    let (mut low, mut high) = (2 * 1024, 512 * 1024);
    while high - low > 64 {
        let middle = (low + high) / 2;
        let mut holds = true;
        for seed in 0..3 {
            holds = holds && is_survived(world, profile, is_testbed, middle, wants, seed)?;
        }
        if holds { high = middle } else { low = middle }
    }
    Ok(high)
}

fn is_survived(
    world: &World,
    profile: &'static str,
    is_testbed: bool,
    kib: usize,
    wants: &[Want],
    seed: u64,
) -> io::Result<bool> {
    let mut trial =
        Trial::new(world, crate::random::Random::new(seed), world.folder.join("smallest"));
    trial.profile = profile;
    trial.is_testbed = is_testbed;
    std::fs::create_dir_all(&trial.folder)?;
    let mut daemon = limited(&mut trial, kib)?;
    trial.ask(&mut daemon, "version", &json!([]), Expect::Anything);
    for &what in wants {
        want(&mut trial, &mut daemon, what);
        daemon.pump(trial.hang(), |daemon| daemon.ledger.is_settled() || daemon.ended.is_some());
    }
    trial.close_stdin(&mut daemon);
    trial.finish(&mut daemon, &Ending::complete());
    Ok(trial.complaints.is_empty())
}
