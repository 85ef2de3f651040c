//! Small things, byte by byte: values, names, strings, and objects and arrays that are not worth
//! the start of the [`simd`](super::simd) reader, or that it did not accept.
//!
//! Bytes past the end read as zero, which no rule of the grammar accepts.

use super::nesting::NestingStack;
use super::string_scan::{LANE, Special};
use super::{MAX_DEPTH, NotJson, Why};
use super::{is_white, scalar, simd, syntax, unchecked};

/// From here on, in bytes to the end of the text, a container is worth the bulk reader's start.
const BULK: usize = 64;

/// Up to here, an object is tried as a flat one first, of at most so many members.
const FLAT: usize = 256;
const FLAT_MEMBERS: usize = 4;

/// A walk over the bytes. Whoever loops works on a copy, which lives in registers.
#[derive(Clone, Copy)]
pub(super) struct ByteReader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) max_depth: usize,
    /// Not zero if a byte that is not ASCII was seen.
    pub(super) high: u32,
    /// A backslash was seen, outside of containers that went to another walk.
    pub(super) escaped: bool,
}

impl<'a> ByteReader<'a> {
    /// A walk over a text.
    #[inline(always)]
    pub(super) fn new(bytes: &'a [u8], max_depth: usize) -> Self {
        ByteReader { bytes, max_depth, high: 0, escaped: false }
    }

    /// The value that begins with the byte `first` at `start`: where it ends.
    #[inline(always)]
    pub(super) fn value(
        &mut self,
        first: u8,
        start: usize,
        outer_depth: usize,
    ) -> Result<usize, NotJson> {
        match first {
            b'"' => self.string(start + 1),
            b'{' | b'[' => {
                let (end, high) = container(self.bytes, start, outer_depth, self.max_depth)?;
                self.high |= u32::from(high);
                Ok(end)
            }
            _ => self.scalar(first, start),
        }
    }

    /// An object or array: where it ends.
    #[inline(always)]
    fn container_by_bytes<const WORDS: usize>(
        &mut self,
        start: usize,
        outer_depth: usize,
    ) -> Result<usize, NotJson> {
        let mut reader = *self;
        let mut nest = NestingStack::<WORDS>::new();
        let mut depth = outer_depth;
        let mut in_object = false;
        let mut i = start;
        let mut byte = reader.at(i);
        // At the top of this loop a value is due, and this is its first byte.
        'value: loop {
            match byte {
                b'"' => i = reader.string(i + 1)?,
                b'{' | b'[' => {
                    if depth >= reader.max_depth {
                        return Err(NotJson { at: i, why: Why::TooDeep });
                    }
                    nest.remember(depth, in_object);
                    depth += 1;
                    in_object = byte == b'{';
                    let opening = byte;
                    (i, byte) = reader.skip_white(i + 1);
                    // In ASCII a closing bracket stands two behind its opening one.
                    if byte != opening + 2 {
                        if in_object {
                            (_, i) = reader.name(byte, i)?;
                            (i, byte) = reader.skip_white(i);
                        }
                        continue 'value;
                    }
                    i += 1;
                    depth -= 1;
                    in_object = nest.recall(depth);
                }
                _ => i = reader.scalar(byte, i)?,
            }
            loop {
                if depth == outer_depth {
                    *self = reader;
                    return Ok(i);
                }
                (i, byte) = reader.skip_white(i);
                if byte == b',' {
                    (i, byte) = reader.skip_white(i + 1);
                    if in_object {
                        (_, i) = reader.name(byte, i)?;
                        (i, byte) = reader.skip_white(i);
                    }
                    continue 'value;
                }
                if byte != if in_object { b'}' } else { b']' } {
                    return Err(syntax(i));
                }
                i += 1;
                depth -= 1;
                in_object = nest.recall(depth);
            }
        }
    }

    /// A member's name, that should begin with the byte `first` at `i`, and its colon: where the
    /// name ends, and the place behind the colon.
    #[inline(always)]
    pub(super) fn name(&mut self, first: u8, i: usize) -> Result<(usize, usize), NotJson> {
        if first != b'"' {
            return Err(syntax(i));
        }
        let end = self.string(i + 1)?;
        match self.skip_white(end) {
            (colon, b':') => Ok((end, colon + 1)),
            (at, _) => Err(syntax(at)),
        }
    }

    /// From behind the opening quote to behind the closing one.
    #[inline(always)]
    fn string(&mut self, start: usize) -> Result<usize, NotJson> {
        let mut i = start;
        // Most strings are short: one look sees the end of nearly all.
        if let Some(lane) = chunk(self.bytes, start) {
            let Special { ends, high } = unchecked::special(lane);
            self.high |= high;
            if ends == 0 {
                i += LANE;
            } else {
                i += ends.trailing_zeros() as usize;
                if self.at(i) == b'"' {
                    return Ok(i + 1);
                }
            }
        }
        let (end, high, escaped) = rest_of_string(self.bytes, i)?;
        self.high |= high;
        self.escaped |= escaped;
        Ok(end)
    }

    /// A number or one of the three words.
    #[inline(always)]
    fn scalar(&mut self, first: u8, start: usize) -> Result<usize, NotJson> {
        // A plain integer is done here; what it may not be followed by, the caller sees.
        if matches!(first, b'1'..=b'9') {
            let mut i = start + 1;
            while let Some(digits) = chunk(self.bytes, i).map(|word| leading_digits(*word)) {
                i += digits;
                if digits < 8 {
                    break;
                }
            }
            while self.at(i).is_ascii_digit() {
                i += 1;
            }
            if !matches!(self.at(i), b'.' | b'e' | b'E') {
                return Ok(i);
            }
        }
        scalar::end_of(self.bytes, start).ok_or(syntax(start))
    }

    /// The first place at or behind `i` without white space, and the byte that stands there.
    #[inline(always)]
    pub(super) fn skip_white(&self, i: usize) -> (usize, u8) {
        let byte = self.at(i);
        if byte > b' ' { (i, byte) } else { self.skip_white_slow(i) }
    }

    #[inline(never)]
    fn skip_white_slow(&self, mut i: usize) -> (usize, u8) {
        while is_white(self.at(i)) {
            i += 1;
        }
        (i, self.at(i))
    }

    #[inline(always)]
    pub(super) fn at(&self, i: usize) -> u8 {
        self.bytes.get(i).copied().unwrap_or(0)
    }
}

/// An object or array: where it ends, and whether there are bytes that are not ASCII.
#[inline(always)]
fn container(
    bytes: &[u8],
    start: usize,
    outer_depth: usize,
    max_depth: usize,
) -> Result<(usize, bool), NotJson> {
    let rest = bytes.len() - start;
    if rest < BULK {
        return small_container(bytes, start, outer_depth, max_depth);
    }
    if rest < FLAT
        && max_depth > outer_depth
        && let Some(found) = flat_object(bytes, start)
    {
        return Ok(found);
    }
    match simd::container(bytes, start, max_depth - outer_depth) {
        Some(found) => Ok(found),
        None => refused_container(bytes, start, outer_depth, max_depth),
    }
}

/// An object with nothing nested in it and only a few members, as many params are: read byte by
/// byte, that is faster. `None` if it is something else, or broken.
#[inline(never)]
fn flat_object(bytes: &[u8], start: usize) -> Option<(usize, bool)> {
    let mut reader = ByteReader::new(bytes, 0);
    if reader.at(start) != b'{' {
        return None;
    }
    let mut i = start + 1;
    for _ in 0..FLAT_MEMBERS {
        let (name, first) = reader.skip_white(i);
        let (_, value) = reader.name(first, name).ok()?;
        let (value, first) = reader.skip_white(value);
        let end = match first {
            b'"' => reader.string(value + 1).ok()?,
            b'0'..=b'9' => reader.scalar(first, value).ok()?,
            _ => return None,
        };
        match reader.skip_white(end) {
            (comma, b',') => i = comma + 1,
            (end, b'}') => return Some((end + 1, reader.high != 0)),
            _ => return None,
        }
    }
    None
}

#[inline(never)]
fn small_container(
    bytes: &[u8],
    start: usize,
    outer_depth: usize,
    max_depth: usize,
) -> Result<(usize, bool), NotJson> {
    let mut reader = ByteReader::new(bytes, max_depth);
    // Fewer bytes than this has levels, and two more around them.
    reader
        .container_by_bytes::<{ BULK / 64 + 1 }>(start, outer_depth)
        .map(|end| (end, reader.high != 0))
}

/// What the bulk reader did not accept: this says what is wrong, and where; or accepts it, if it is
/// only nested more deeply than that can see.
#[cold]
#[inline(never)]
fn refused_container(
    bytes: &[u8],
    start: usize,
    outer_depth: usize,
    max_depth: usize,
) -> Result<(usize, bool), NotJson> {
    let mut reader = ByteReader::new(bytes, max_depth);
    reader
        .container_by_bytes::<{ MAX_DEPTH / 64 + 1 }>(start, outer_depth)
        .map(|end| (end, reader.high != 0))
}

/// An object or array, read byte by byte: what the other readers are tested against.
#[cfg(test)]
pub(super) fn container_by_bytes(bytes: &[u8], max_depth: usize) -> Result<(usize, bool), NotJson> {
    refused_container(bytes, 0, 0, max_depth)
}

/// The bytes that begin at `i`, if there are so many.
#[inline(always)]
pub(super) fn chunk<const LENGTH: usize>(bytes: &[u8], i: usize) -> Option<&[u8; LENGTH]> {
    // No text is so long that a place does not fit; to the compiler this says that no sum overflows,
    // which spares it a test.
    let i = i as u32 as usize;
    bytes.get(i..i.wrapping_add(LENGTH))?.first_chunk()
}

/// How many of these bytes are digits, up to the first that is none.
#[inline(always)]
fn leading_digits(word: [u8; 8]) -> usize {
    const EACH: u64 = u64::MAX / 0xff;
    // A digit becomes its value, all else something above nine.
    let values = u64::from_le_bytes(word) ^ (EACH * b'0' as u64);
    // The highest bit of a byte is set by adding this, from ten on, unless it is set already. No
    // byte before the first such one carries into the next.
    let others = (values.wrapping_add(EACH * (0x80 - 10)) | values) & (EACH * 0x80);
    others.trailing_zeros() as usize / 8
}

/// From somewhere inside a string to behind its closing quote; whether a byte on the way, or a
/// little further, was not ASCII, and whether one was a backslash.
#[inline(never)]
fn rest_of_string(bytes: &[u8], mut i: usize) -> Result<(usize, u32, bool), NotJson> {
    let (mut high, mut escaped) = (0, false);
    loop {
        let mut ends = 0;
        while let Some(lane) = chunk(bytes, i) {
            let special = unchecked::special(lane);
            high |= special.high;
            ends = special.ends;
            if ends != 0 {
                break;
            }
            i += LANE;
        }
        if ends == 0 {
            let rest = bytes.get(i..).unwrap_or_default();
            let special = at_end(bytes, rest);
            high |= special.high;
            // One more, so that the end of the text is one.
            ends = special.ends | 1 << rest.len();
        }
        i += ends.trailing_zeros() as usize;
        match bytes.get(i) {
            Some(b'"') => return Ok((i + 1, high, escaped)),
            Some(b'\\') => {
                escaped = true;
                i = scalar::end_of_escape(bytes, i + 1).ok_or(syntax(i))?;
            }
            _ => return Err(syntax(i.min(bytes.len()))),
        }
    }
}

/// The special bytes of the last few of a text, which are looked at together with those before
/// them.
#[inline(always)]
fn at_end(bytes: &[u8], rest: &[u8]) -> Special {
    match bytes.last_chunk() {
        Some(lane) => unchecked::special(lane).without(LANE - rest.len()),
        None => {
            let mut lane = [0; LANE];
            lane[..rest.len()].copy_from_slice(rest);
            unchecked::special(&lane)
        }
    }
}
