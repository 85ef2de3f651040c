//! The options of `trace`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Subcommand, ValueEnum};
use duet_rpc_trace::{ExportFormat, Filter, ImportFormat, Pointer, Rule, parse_time};

use super::CompareArgs;

/// Read trace files of `duet-rpc tap`
///
/// A trace file has one line of JSON for each message that passed. These commands show it, check it,
/// compare it with another one, and convert it. FILE is a trace file, or `-` for stdin; later parts of a
/// rotated trace are found by their names.
#[derive(Debug, clap::Args)]
#[command(after_help = FILTERS)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    Show(ShowArgs),
    Cat(CatArgs),
    Stats(StatsArgs),
    Check(CheckArgs),
    Diff(DiffArgs),
    Convert(ConvertArgs),
    Redact(RedactArgs),
}

const FILTERS: &str = "\
Filters (--where):
  method:text*         method; * stands for any text
  dir:c2s              direction: c2s, s2c, err, tap
  kind:error           kind: request, notification, response, error, noise, stderr, ...
  id:7                 id
  took:>100ms          time to the answer: us, ms, s, m
  size:>10k            size of the body: k, M, G
  at:<2s  seq:17       time since the start; number of the record
  text:\"foo\"  foo      text in the body
  is:unanswered        pending, late, cancelled, failed, unanswered, noise
  a b   a | b   -a     and, or, not; kind:error|noise; ( ) for groups

Examples:
  duet-rpc trace show session.jsonl --where 'method:textDocument/* took:>100ms'
  duet-rpc trace check session.jsonl --protocol lsp --slow 2s
  duet-rpc trace convert --to har session.jsonl > session.har";

/// Print a timeline of the messages
///
/// One line for each message: number, time, direction, method, id, time to the answer, size and the
/// beginning of the body.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// Trace file; `-` reads stdin
    pub(crate) file: PathBuf,
    /// Records to show
    #[arg(long = "where", value_name = "FILTER", value_parser = filter, default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    pub(crate) filter: Filter,
    /// Print the records as a trace: one line of JSON each
    #[arg(long)]
    pub(crate) json: bool,
    /// Print whole bodies below the lines
    #[arg(long, conflicts_with = "json")]
    pub(crate) full: bool,
    /// Wait for more records at the end of the file, until the trace ends
    ///
    /// A request is then shown before its answer has come, so `took:` and `is:` know only what happened
    /// before.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Time after which an answer is late, such as 500ms
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    pub(crate) slow: u64,
}

/// Print the bytes that passed in one direction
///
/// The output equals the stream, framing included. If the trace does not have all of the bytes, the rest
/// is printed, stderr says what is missing, and the exit code is 1.
#[derive(Debug, clap::Args)]
pub(crate) struct CatArgs {
    /// Direction
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: DirName,
    /// Trace file; `-` reads stdin; later parts of a rotated trace are found by their names
    pub(crate) file: PathBuf,
}

/// Print figures for each method
///
/// The number of messages, errors and unanswered requests, latencies, and bytes. Percentiles are exact to
/// within 1 %.
#[derive(Debug, clap::Args)]
pub(crate) struct StatsArgs {
    /// Trace file; `-` reads stdin
    pub(crate) file: PathBuf,
    /// Records to count
    #[arg(long = "where", value_name = "FILTER", value_parser = filter, default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    pub(crate) filter: Filter,
    /// Time after which an answer is late for `is:late`, such as 500ms
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    pub(crate) slow: u64,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Find faults of the programs in a trace
///
/// Prints each fault with its record. Exits with 0 if there is none, and with 1 if there are any. Faults that the tap made
/// on purpose, with `--fault`, are notes.
#[derive(Debug, clap::Args)]
#[command(after_help = rules())]
pub(crate) struct CheckArgs {
    /// Trace files, or folders with traces; `-` reads stdin
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Check the rules of a protocol too
    #[arg(long, value_name = "PROTOCOL")]
    pub(crate) protocol: Option<ProtocolName>,
    /// Report answers that took longer, such as 500ms [default: none]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) slow: Option<u64>,
    /// Do not check this rule; can be given several times
    #[arg(long, value_name = "RULE", value_parser = rule())]
    pub(crate) allow: Vec<Rule>,
    /// Format of the report
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: ReportFormat,
}

/// Compare two traces
///
/// Requests with their answers, and notifications, are compared pair by pair: params, results and errors.
/// Ids and times do not matter. Exits with 0 if the traces are the same, and with 1 if they differ.
#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    /// Expected trace
    #[arg(value_name = "OLD")]
    pub(crate) first: PathBuf,
    /// Trace to compare with it; `-` reads stdin
    #[arg(value_name = "NEW")]
    pub(crate) second: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) compare: CompareArgs,
}

/// Convert a trace to another format, or a log of another tool to a trace
///
/// The result goes to stdout. stderr says which records have no place in the format.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("format").required(true))]
pub(crate) struct ConvertArgs {
    /// Trace file, or log of another tool; `-` reads stdin
    pub(crate) file: PathBuf,
    /// Format to convert the trace to
    #[arg(long, value_name = "FORMAT", group = "format", value_parser = export_format())]
    pub(crate) to: Option<ExportFormat>,
    /// Format of a log to convert to a trace
    #[arg(long, value_name = "FORMAT", group = "format", value_parser = import_format())]
    pub(crate) from: Option<ImportFormat>,
    /// Records to convert
    #[arg(long = "where", value_name = "FILTER", value_parser = filter, default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    pub(crate) filter: Filter,
    /// Time after which an answer is late for `is:late`, such as 500ms
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    pub(crate) slow: u64,
}

/// Replace secret values in a trace
///
/// The new trace goes to stdout. It says which rules were applied, and is not lossless any more. A rule that matches
/// nothing is not an error, because many traces have no secret; stderr warns if no value was replaced.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("rules").required(true).multiple(true))]
pub(crate) struct RedactArgs {
    /// Trace file; `-` reads stdin
    pub(crate) file: PathBuf,
    /// Replace values: a member's name, or a JSON pointer such as /params/token
    #[arg(long, value_name = "KEY", group = "rules")]
    pub(crate) redact: Vec<String>,
    /// Replace matches of a regular expression
    #[arg(long, value_name = "REGEX", group = "rules")]
    pub(crate) redact_value: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DirName {
    /// From the client to the server
    C2s,
    /// From the server to the client
    S2c,
    /// The server's stderr
    Err,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtocolName {
    /// Language Server Protocol
    Lsp,
    /// Model Context Protocol
    Mcp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Lines for people
    Text,
    /// One JSON object
    Json,
    /// JUnit XML, for test reports
    Junit,
    /// SARIF 2.1.0, for code scanning
    Sarif,
}

fn filter(text: &str) -> Result<Filter, String> {
    Filter::parse(text).map_err(|error| error.to_string())
}

pub(super) fn pointer(text: &str) -> Result<Pointer, String> {
    text.parse()
}

/// Parses a time such as 500ms, in microseconds.
pub(super) fn time(text: &str) -> Result<u64, String> {
    parse_time(text).ok_or_else(|| "expected a time such as 500ms or 2s".to_owned())
}

fn export_format() -> impl TypedValueParser<Value = ExportFormat> {
    let known = |name: String| ExportFormat::ALL.into_iter().find(|it| it.name() == name);
    let value = |it: ExportFormat| PossibleValue::new(it.name()).help(it.summary());
    PossibleValuesParser::new(ExportFormat::ALL.map(value))
        .try_map(move |name| known(name).ok_or("not a format"))
}

fn import_format() -> impl TypedValueParser<Value = ImportFormat> {
    let known = |name: String| ImportFormat::ALL.into_iter().find(|it| it.name() == name);
    let value = |it: ImportFormat| PossibleValue::new(it.name()).help(it.summary());
    PossibleValuesParser::new(ImportFormat::ALL.map(value))
        .try_map(move |name| known(name).ok_or("not a format"))
}

fn rule() -> impl TypedValueParser<Value = Rule> {
    let known = |name: String| Rule::from_name(&name).ok_or("not a rule");
    PossibleValuesParser::new(Rule::ALL.map(Rule::name)).try_map(known)
}

/// The table of rules for the help.
fn rules() -> String {
    let row = |rule: Rule| format!("  {:26}{}\n", rule.name(), rule.summary());
    let rows: String = Rule::ALL.into_iter().map(row).collect();
    format!("Rules:\n{}", rows.trim_end())
}
