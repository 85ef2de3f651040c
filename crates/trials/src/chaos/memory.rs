//! Limits on memory, threads and descriptors, and a remote that demands much of each (F3, L7, L8).
//!
//! The limit is on the address space (`ulimit -v`). A daemon takes more of it than it uses: thread stacks,
//! libraries, the allocator's reserve. glibc reserves 64 MiB for each allocating thread unless configured
//! otherwise, as here.

use super::prelude::*;

pub(super) const KINDS: &[Kind] = &[
    // The daemon reports that it cannot start, or serves normally.
    ("memory-little", |t| {
        t.is_testbed = false;
        let kib = 3_000 + t.random.below(40_000 + program_kib());
        start_limited(t, kib)?.messages(10).close_stdin();
        if kib >= LITTLE + program_kib() {
            return t.finish(complete());
        }
        t.excused.extend(WITHOUT_MEMORY);
        t.may_say_nothing = true;
        // With almost no memory, the system cannot even load the program.
        let signals = [Signal::ABORT, Signal::SEGV, Signal::KILL];
        t.finish(Ending::code(0).or(1).or(127).or_by(&signals))?;
        t.check_served_or_told()
    }),
    // With enough memory, the daemon survives any demand of a remote.
    ("memory-hostile", |t| {
        t.is_testbed = false;
        for _ in 0..1 + start_limited(t, ENOUGH + program_kib())?.random.below(4) {
            let what = *t.random.pick(&WANTS);
            want(t, what);
            if t.random.once_in(2) {
                t.settle();
            }
        }
        t.close_stdin().finish(complete())
    }),
    // Handlers that occupy the maximum number of threads.
    ("memory-threads", |t| {
        for _ in
            0..1 + start_limited(t.testbed(), ENOUGH_FOR_THREADS + program_kib())?.random.below(3)
        {
            want(t, THREADS);
            let what = *t.random.pick(&WANTS);
            want(t, what);
        }
        t.close_stdin().finish(complete())
    }),
    // The daemon serves with few descriptors, or reports that they are too few to start.
    ("files-few", |t| {
        let is_enough = t.random.once_in(2);
        let most = match is_enough {
            true => ENOUGH_FILES + t.random.below(8),
            false => 3 + t.random.below(ENOUGH_FILES - 3),
        };
        t.tell(format_args!("at most {most} descriptors")).limit("-n", most + inherited());
        t.start()?.messages(10).close_stdin();
        if is_enough {
            return t.finish(complete());
        }
        t.may_say.push("error while loading shared libraries");
        t.finish(Ending::code(0).or(1).or(127))?;
        t.check_served_or_told()
    }),
];

/// KiB beside the program with which every profile serves any input.
const ENOUGH: usize = 64 * 1024;
/// KiB for the same with handlers that occupy a thread each, 32 at most.
const ENOUGH_FOR_THREADS: usize = 192 * 1024;
/// Descriptors with which every profile serves.
const ENOUGH_FILES: usize = 18;
/// Below this, beside the program, a lack of memory may show only while serving.
const LITTLE: usize = 32 * 1024;
/// Messages of the loader and of Rust about a lack of memory; no other code can report it then.
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

/// A memory demand of a remote: its name, and a function that sends the requests and expects their answers.
type Want = (&'static str, fn(&mut Trial<'_>));

const WANTS: [Want; 6] = [
    // Announced lengths without bodies.
    ("Announced", |t| {
        for _ in 0..20 {
            let bytes: &[u8] = match t.profile.framing() {
                Framing::Lsp => b"Content-Length: 4000000000\r\n\r\n{",
                Framing::Length => b"\0\xff\xff\xff{",
                // Lines announce no length; each line is a fault by itself.
                _ => b"{\n",
            };
            t.daemon().send(bytes);
            t.daemon().link.ledger.expect_fault();
            // Bytes after a fault may belong to it, but this request does not.
            t.ask_many(1, "version");
        }
    }),
    // Messages of the maximum length.
    ("Long", |t| {
        let params = json!(["x".repeat(limit(t) - 200)]);
        (0..3).for_each(|_| _ = t.ask("version", &params, Outcome::Any));
    }),
    // Longer messages.
    ("TooLong", |t| {
        let head = r#"{"jsonrpc":"2.0","id":1,"method":""#;
        let text = format!(r#"{head}{}"}}"#, "x".repeat(limit(t)));
        t.daemon().say(&text);
        t.daemon().link.ledger.expect_fault();
    }),
    // Many requests together.
    ("Many", |t| _ = t.ask_many(3_000, "version")),
    // Maximum number of brackets.
    ("Deep", |t| {
        let text = "[".repeat(limit(t) - 2);
        t.daemon().say(&text);
        t.daemon().link.ledger.expect_fault();
    }),
    // Large answers that stay unread for a while.
    ("Unread", |t| {
        t.leave_stdout(true).ask_many(3_000, "describeMethods").run_for(50).leave_stdout(false);
    }),
];

/// Handlers that occupy a thread each; only the test bed has some.
const THREADS: Want = ("Threads", |t| (0..40).for_each(|_| _ = t.ask_slow("test.block", 5)));

/// Maximum message size of the profile.
fn limit(t: &Trial<'_>) -> usize {
    if t.profile == Profile::Editor { 10 << 20 } else { 1 << 20 }
}

/// Makes this demand, and one more request.
fn want(t: &mut Trial<'_>, (name, act): Want) {
    act(t.tell(name));
    t.ask_many(1, "version");
}

/// The size of the program, which is part of its address space. Without optimisation, it is most of it.
fn program_kib() -> usize {
    let size = fs::metadata(programs::duet_rpc()).map_or(0, |it| it.len());
    usize::try_from(size / 1024).unwrap_or(0)
}

/// Starts a daemon with this memory limit in KiB.
fn start_limited<'a, 'w>(t: &'a mut Trial<'w>, kib: usize) -> io::Result<&'a mut Trial<'w>> {
    // On a slow machine, building the next long message may take longer than the read timeout.
    t.with(&["--read-timeout", "600"]).env("MALLOC_ARENA_MAX", "1");
    t.limit("-v", kib).start()
}

/// Counts the descriptors that every child of this process inherits besides its standard ones. Descriptors
/// above every limit used here do not count.
fn inherited() -> usize {
    const CLOEXEC: u32 = 0o2_000_000;
    let is_inherited = |entry: &fs::DirEntry| {
        let number: Option<usize> = entry.file_name().to_str().and_then(|it| it.parse().ok());
        let flags = proc::field(entry.path(), "flags");
        let flags = flags.and_then(|flags| u32::from_str_radix(&flags, 8).ok());
        number.is_some_and(|it| (3..2 * ENOUGH_FILES).contains(&it))
            && flags.is_some_and(|flags| flags & CLOEXEC == 0)
    };
    let all = fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
    all.filter(is_inherited).count()
}

/// Finds the smallest limits with which each profile serves, idle and under each demand.
pub(super) fn smallest(world: &World) -> io::Result<()> {
    for &profile in Profile::value_variants() {
        let search = |is_testbed: bool, wants: &[Want]| search(world, profile, is_testbed, wants);
        let mut text = format!("{profile:8} serves with {} KiB", search(false, &[])?);
        for what in WANTS {
            text.push_str(&format!(", {} {}", what.0, search(false, &[what])?));
        }
        let (all, threads) = (search(false, &WANTS)?, search(true, &[THREADS])?);
        say(format_args!("{text}, all of them {all}, Threads {threads}"));
    }
    Ok(())
}

/// Finds the smallest limit, to 64 KiB, with which these demands are survived three times.
fn search(world: &World, profile: Profile, is_testbed: bool, wants: &[Want]) -> io::Result<usize> {
    let (mut low, mut high) = (2 * 1024, 512 * 1024);
    while high - low > 64 {
        let middle = (low + high) / 2;
        let mut holds = true;
        for seed in 0..3 {
            let folder = world.folder.path().join("smallest");
            fs::create_dir_all(&folder)?;
            let mut t = Trial::new(world, Random::new(seed), folder);
            (t.profile, t.is_testbed) = (profile, is_testbed);
            holds = holds && is_survived(&mut t, middle, wants)?;
        }
        if holds { high = middle } else { low = middle }
    }
    Ok(high)
}

fn is_survived(t: &mut Trial<'_>, kib: usize, wants: &[Want]) -> io::Result<bool> {
    start_limited(t, kib)?.ask_many(1, "version");
    for &what in wants {
        want(t, what);
        t.wait(|daemon| daemon.is_settled() || daemon.has_ended());
    }
    t.close_stdin().finish(complete())?;
    Ok(t.life.complaints.is_empty())
}
