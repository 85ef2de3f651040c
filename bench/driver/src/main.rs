//! Benchmark driver: measures our server, servers on other stacks and the bare loop in alternation,
//! over stdio and over sockets.
//!
//! `bench/run` builds all of them, runs this, and writes the tables and charts into `docs/`.

mod connections;
mod contenders;
mod curves;
mod drive;
mod figures;

mod load;
mod payload;
mod report;

mod server;
mod sockets;
mod startup;
mod system_calls;
mod table;
mod web;
mod wire;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use figures::Figures;
use load::Load;
use server::{Contender, Pinning};

/// Measure JSON-RPC servers in alternation.
#[derive(Parser)]
#[command(args_override_self = true)] // bench/run passes its own defaults first
struct Arguments {
    /// Parts to measure; the others keep the figures of the last run.
    #[arg(value_enum, default_values_t = ALL_PARTS)]
    parts: Vec<Part>,
    /// Number of rounds in which the servers take turns.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Time per server and round, in milliseconds.
    #[arg(long, default_value_t = 100)]
    slice: u64,
    /// Only the bare loop, and servers whose name contains one of these.
    #[arg(long)]
    only: Vec<String>,
    /// Only listening servers over these transports: tcp, websocket, http.
    #[arg(long)]
    over: Vec<String>,
    /// Only loads whose name contains one of these.
    #[arg(long)]
    load: Vec<String>,
    /// Only on these cores.
    #[arg(long, value_enum, alias = "place")]
    cores: Option<Pinning>,
    /// Age of the process at the end of the age curve, in millions of messages.
    #[arg(long, default_value_t = 100)]
    age: u64,
    /// File with the figures.
    #[arg(long, default_value = "target/figures.json")]
    figures: PathBuf,
    /// Folder with PERFORMANCE.md, which receives the report.
    #[arg(long, default_value = "../docs")]
    docs: PathBuf,
    /// Folder of this benchmark.
    #[arg(long, default_value = ".")]
    bench: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Round trips and pipelines of all sizes.
    Table,
    /// Time to the first answer, and memory.
    #[value(alias = "lives")]
    Startup,
    /// System calls per message (needs strace).
    Calls,
    /// Cost against size, pending calls and age.
    Curves,
    /// The table, system calls, and many connections, over sockets.
    Sockets,
    /// Tables and charts of the figures, in the documents.
    Report,
}

const ALL_PARTS: [Part; 6] =
    [Part::Table, Part::Startup, Part::Calls, Part::Curves, Part::Sockets, Part::Report];

impl Part {
    /// Returns true if it needs no server on stdin and stdout.
    fn is_of_sockets(&self) -> bool {
        matches!(self, Part::Sockets | Part::Report)
    }
}

/// Over stdin and stdout, every server takes every load.
fn all(_: &Contender, _: Load) -> bool {
    true
}

/// Number of rounds, and time per round.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    slice: Duration,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the benchmark failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<()> {
    let mut figures = read(&arguments.figures)?;
    // A report needs no servers, and lists the servers that were skipped when the figures were
    // taken.
    if arguments.parts.iter().all(|part| *part == Part::Report) {
        return report::write(&figures, &arguments.docs);
    }
    let contenders = match arguments.parts.iter().all(Part::is_of_sockets) {
        true => Vec::new(),
        false => contenders::find(&arguments.bench, &arguments.only, &mut figures.skipped)?,
    };
    let is_wanted = |load: &Load| {
        let name = load.to_string();
        arguments.load.is_empty() || arguments.load.iter().any(|l| name.contains(l))
    };
    let effort = Effort { rounds: arguments.rounds, slice: Duration::from_millis(arguments.slice) };
    server::pin_driver();
    for part in &arguments.parts {
        match part {
            Part::Table => {
                let loads: Vec<_> = load::TABLE.into_iter().filter(is_wanted).collect();
                figures.rows.clear();
                figures.peaks.clear();
                for cores in [Pinning::OneCore, Pinning::TwoCores] {
                    if arguments.cores.is_none_or(|only| only == cores) {
                        table::measure(&contenders, &loads, all, cores, effort, &mut figures)?;
                    }
                }
            }
            Part::Startup => figures.startups = startup::measure(&contenders, effort)?,
            Part::Calls => figures.system_calls = system_calls::measure(&contenders, all)?,
            Part::Curves => figures.curves = curves::measure(&contenders, effort, arguments.age)?,
            Part::Sockets => {
                let mut of_sockets = Figures::default();
                let skipped = &mut of_sockets.skipped;
                let mut contenders =
                    contenders::find_listening(&arguments.bench, &arguments.only, skipped)?;
                let over = &arguments.over;
                contenders.retain(|contender| {
                    let transport = contender.framing.transport();
                    over.is_empty()
                        || contender.name == contenders::LIMIT
                        || over.iter().any(|name| name == transport)
                });
                let loads: Vec<_> = sockets::loads().filter(is_wanted).collect();
                sockets::measure(contenders, &loads, arguments.cores, effort, &mut of_sockets)?;
                figures.sockets = Some(Box::new(of_sockets));
            }
            Part::Report => report::write(&figures, &arguments.docs)?,
        }
        // Keep the measured figures, even if a later part fails.
        fs::write(&arguments.figures, serde_json::to_vec_pretty(&figures)?)?;
    }
    Ok(())
}

fn read(path: &Path) -> io::Result<Figures> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Figures::default()),
        Err(error) => Err(error),
    }
}
