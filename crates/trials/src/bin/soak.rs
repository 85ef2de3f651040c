//! `soak`: one daemon under a random mix of all that clients do. See its usage.

use std::io::Write;
use std::process::ExitCode;

use duet_rpc_trials::soak::{self, flags};

fn main() -> ExitCode {
    let flags: Vec<_> = std::env::args().skip(1).collect();
    if flags.iter().any(|flag| flag == "--help" || flag == "-h") {
        say(flags::USAGE);
        return ExitCode::SUCCESS;
    }
    let plan = match flags::read(flags) {
        Ok(plan) => plan,
        Err(why) => {
            eprintln!("soak: {why}\n\n{}", flags::USAGE);
            return ExitCode::from(2);
        }
    };
    match soak::run(&plan) {
        Ok(report) => {
            say(&report.to_string());
            say("all held");
            ExitCode::SUCCESS
        }
        Err(broken) => {
            eprintln!("seed {}, {} over {}: {broken}", plan.seed, plan.profile, plan.over);
            ExitCode::FAILURE
        }
    }
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
