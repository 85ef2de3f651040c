//! A recorded session, for the commands that play one of its sides.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use duet_rpc_trace::{Dir, Header, Script};

use super::trace::diff::open;
use super::trace::input::{Item, Stop, TraceSource, name};

/// A trace in memory.
pub(super) struct PlayedTrace {
    /// The file, with all of its parts.
    pub(super) bytes: Arc<[u8]>,
    /// The header of the first part.
    pub(super) header: Header,
    pub(super) script: Arc<Script>,
    /// What the user should know about the trace.
    pub(super) warnings: Vec<String>,
}

/// Reads a trace, and checks that this side can be played.
pub(super) fn read(path: &Path, played: Dir) -> Result<PlayedTrace, Stop> {
    let mut bytes = Vec::new();
    let mut file = open(path)?;
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .map_err(|error| Stop::reading(path, &error))?;
    let (mut script, mut header) = (Script::new(), None);
    TraceSource::new(path, &bytes[..]).read_all(&mut |item| {
        match item {
            Item::Header(found) => {
                header.get_or_insert_with(|| found.clone());
            }
            Item::Record(record, _) => script.handle(record),
        }
        Ok(())
    })?;
    let name = name(path);
    script.check(played).map_err(|error| Stop::Input(format!("{name}: {error}")))?;
    let warnings = warnings(&script, played);
    let warnings = warnings.into_iter().map(|text| format!("{name}: {text}")).collect();
    let header = header.unwrap_or_default();
    Ok(PlayedTrace { bytes: bytes.into(), header, script: Arc::new(script), warnings })
}

fn warnings(script: &Script, played: Dir) -> Vec<String> {
    let (other, whose, others) = match played {
        Dir::C2s => (Dir::S2c, "client", "server"),
        _ => (Dir::C2s, "server", "client"),
    };
    let mut warnings = Vec::new();
    if !script.has_end() {
        warnings
            .push("the recording has no end: its recorder still runs, or was killed".to_owned());
    }
    match script.lost(other) {
        0 => {}
        lost => warnings.push(format!("{lost} bytes of the {others} were not recorded")),
    }
    match script.stray(played) {
        0 => {}
        stray => warnings
            .push(format!("{stray} records of the {whose} are not messages, and are not sent")),
    }
    match script.redacted() {
        0 => {}
        redacted => warnings.push(format!(
            "values were redacted in {redacted} messages: they match any value, and are sent as [redacted]"
        )),
    }
    warnings
}
