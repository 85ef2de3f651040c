//! `auto`: the framing that a first byte suggests.

use super::Framing;

/// The framing of a stream whose first byte that is not white space is this one. A byte that
/// begins no frame at all goes to `lsp`, whose error path answers it.
pub(super) fn detect(first: u8) -> Framing {
    match first {
        b'{' | b'[' => Framing::Ndjson,
        0 => Framing::Length,
        _ => Framing::Lsp,
    }
}
