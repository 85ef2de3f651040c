//! `trace redact`: replaces secret values in a trace.

use duet_rpc_trace::{Redactions, Writer};

use super::input::{Item, Stop, conclude, for_each, output};
use crate::args::RedactArgs;
use crate::console;
use crate::exit::Exit;

/// Writes the redacted trace to stdout.
pub(super) fn run(args: &RedactArgs) -> Exit {
    match rules(args) {
        Ok(rules) => conclude(redact(args, &rules).map(|()| Exit::Success)),
        Err(why) => {
            console::say(format_args!("cannot redact: {why}"));
            Exit::Usage
        }
    }
}

fn rules(args: &RedactArgs) -> Result<Redactions, duet_rpc_trace::BadRedaction> {
    let mut rules = Redactions::default();
    args.redact.iter().try_for_each(|rule| rules.add(rule))?;
    args.redact_value.iter().try_for_each(|value| rules.add_value(value))?;
    Ok(rules)
}

fn redact(args: &RedactArgs, rules: &Redactions) -> Result<(), Stop> {
    let mut writer = Writer::new(output()?);
    let mut count = 0_u64;
    for_each(&args.file, |item| {
        let written = match item {
            Item::Header(header) => {
                let mut header = header.clone();
                rules.apply_header(&mut header);
                writer.header(&header)
            }
            Item::Record(record, _) => {
                count += u64::from(rules.apply_record(record));
                // The bytes that passed are not in the file any more.
                if let Some(end) = record.end.as_mut().filter(|_| count > 0) {
                    end.lossless = false;
                }
                writer.record(record)
            }
        };
        written.map(drop).map_err(Stop::Writing)
    })?;
    writer.flush().map_err(Stop::Writing)?;
    match count {
        0 => console::say(format_args!(
            "warning: no value was replaced: check the names and the pointers with `duet-rpc trace show --full`"
        )),
        1 => console::say(format_args!("values were replaced in 1 record")),
        _ => console::say(format_args!("values were replaced in {count} records")),
    }
    Ok(())
}
