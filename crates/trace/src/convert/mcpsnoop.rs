//! Session logs of mcpsnoop: one JSON object per line.

use std::borrow::Cow;
use std::io::{BufRead, Write};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::import::{ImportError, LogLines, Maker, reason};
use crate::header::Header;
use crate::record::Dir;
use crate::time::Timestamp;
use crate::wire::Wire;

#[derive(Deserialize)]
struct SnoopLine<'a> {
    #[serde(borrow, default)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    ts: Cow<'a, str>,
    #[serde(borrow)]
    direction: Cow<'a, str>,
    #[serde(borrow)]
    raw: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

/// The `raw` of an envelope with the direction `meta`.
#[derive(Default, Deserialize)]
struct Meta {
    #[serde(default)]
    command: Vec<String>,
    cwd: Option<String>,
}

pub(super) fn import<R: BufRead, W: Write>(
    lines: &mut LogLines<R>,
    maker: &mut Maker<W>,
) -> Result<(), ImportError> {
    while let Some(line) = lines.next_filled()? {
        let envelope: SnoopLine<'_> = serde_json::from_str(&line).map_err(|error| {
            lines.error(format!("expected an object with ts and direction: {}", reason(&error)))
        })?;
        let time = Timestamp::parse(&envelope.ts)
            .ok_or_else(|| lines.error(format!("{:?} is not a time", envelope.ts)))?
            .unix_micros();
        let mut header = Header::new(envelope.session_id.clone());
        let dir = match &*envelope.direction {
            "c2s" => Dir::C2s,
            "s2c" => Dir::S2c,
            "stderr" => Dir::Err,
            // Envelopes of newer versions.
            _ => Dir::Tap,
        };
        if let (Dir::Tap, Some(raw)) = (dir, envelope.raw) {
            let meta: Meta = serde_json::from_str(raw.get()).unwrap_or_default();
            (header.command, header.cwd) = (meta.command, meta.cwd);
        }
        maker.begin(time, header)?;
        match (dir, envelope.raw, envelope.text) {
            (Dir::Tap, _, _) => {}
            (dir, Some(raw), _) if dir != Dir::Err => {
                maker.message(time, dir, Wire::Ndjson, raw.get(), None)?;
            }
            (dir, _, text) => maker.text(time, dir, text.unwrap_or_default().into_owned())?,
        }
    }
    Ok(())
}
