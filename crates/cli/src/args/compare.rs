//! The options of a comparison: those of `replay` and `trace diff`.

use duet_rpc_trace::{DiffOptions, Pointer};

use super::trace::{pointer, time};

/// Differences that do not count.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Comparison")]
pub(crate) struct CompareArgs {
    /// Ignore the value at a JSON pointer such as /result/pid; `*` stands for any step
    #[arg(long, value_name = "POINTER", value_parser = pointer)]
    pub(crate) ignore: Vec<Pointer>,
    /// Ignore a method; `*` stands for any text
    #[arg(long, value_name = "METHOD")]
    pub(crate) ignore_method: Vec<String>,
    /// Ignore the order of messages
    #[arg(long)]
    pub(crate) unordered: bool,
    /// Report answers that took longer than before, by more than this time, such as 200ms
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) tolerance: Option<u64>,
}

impl CompareArgs {
    /// The settings of the comparison.
    pub(crate) fn options(&self) -> DiffOptions {
        let mut options = DiffOptions::default();
        options.ignore.clone_from(&self.ignore);
        options.ignore_methods.clone_from(&self.ignore_method);
        options.is_unordered = self.unordered;
        options.tolerance = self.tolerance;
        options
    }
}
