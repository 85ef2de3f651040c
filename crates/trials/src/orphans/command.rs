//! The command line of `orphans`.

use std::io::{self, Write};
use std::process::ExitCode;

use super::{Options, run};

const USAGE: &str = "\
Starts many servers that start other processes, each with `duet-rpc call`, ends half of the calls with
signals, and looks whether a process is left behind.

Usage: orphans [--lives N] [--seed N] [--jobs N]

  --lives N   how many calls are made (100)
  --seed N    what all that is random comes from (1)
  --jobs N    how many calls are made at the same time (8)
";

/// Does what these words say: 0 if nothing is left behind, 1 if something is, 2 for bad words.
pub fn main(words: impl IntoIterator<Item = String>) -> ExitCode {
    let options = match parse(words) {
        Ok(Some(options)) => options,
        Ok(None) => {
            let _ = io::stdout().write_all(USAGE.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            let _ = write!(io::stderr(), "orphans: {problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(report) => {
            let mut out = io::stdout().lock();
            for complaint in &report.complaints {
                let _ = writeln!(out, "{complaint}");
            }
            let (lives, signalled) = (report.lives, report.signalled);
            let failed = report.complaints.len();
            let _ = writeln!(
                out,
                "{lives} calls, {signalled} of them ended by a signal: {failed} left processes behind"
            );
            if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(problem) => {
            let _ = writeln!(io::stderr(), "orphans: {problem}");
            ExitCode::from(2)
        }
    }
}

/// `None` for help.
fn parse(words: impl IntoIterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options::default();
    let mut words = words.into_iter();
    while let Some(flag) = words.next() {
        if flag == "--help" || flag == "-h" {
            return Ok(None);
        }
        let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let number: usize = value.parse().map_err(|_| format!("{flag} {value} is not a number"))?;
        match &*flag {
            "--lives" => options.lives = number,
            "--seed" => options.seed = number as u64,
            "--jobs" => options.jobs = number,
            _ => return Err(format!("there is no flag {flag}")),
        }
    }
    Ok(Some(options))
}
