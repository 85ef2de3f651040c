//! The command: it reads what is wanted, tells of each failure as it happens, and of all at the end.

use std::io::{self, Write};
use std::process::ExitCode;

use super::memory::smallest;
use super::options::{Instead, Options, USAGE};
use super::report::Life;
use super::{World, kinds, run};

/// Does what these words say: 0 if all is well, 1 if not, 2 if they say nothing that makes sense.
pub fn main(words: impl IntoIterator<Item = String>) -> ExitCode {
    let options = match Options::parse(words) {
        Ok(options) => options,
        Err(problem) => {
            let _ = write!(io::stderr(), "chaos: {problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let done = match options.instead {
        Some(Instead::Help) => write!(io::stdout(), "{USAGE}").map(|()| true),
        Some(Instead::List) => list().map(|()| true),
        Some(Instead::Smallest) => World::new(&options).and_then(|world| smallest(&world)),
        None => live_all(&options),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            let _ = writeln!(io::stderr(), "chaos: {problem}");
            ExitCode::from(2)
        }
    }
}

fn list() -> io::Result<()> {
    kinds().iter().try_for_each(|kind| writeln!(io::stdout(), "{}", kind.name))
}

fn live_all(options: &Options) -> io::Result<bool> {
    let report = run(options, &|life| tell(life, options))?;
    writeln!(io::stdout(), "{report}")?;
    if report.is_slow(options.patience) {
        writeln!(io::stdout(), "with nothing in flight, ends take longer than they should")?;
    }
    Ok(report.is_good(options.patience))
}

/// Tells of a life that went wrong, and how to have it again; of one alone whatever it was.
fn tell(life: &Life, options: &Options) {
    if life.complaints.is_empty() && options.life.is_none() {
        return;
    }
    let mut text = format!("life {} ({})", life.number, life.kind);
    match &life.complaints[..] {
        [] => text.push_str(": all is well\n"),
        complaints => {
            text.push_str(&format!(" FAILED; to have it again: {}\n", options.again(life.number)));
            complaints.iter().for_each(|complaint| text.push_str(&format!("  {complaint}\n")));
        }
    }
    life.story.iter().for_each(|step| text.push_str(&format!("    {step}\n")));
    // With one write, as others tell too.
    let _ = io::stdout().write_all(text.as_bytes());
}
