//! Reference decoder for `ndjson` and `length` (F20 to F32): it reads a whole stream from the first
//! byte to the last.

use super::json;

/// An item of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A body that is JSON, without the white space around it.
    Body(String),
    /// An error with `id: null`: its code, and the reason if there is one.
    Fault(i32, Option<&'static str>),
}

const PARSE_ERROR: Item = Item::Fault(-32700, None);
const OVERSIZE: Item = Item::Fault(-32600, Some("oversize"));

/// The limits for a stream.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Of a message.
    pub bytes: usize,
    pub depth: usize,
}

pub fn ndjson(stream: &[u8], sizes: Sizes) -> Vec<Item> {
    let mut items = Vec::new();
    for line in stream.split(|byte| *byte == b'\n') {
        // F20: `\r\n` also ends a line.
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_white = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
        let Some(start) = line.iter().position(|byte| !is_white(byte)) else { continue };
        let line = &line[start..];
        items.push(if line.len() > sizes.bytes { OVERSIZE } else { body(line, sizes) });
    }
    items
}

pub fn length(stream: &[u8], sizes: Sizes) -> Vec<Item> {
    let mut items = Vec::new();
    let mut at = 0;
    while at < stream.len() {
        let unit = unit(&stream[at..], sizes);
        let end = at + unit.bytes;
        // F2, F32: of all positions after a fault, the first with a whole frame. A frame that
        // holds a number does not count: it may be stray zeros and the last byte of the next
        // frame's length.
        let is_proof = |item: Item| match item {
            Item::Body(text) => {
                !text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
            }
            _ => false,
        };
        let next_frame = |from: usize, to: usize| {
            (from..to).find(|place| {
                let rest = &stream[*place..];
                rest[0] == 0 && self::unit(rest, sizes).what.is_ok_and(is_proof)
            })
        };
        match unit.what {
            // A whole frame that does not hold JSON. Bytes after it at which no frame can begin
            // belong to the same fault.
            Ok(item) => {
                let is_bad = item == PARSE_ERROR && stream.get(end).is_some_and(|byte| *byte != 0);
                items.push(item);
                at = if is_bad {
                    next_frame(end, stream.len()).unwrap_or(stream.len())
                } else {
                    end
                };
            }
            // F31: the payload is skipped, unless the next frame begins before its end.
            Err(OVERSIZE) => {
                items.push(OVERSIZE);
                let to = end.min(stream.len());
                // F2: a prefix that does not begin with zero is possibly not a length; then a zero byte
                // in its payload belongs to the same fault.
                let is_doubtful = stream[at] != 0;
                let payload = if is_doubtful { to } else { (at + PREFIX).min(to) };
                let zero = || (payload..to).find(|place| stream[*place] == 0);
                at = next_frame(at + 1, payload).or_else(zero).unwrap_or(to);
            }
            Err(fault) => {
                items.push(fault);
                at = next_frame(at + 1, stream.len()).unwrap_or(stream.len());
            }
        }
    }
    items
}

const PREFIX: usize = 4;

/// The frame or fault at the front of the bytes.
struct Unit {
    /// A whole frame with its newline, or the fault.
    what: Result<Item, Item>,
    /// Its size, as far as it is known.
    bytes: usize,
}

fn unit(bytes: &[u8], sizes: Sizes) -> Unit {
    let bad = |what: Item, bytes: usize| Unit { what: Err(what), bytes };
    assert!(sizes.bytes < 16 * 1024 * 1024, "these rules are for limits below 16 MiB");
    let Some((prefix, behind)) = bytes.split_first_chunk::<PREFIX>() else {
        return bad(PARSE_ERROR, bytes.len());
    };
    // F31: a stray line of text.
    if prefix.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return bad(PARSE_ERROR, 1);
    }
    let length = u32::from_be_bytes(*prefix) as usize;
    let all = PREFIX + length + 1;
    if length > sizes.bytes {
        return bad(OVERSIZE, all);
    }
    // F30, F31, F32: a length, no zero byte in the payload, and the newline after it.
    match behind.get(..length) {
        Some(payload)
            if length > 0 && !payload.contains(&0) && behind.get(length) == Some(&b'\n') =>
        {
            Unit { what: Ok(body(payload, sizes)), bytes: all }
        }
        _ => bad(PARSE_ERROR, all),
    }
}

fn body(bytes: &[u8], sizes: Sizes) -> Item {
    // F4.
    let text = std::str::from_utf8(bytes).ok();
    let value = text.and_then(|text| json::read(text, sizes.depth));
    value.map_or(PARSE_ERROR, |value| Item::Body(value.text))
}
