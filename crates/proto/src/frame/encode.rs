//! Frames written straight into an output buffer.

use memchr::memchr2;

use super::Framing;

/// Appends one frame whose JSON text is written by `body`.
///
/// If `body` fails or panics, nothing is appended. It must append, and only append, one JSON text; what it
/// writes may have been pretty-printed, as it never leaves with a raw line end in `ndjson` (F5).
///
/// ```
/// use duet_rpc_proto::frame::{Framing, write_frame};
///
/// let mut out = Vec::new();
/// write_frame(Framing::Lsp, &mut out, |out| {
///     out.extend_from_slice(b"[]");
///     Ok::<_, std::convert::Infallible>(())
/// })?;
/// assert_eq!(out, b"Content-Length: 2\r\n\r\n[]");
/// # Ok::<_, std::convert::Infallible>(())
/// ```
pub fn write_frame<E>(
    framing: Framing,
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    // The length is known only behind the body, but its place is before it. Most bodies have
    // two or three digits, so three are guessed.
    out.extend_from_slice(match framing {
        Framing::Lsp => b"Content-Length: 000\r\n\r\n",
        Framing::Ndjson => b"",
        Framing::Length => &[0; 4],
    });
    let body_start = out.len();
    let mut unfinished = Unfinished { out, start };
    body(unfinished.out)?;
    unfinished.start = usize::MAX;
    let out = &mut *unfinished.out;
    match framing {
        Framing::Lsp => write_header(out, start, body_start),
        Framing::Ndjson => {
            // Valid JSON has line ends only between tokens, where a space means the same.
            let mut rest = &mut out[start..];
            while let Some(line_end) = memchr2(b'\n', b'\r', rest) {
                rest[line_end] = b' ';
                rest = &mut rest[line_end + 1..];
            }
            out.push(b'\n');
        }
        Framing::Length => {
            // One that does not fit gets a prefix that is over every message limit, so that it is
            // refused at the other end.
            let length = u32::try_from(out.len() - body_start).unwrap_or(u32::MAX);
            out[start..body_start].copy_from_slice(&length.to_be_bytes());
            out.push(b'\n');
        }
    }
    Ok(())
}

/// Takes back what was appended, if writing fails or panics.
struct Unfinished<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.out.truncate(self.start);
    }
}

/// Writes the header before a body, and moves the body if the guess was wrong.
fn write_header(out: &mut Vec<u8>, start: usize, body_start: usize) {
    const NAME: &[u8] = b"Content-Length: ";
    const END: &[u8] = b"\r\n\r\n";
    let body_length = out.len() - body_start;
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(body_length).as_bytes();
    let header_length = NAME.len() + digits.len() + END.len();
    let guessed = body_start - start;
    if header_length > guessed {
        out.resize(out.len() + header_length - guessed, 0);
    }
    if header_length != guessed {
        out.copy_within(body_start..body_start + body_length, start + header_length);
        out.truncate(start + header_length + body_length);
    }
    let digits_start = start + NAME.len();
    let digits_end = digits_start + digits.len();
    out[digits_start..digits_end].copy_from_slice(digits);
    out[digits_end..digits_end + END.len()].copy_from_slice(END);
}
