//! `trace convert`: formats of other tools.

use std::fs::File;
use std::io::{BufRead, BufReader};

use duet_rpc_trace::{ExportFormat, Exporter, ImportError, ImportFormat, import};

use super::chosen::Chosen;
use super::input::{Item, Stop, conclude, flush, for_each, is_stdin, name, output};
use crate::args::ConvertArgs;
use crate::console;
use crate::exit::Exit;

/// Writes the converted trace to stdout.
pub(super) fn run(args: &ConvertArgs) -> Exit {
    let converted = match (args.to, args.from) {
        (Some(to), _) => export(args, to),
        (None, Some(from)) => import_log(args, from),
        (None, None) => Ok(()),
    };
    conclude(converted.map(|()| Exit::Success))
}

fn export(args: &ConvertArgs, format: ExportFormat) -> Result<(), Stop> {
    let mut chosen = Chosen::twice(&args.file, &args.filter, args.slow, false)?;
    let mut exporter = Exporter::new(format, output()?);
    for_each(&args.file, |item| {
        match item {
            Item::Header(header) => exporter.header(header),
            Item::Record(record, _) => {
                let (_, is_shown) = chosen.judge(record);
                exporter.record(record, is_shown)
            }
        }
        .map_err(Stop::Writing)
    })?;
    let omitted = exporter.finish().map_err(Stop::Writing)?;
    if !omitted.is_empty() {
        let kinds: Vec<_> = omitted.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        console::say(format_args!("records without a place in this format: {}", kinds.join(", ")));
    }
    Ok(())
}

fn import_log(args: &ConvertArgs, format: ImportFormat) -> Result<(), Stop> {
    let input: Box<dyn BufRead> = if is_stdin(&args.file) {
        let input = console::stdin().map_err(|error| Stop::reading(&args.file, &error))?;
        Box::new(input.lock())
    } else {
        let file = File::open(&args.file).map_err(|error| Stop::reading(&args.file, &error))?;
        Box::new(BufReader::new(file))
    };
    let mut output = output()?;
    import(format, input, &mut output).map_err(|error| match error {
        ImportError::Write(error) => Stop::Writing(error),
        ImportError::Read(error) => Stop::reading(&args.file, &error),
        error => Stop::Input(format!("{}: {error}", name(&args.file))),
    })?;
    flush(&mut output)
}
