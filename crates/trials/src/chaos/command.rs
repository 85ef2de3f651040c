//! The options of `chaos`, and its main function: prints each failure immediately, and the report at the end.

use super::memory::smallest;
use super::prelude::*;
use super::{kinds, run};

/// Run many short-lived daemons and end each in another way.
///
/// Exit code: 0 if all passed, 1 if something failed, 2 for bad options. With CHAOS=required in the
/// environment, a kind fails if a program that it needs, such as strace, is missing.
#[derive(Clone, Debug, Parser)]
#[command(name = "chaos")]
pub struct ChaosOptions {
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of lives; the first ones cover each kind once
    #[arg(long, default_value_t = 1000)]
    pub lives: usize,
    /// Run only the life with this number
    #[arg(long, value_name = "N")]
    pub life: Option<usize>,
    /// Run only kinds whose name starts with KIND
    #[arg(long, value_name = "KIND")]
    pub only: Option<String>,
    /// Run each life once alone and once behind `duet-rpc tap`, and compare both
    #[arg(long)]
    pub tap: bool,
    /// Factor for all time limits, for a busy machine
    #[arg(long, default_value_t = 1.0, value_parser = patience)]
    pub patience: f64,
    /// Number of concurrent lives
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    pub jobs: u64,
    /// Program to test instead of duet-rpc
    #[arg(long, value_name = "PATH")]
    pub daemon: Option<PathBuf>,
    /// Program to use instead of testbed
    #[arg(long, value_name = "PATH")]
    pub testbed: Option<PathBuf>,
    /// Find the smallest memory limit at which each profile serves, and exit
    #[arg(long)]
    pub smallest: bool,
    /// Print the kinds
    #[arg(long)]
    pub list: bool,
}

fn patience(text: &str) -> Result<f64, String> {
    let patience = text.parse().ok().filter(|it: &f64| it.is_finite() && *it >= 1.0);
    patience.ok_or_else(|| "not a number of at least 1".to_owned())
}

impl Default for ChaosOptions {
    fn default() -> Self {
        ChaosOptions::parse_from(["chaos"])
    }
}

/// Runs the command.
pub fn main() -> ExitCode {
    let options = ChaosOptions::parse();
    let done = if options.list {
        kinds(options.tap).into_iter().for_each(say);
        Ok(true)
    } else if options.smallest {
        World::new(&options).and_then(|world| smallest(&world)).map(|()| true)
    } else {
        live_all(&options)
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("chaos: {problem}");
            ExitCode::from(2)
        }
    }
}

fn live_all(options: &ChaosOptions) -> io::Result<bool> {
    let report = run(options, &|life| tell(life, options))?;
    say(&report);
    if report.is_slow(options.patience) {
        say("with nothing in flight, ends take longer than they should");
    }
    Ok(report.is_good(options.patience))
}

/// Prints a failed life and the command that repeats it. Prints a single life even if it passed.
fn tell(life: &Life, options: &ChaosOptions) {
    if life.complaints.is_empty() && options.life.is_none() {
        return;
    }
    let mut text = format!("life {} ({})", life.number, life.kind);
    match &life.complaints[..] {
        [] => text.push_str(": passed\n"),
        complaints => {
            let only = options.only.as_ref().map_or(String::new(), |it| format!(" --only {it}"));
            let tap = if options.tap { " --tap" } else { "" };
            let again = format!("--seed {} --life {}{only}{tap}", options.seed, life.number);
            text.push_str(&format!(" FAILED; to repeat it: scripts/chaos {again}\n"));
            complaints.iter().for_each(|complaint| text.push_str(&format!("  {complaint}\n")));
        }
    }
    life.story.iter().for_each(|step| text.push_str(&format!("    {step}\n")));
    // One write, because lives run concurrently.
    let _ = io::stdout().write_all(text.as_bytes());
}
