//! Byte-by-byte reader for values, member names, strings, and small objects and arrays. It also
//! rereads containers that the [`simd`] reader did not accept.
//!
//! Bytes past the end read as zero, which no rule of the grammar accepts.

use super::nesting::NestingStack;
use super::string_scan::{LANE, Special};
use super::{MAX_DEPTH, NotJson, Why};
use super::{is_white, scalar, simd, syntax, unchecked};

/// A container goes to the SIMD reader, which takes longer to start, if at least this many bytes
/// are left in the text.
const SIMD_MIN: usize = 64;

/// Below this many bytes, the reader first tries a flat object of at most `FLAT_MEMBERS` members.
const FLAT: usize = 256;
const FLAT_MEMBERS: usize = 4;

/// A reader over the bytes of a text. Its methods take and return positions. Loops work on a copy
/// of it, which stays in registers.
#[derive(Clone, Copy)]
pub(super) struct ByteReader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) max_depth: usize,
    /// Not zero if a byte was not ASCII.
    pub(super) high: u32,
    /// A backslash was read, outside of containers that another reader took.
    pub(super) escaped: bool,
}

impl<'a> ByteReader<'a> {
    /// A reader for a text.
    #[inline(always)]
    pub(super) fn new(bytes: &'a [u8], max_depth: usize) -> Self {
        ByteReader { bytes, max_depth, high: 0, escaped: false }
    }

    /// Reads the value that begins with the byte `first` at `start`, and returns its end.
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

    /// Reads an object or array, and returns its end.
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
        // Each turn of this loop reads a value; `byte` is its first byte.
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
                    // In ASCII a closing bracket is its opening bracket plus two.
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

    /// Reads a member's name, whose first byte is `first` at `i`, and its colon. Returns the end of
    /// the name and the position after the colon.
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

    /// Reads a string from the byte after its opening quote. Returns the position after its closing
    /// quote.
    #[inline(always)]
    fn string(&mut self, start: usize) -> Result<usize, NotJson> {
        let mut i = start;
        // Most strings are short: one lane holds the end of nearly all.
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

    /// Reads a number, `true`, `false` or `null`.
    #[inline(always)]
    fn scalar(&mut self, first: u8, start: usize) -> Result<usize, NotJson> {
        // A plain integer ends here. The caller checks the byte after it.
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

    /// The first position at or after `i` without white space, and the byte there.
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

/// Reads an object or array. Returns its end, and whether it has bytes that are not ASCII.
#[inline(always)]
fn container(
    bytes: &[u8],
    start: usize,
    outer_depth: usize,
    max_depth: usize,
) -> Result<(usize, bool), NotJson> {
    let rest = bytes.len() - start;
    if rest < SIMD_MIN {
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

/// Reads an object with few members and nothing nested, the shape of many params. Byte by byte is
/// faster for these. `None` if it has another shape or is invalid.
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
    // Fewer than `SIMD_MIN` bytes open fewer than `SIMD_MIN` levels, with at most two around them.
    reader
        .container_by_bytes::<{ SIMD_MIN / 64 + 1 }>(start, outer_depth)
        .map(|end| (end, reader.high != 0))
}

/// Reads a container that the SIMD reader did not accept. It finds the error and its position, or
/// accepts a container that is only too deep for the SIMD reader.
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

/// Reads an object or array byte by byte. The tests compare the other readers with it.
#[cfg(test)]
pub(super) fn container_by_bytes(bytes: &[u8], max_depth: usize) -> Result<(usize, bool), NotJson> {
    refused_container(bytes, 0, 0, max_depth)
}

/// The `LENGTH` bytes at `i`, if the text has that many.
#[inline(always)]
pub(super) fn chunk<const LENGTH: usize>(bytes: &[u8], i: usize) -> Option<&[u8; LENGTH]> {
    // Every position fits into 32 bits. The cast tells the compiler that no sum overflows, which
    // saves a test.
    let i = i as u32 as usize;
    bytes.get(i..i.wrapping_add(LENGTH))?.first_chunk()
}

/// The number of digits before the first byte that is not a digit.
#[inline(always)]
fn leading_digits(word: [u8; 8]) -> usize {
    const EACH: u64 = u64::MAX / 0xff;
    // A digit becomes its value, any other byte something above nine.
    let values = u64::from_le_bytes(word) ^ (EACH * b'0' as u64);
    // The sum sets the highest bit of each byte from ten on, unless it is set already. No byte
    // before the first such byte carries into the next.
    let others = (values.wrapping_add(EACH * (0x80 - 10)) | values) & (EACH * 0x80);
    others.trailing_zeros() as usize / 8
}

/// Reads from inside a string to its closing quote. Returns the position after the quote, whether a
/// byte up to there or a little further is not ASCII, and whether there was a backslash.
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
            // An extra bit marks the end of the text.
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

/// The special bytes among the last few bytes of a text. They are read in one lane together with
/// the bytes before them.
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
