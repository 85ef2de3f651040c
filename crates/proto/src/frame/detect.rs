//! Detection of the framing (`auto`) from the first byte.

use super::Framing;

/// The framing of a stream whose first byte, white space aside, is `first`. A byte that begins no
/// frame selects `lsp`, whose error path answers it.
pub(super) fn detect(first: u8) -> Framing {
    match first {
        b'{' | b'[' => Framing::Ndjson,
        0 => Framing::Length,
        _ => Framing::Lsp,
    }
}
