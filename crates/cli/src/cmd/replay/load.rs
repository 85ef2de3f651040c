//! Many replays at the same time: a load test.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::rc::Rc;
use std::time::{Duration, Instant};

use duet_rpc_trace::{Stats, shown_time};
use serde_json::json;
use tokio::task::LocalSet;

use super::report::{counts, first_difference};
use super::{ReplayResult, Setup, compare, session, trouble};
use crate::args::ReplayFormat;
use crate::cmd::ci_report::xml;
use crate::cmd::stderr::Stderr;
use crate::cmd::trace::stats::{as_json, method_table};
use crate::exit::{Exit, Problem};
use crate::sys::{Interruption, Interruptions};

/// The shortest time between two pictures of the progress bar.
const REDRAW: Duration = Duration::from_millis(100);

/// The cells of the progress bar, and of the longest bar of the plot.
const BAR: usize = 30;
const PLOT: u64 = 40;

/// Kinds of failures that are counted, and those that are listed.
const KINDS: usize = 1_000;
const SHOWN: usize = 5;

/// The sum of all sessions.
#[derive(Default)]
struct Totals {
    stats: Stats,
    same: u64,
    different: u64,
    failed: u64,
    failures: Vec<FailureKind>,
    /// The exit code of the first failure.
    exit: Option<Exit>,
}

/// Sessions that failed, or differ, in the same way.
struct FailureKind {
    message: String,
    /// The values of the first of them.
    example: Option<String>,
    count: u64,
}

/// Plays the sessions, and prints the figures.
pub(super) async fn run(
    setup: &Rc<Setup>,
    stderr: &Stderr,
    interruptions: &mut Interruptions,
) -> Result<Exit, Interruption> {
    let (copies, repeat) = (setup.args.copies.unwrap_or(1), setup.args.repeat.unwrap_or(1));
    let all = u64::from(copies) * u64::from(repeat);
    let begun = Instant::now();
    let totals = Rc::new(RefCell::new(Totals::default()));
    let bar = Rc::new(ProgressBar::new(all));
    let clients = LocalSet::new();
    for _ in 0..copies {
        let (setup, totals, bar) = (Rc::clone(setup), Rc::clone(&totals), Rc::clone(&bar));
        clients.spawn_local(async move {
            for _ in 0..repeat {
                let played = play_one(&setup).await;
                totals.borrow_mut().add(played);
                bar.step();
            }
        });
    }
    let done = interruptions.or(clients).await;
    bar.clear();
    done?;
    let totals = totals.take();
    let seconds = begun.elapsed().as_secs_f64();
    let different = totals.different;
    let text = match setup.args.format {
        ReplayFormat::Text => totals.text(all, copies, seconds),
        ReplayFormat::Json => totals.json(all, copies, seconds),
        ReplayFormat::Junit => totals.junit(&setup.args.file.display().to_string()),
    };
    stderr.flush();
    let exit = match totals.exit {
        Some(exit) => exit,
        None if different > 0 => Exit::Failed,
        None => Exit::Success,
    };
    Ok(super::print(&text, exit))
}

/// Plays one session, and compares it.
async fn play_one(setup: &Setup) -> Result<(ReplayResult, Option<Stats>), Problem> {
    let played = session(setup, setup.replay.again(), false, true, |_| {}).await?;
    let (trouble, duration) = (trouble(setup, &played), played.duration);
    let (bytes, stats) = played.compared.finish(duration);
    let differences = compare(&setup.recording.bytes, &bytes, &setup.diff);
    let differences = differences.map_err(|message| Problem { exit: Exit::Failed, message })?;
    Ok((ReplayResult { differences, trouble, duration }, stats))
}

impl Totals {
    fn add(&mut self, played: Result<(ReplayResult, Option<Stats>), Problem>) {
        let (verdict, stats) = match played {
            Ok(played) => played,
            Err(problem) => return self.fail(problem),
        };
        if let Some(mut stats) = stats {
            stats.finish();
            self.stats.merge(&stats);
        }
        match (verdict.exit(), verdict.trouble) {
            (Exit::Success, _) => self.same += 1,
            (_, Some(problem)) => self.fail(problem),
            (_, None) => {
                self.different += 1;
                let summary = counts(&verdict.differences).summary(true);
                let (place, example) = match first_difference(&verdict.differences) {
                    Some((place, example)) => {
                        (format!("; first {place}"), Some(example).filter(|it| !it.is_empty()))
                    }
                    None => (String::new(), None),
                };
                self.note(format!("different: {summary}{place}"), example);
            }
        }
    }

    fn fail(&mut self, problem: Problem) {
        self.failed += 1;
        self.exit.get_or_insert(problem.exit);
        self.note(problem.message, None);
    }

    fn note(&mut self, message: String, example: Option<String>) {
        if let Some(kind) = self.failures.iter_mut().find(|it| it.message == message) {
            kind.count += 1;
        } else if self.failures.len() < KINDS {
            self.failures.push(FailureKind { message, example, count: 1 });
        }
    }

    fn text(&self, all: u64, copies: u32, seconds: f64) -> String {
        let Totals { same, different, failed, .. } = self;
        let messages = self.stats.messages();
        let rate = |count: u64| count as f64 / seconds.max(0.001);
        let (sessions_rate, messages_rate) = (rate(all), rate(messages));
        let mut out = format!(
            "{all} sessions of {copies} clients in {seconds:.1} s: {same} same, {different} different, \
             {failed} failed\n{messages} messages; {sessions_rate:.1} sessions/s, {messages_rate:.1} messages/s\n"
        );
        for FailureKind { message, example, count } in self.failures.iter().take(SHOWN) {
            // Writing to a string does not fail.
            let _ = writeln!(out, "  {count} × {message}");
            if let Some(example) = example {
                let _ = writeln!(out, "        {example}");
            }
        }
        if self.failures.len() > SHOWN {
            let _ = writeln!(out, "  and {} other kinds", self.failures.len() - SHOWN);
        }
        out += "\n";
        out += &method_table(&self.stats);
        let rows = self.stats.distribution();
        let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0);
        if most > 0 {
            out += "\nlatency of answers\n";
        }
        for (end, count) in rows {
            let eighths = usize::try_from(count * PLOT * 8 / most.max(1)).unwrap_or(0);
            let (whole, part) = (eighths / 8, eighths % 8);
            let mut line = "█".repeat(whole);
            line += ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][part];
            if count > 0 && eighths == 0 {
                line.push('▏');
            }
            let _ = writeln!(out, "  up to {:>8}  {line} {count}", shown_time(end));
        }
        out
    }

    fn json(&self, all: u64, copies: u32, seconds: f64) -> String {
        let mut stats: serde_json::Value =
            serde_json::from_str(&as_json(&self.stats)).unwrap_or_default();
        // The sum of many sessions has no duration of its own.
        stats["duration"] = ((seconds * 1e6) as u64).into();
        let failures: Vec<_> = self
            .failures
            .iter()
            .map(|FailureKind { message, example, count }| {
                json!({"message": message, "example": example, "count": count})
            })
            .collect();
        let latency: Vec<_> = self
            .stats
            .distribution()
            .into_iter()
            .map(|(end, count)| json!({"up_to": end, "count": count}))
            .collect();
        let whole = json!({
            "sessions": all, "copies": copies, "seconds": seconds, "same": self.same,
            "different": self.different, "failed": self.failed, "failures": failures,
            "latency": latency, "stats": stats,
        });
        format!("{whole}\n")
    }

    fn junit(&self, file: &str) -> String {
        let failures = self.failures.len();
        let tests = failures + usize::from(self.same > 0);
        let file = xml(file);
        let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"0\"");
        let mut out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"{file}\" {counts}>\n"
        );
        for FailureKind { message, example, count } in &self.failures {
            let (message, example) = (xml(message), xml(example.as_deref().unwrap_or_default()));
            let _ = writeln!(
                out,
                "    <testcase classname=\"{file}\" name=\"{count} sessions\">\n      <failure message=\"{message}\">{example}</failure>\n    </testcase>"
            );
        }
        if self.same > 0 {
            let same = self.same;
            let _ = writeln!(out, "    <testcase classname=\"{file}\" name=\"{same} sessions\"/>");
        }
        out + "  </testsuite>\n</testsuites>\n"
    }
}

/// A progress bar on stderr, if that is a terminal.
struct ProgressBar {
    all: u64,
    done: Cell<u64>,
    begun: Instant,
    drawn: Cell<Option<Instant>>,
    is_shown: bool,
}

impl ProgressBar {
    fn new(all: u64) -> Self {
        let is_shown = io::stderr().is_terminal();
        ProgressBar {
            all,
            done: Cell::new(0),
            begun: Instant::now(),
            drawn: Cell::new(None),
            is_shown,
        }
    }

    fn step(&self) {
        self.done.set(self.done.get() + 1);
        let is_due = self.drawn.get().is_none_or(|drawn| drawn.elapsed() >= REDRAW);
        if !self.is_shown || !is_due {
            return;
        }
        self.drawn.set(Some(Instant::now()));
        let (done, all) = (self.done.get(), self.all);
        let seconds = self.begun.elapsed().as_secs_f64();
        let cells = usize::try_from(done * BAR as u64 / all.max(1)).unwrap_or(0).min(BAR);
        let bar = "━".repeat(cells) + &"─".repeat(BAR - cells);
        let line = format!("\r{bar} {done}/{all} sessions, {seconds:.0} s\x1b[K");
        // Nobody needs the picture.
        let _ = io::stderr().write_all(line.as_bytes());
    }

    fn clear(&self) {
        if self.drawn.get().is_some() {
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }
}
