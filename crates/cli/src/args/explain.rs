//! The options of `explain`.

use std::ffi::OsStr;

use clap::builder::{EnumValueParser, PossibleValue, StyledStr, TypedValueParser};
use clap::error::{ContextKind, ContextValue};

use super::FramingName;

/// Explain a recorded stream, message by message
///
/// Reads the stream from stdin. Prints the place, the method, the id and the shape of each message, the code and
/// message of each error, each fault with its reason, and the answer that it would get. Prints no params, no results
/// and no stray bytes, so the output is safe for a bug report.
///
/// Positions count from byte 0 of the stream, and include headers. The exit code is 0, whatever the stream has;
/// with `--check` it is 1 if there is a fault or an invalid message.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// Framing of the stream
    #[arg(value_name = "FRAMING", default_value = "auto", value_parser = FramingOrFile)]
    pub(crate) framing: FramingName,
    /// Show params, results, the data of errors and stray bytes too, each on a line of its own
    #[arg(long)]
    pub(crate) show_params: bool,
    /// Exit with 1 if there is a fault or an invalid message
    #[arg(long)]
    pub(crate) check: bool,
}

/// Reads a framing, and tells a user who gives the name of a file how to read it.
#[derive(Clone)]
struct FramingOrFile;

impl TypedValueParser for FramingOrFile {
    type Value = FramingName;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<FramingName, clap::Error> {
        EnumValueParser::new().parse_ref(command, arg, value).map_err(|mut error| {
            let tip = StyledStr::from("to explain a file, use `duet-rpc explain < FILE`");
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values: Vec<_> = EnumValueParser::<FramingName>::new().possible_values()?.collect();
        Some(Box::new(values.into_iter()))
    }
}
