//! The options of `chaos`, and the command: it tells of each failure as it happens, and of all at the end.

use super::memory::smallest;
use super::prelude::*;
use super::{kinds, run};

/// Live many short lives of the daemon, ended in every way.
///
/// Exit code: 0 if all is well, 1 if not, 2 for bad options. With CHAOS=required in the environment a kind that
/// lacks a program, such as strace, has failed.
#[derive(Clone, Debug, Parser)]
#[command(name = "chaos")]
pub struct Options {
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of lives; the first are one of each kind
    #[arg(long, default_value_t = 1000)]
    pub lives: usize,
    /// Only the life with this number, to repeat it
    #[arg(long, value_name = "N")]
    pub life: Option<usize>,
    /// Only kinds whose name begins like this
    #[arg(long, value_name = "KIND")]
    pub only: Option<String>,
    /// Allow times that are so many times as long, on a busy machine
    #[arg(long, default_value_t = 1.0, value_parser = patience)]
    pub patience: f64,
    /// Number of lives at the same time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    pub jobs: u64,
    /// This program instead of duet-rpc
    #[arg(long, value_name = "PATH")]
    pub daemon: Option<PathBuf>,
    /// This program instead of testbed
    #[arg(long, value_name = "PATH")]
    pub testbed: Option<PathBuf>,
    /// Find the smallest memory limit with which each profile serves, and do nothing else
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

impl Default for Options {
    fn default() -> Self {
        Options::parse_from(["chaos"])
    }
}

/// Runs the command.
pub fn main() -> ExitCode {
    let options = Options::parse();
    let done = if options.list {
        kinds().into_iter().for_each(say);
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

fn live_all(options: &Options) -> io::Result<bool> {
    let report = run(options, &|life| tell(life, options))?;
    say(&report);
    if report.is_slow(options.patience) {
        say("with nothing in flight, ends take longer than they should");
    }
    Ok(report.is_good(options.patience))
}

/// Tells of a failed life, and how to repeat it; of a single one whatever its outcome.
fn tell(life: &Life, options: &Options) {
    if life.complaints.is_empty() && options.life.is_none() {
        return;
    }
    let mut text = format!("life {} ({})", life.number, life.kind);
    match &life.complaints[..] {
        [] => text.push_str(": all is well\n"),
        complaints => {
            let only = options.only.as_ref().map_or(String::new(), |it| format!(" --only {it}"));
            let again = format!("--seed {} --life {}{only}", options.seed, life.number);
            text.push_str(&format!(" FAILED; to repeat it: scripts/chaos {again}\n"));
            complaints.iter().for_each(|complaint| text.push_str(&format!("  {complaint}\n")));
        }
    }
    life.story.iter().for_each(|step| text.push_str(&format!("    {step}\n")));
    // With one write, because other lives tell too.
    let _ = io::stdout().write_all(text.as_bytes());
}
