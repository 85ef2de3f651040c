//! Words in findings: sides, excerpts and times.

use crate::record::Dir;

/// The side whose bytes a direction carries.
pub(super) fn sender(dir: Dir) -> &'static str {
    match dir {
        Dir::C2s => "client",
        _ => "server",
    }
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

/// A time in microseconds, for people: `812 µs`, `3.3 ms`, `1.05 s`.
pub fn shown_time(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{}.{} ms", micros / 1_000, micros / 100 % 10),
        _ => format!("{}.{:02} s", micros / 1_000_000, micros / 10_000 % 100),
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
            (1_000, "1.0 ms"),
            (999_999, "999.9 ms"),
            (1_000_000, "1.00 s"),
            (61_234_567, "61.23 s"),
        ] {
            assert_eq!(shown_time(micros), shown);
        }
        assert_eq!(excerpt(b" a\n"), "\"a\"");
        assert_eq!(excerpt(b"\xff\x1b"), "\"\u{fffd}\\u{1b}\"");
        assert_eq!(excerpt(&[b'x'; 1000]), format!("\"{}\"…", "x".repeat(60)));
    }
}
