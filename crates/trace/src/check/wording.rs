//! Words in findings: sides, excerpts and times.

use crate::message::Message;
use crate::record::{Dir, Kind, Record};

/// The side whose bytes a direction carries.
pub(super) fn sender(dir: Dir) -> &'static str {
    match dir {
        Dir::C2s => "client",
        _ => "server",
    }
}

/// The beginning of a frame in stray bytes: they are messages in another framing.
pub(super) fn other_framing(record: &Record<'_>) -> Option<&'static str> {
    let text = std::str::from_utf8(record.body.as_ref()?.as_bytes()).ok()?.trim_start();
    let is_header =
        |name: &str| text.get(..name.len()).is_some_and(|it| it.eq_ignore_ascii_case(name));
    if is_header("Content-Length:") || is_header("Content-Type:") {
        return Some("a header of the framing `lsp`");
    }
    let is_message = |line: &&str| {
        line.starts_with('{')
            && line.contains("\"jsonrpc\"")
            && Message::from_json(line).kind != Kind::Invalid
    };
    text.lines().next().filter(is_message).map(|_| "a message of the framing `ndjson`")
}

/// The beginning of some bytes, as one line.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 60;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN)]).into_owned();
    let text = text.trim();
    let shown: String = text.chars().take(SHOWN).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown:?}{more}")
}

/// A time in microseconds, for people, in three digits: `812 µs`, `3.34 ms`, `52.3 ms`, `1.05 s`.
pub fn shown_time(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..999_500 => format!("{} ms", three_digits(micros, 1_000)),
        _ => format!("{} s", three_digits(micros, 1_000_000)),
    }
}

/// A quotient, rounded to three digits, or to a whole number if it has more.
fn three_digits(value: u64, unit: u64) -> String {
    let rounded =
        |part: u64| (value / part).saturating_add(u64::from(value % part >= part.div_ceil(2)));
    let (hundredths, tenths) = (rounded(unit / 100), rounded(unit / 10));
    match (hundredths, tenths) {
        (..1_000, _) => format!("{}.{:02}", hundredths / 100, hundredths % 100),
        (_, ..1_000) => format!("{}.{}", tenths / 10, tenths % 10),
        _ => rounded(unit).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{excerpt, shown_time};

    #[test]
    fn times_and_bytes_are_short() {
        for (micros, shown) in [
            (0, "0 µs"),
            (999, "999 µs"),
            (1_000, "1.00 ms"),
            (3_986, "3.99 ms"),
            (9_994, "9.99 ms"),
            (9_995, "10.0 ms"),
            (52_349, "52.3 ms"),
            (99_949, "99.9 ms"),
            (99_950, "100 ms"),
            (999_499, "999 ms"),
            (999_500, "1.00 s"),
            (1_000_000, "1.00 s"),
            (61_234_567, "61.2 s"),
            (754_321_000, "754 s"),
            (u64::MAX, "18446744073710 s"),
        ] {
            assert_eq!(shown_time(micros), shown);
        }
        assert_eq!(excerpt(b" a\n"), "\"a\"");
        assert_eq!(excerpt(b"\xff\x1b"), "\"\u{fffd}\\u{1b}\"");
        assert_eq!(excerpt(&[b'x'; 1000]), format!("\"{}\"…", "x".repeat(60)));
    }
}
