//! One pass over the bytes: is this a JSON text, and where do the envelope's members stand?
//!
//! Nothing is built and nothing is copied. The grammar is RFC 8259 to the letter, the depth is
//! bounded, and members that nobody asked for are checked like all others. UTF-8 costs nothing
//! extra while a text is pure ASCII.
//!
//! The envelope and all that is small is read byte by byte; what is large goes to
//! [`bulk`](super::bulk), which is faster once it runs but takes longer to start. Bytes past the
//! end read as zero, which no rule of the grammar accepts.

use super::lanes::{LANE, Special};
use super::nest::Nest;
use super::{Kind, MAX_DEPTH, Member, NotJson, Outline, Span, Why};
use super::{bulk, is_white, scalar, syntax, trusted};

/// From here on, in bytes to the end of the text, a container is worth the bulk reader's start.
const BULK: usize = 64;

/// Up to here, an object is tried as a flat one first, of at most so many members.
const FLAT: usize = 256;
const FLAT_MEMBERS: usize = 4;

/// Checks that `bytes` are one JSON text, with nothing but white space around it.
#[inline]
pub(super) fn text(bytes: &[u8], max_depth: usize, outline: &mut Outline) -> Result<(), NotJson> {
    let mut scan = Scan { bytes, max_depth: max_depth.min(MAX_DEPTH), high: 0, escaped: false };
    let mut end = scan.outlined(0, outline)?;
    if end != bytes.len() {
        (end, _) = scan.look(end);
        if end != bytes.len() {
            return Err(syntax(end));
        }
    }
    if scan.high != 0 && simdutf8::basic::from_utf8(bytes).is_err() {
        return Err(NotJson { at: 0, why: Why::NotUtf8 });
    }
    Ok(())
}

/// One element of an array that was already checked as a part of its text.
pub(super) struct Element {
    pub(super) outline: Outline,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Behind the comma, if another element follows.
    pub(super) next: Option<usize>,
}

/// The element that begins at or behind `from`, if there is one.
pub(super) fn element(bytes: &[u8], from: usize) -> Option<Element> {
    let mut scan = Scan { bytes, max_depth: MAX_DEPTH, high: 0, escaped: false };
    let mut outline = Outline::default();
    let end = scan.outlined(from, &mut outline).ok()?;
    let (behind, byte) = scan.look(end);
    let next = (byte == b',').then_some(behind + 1);
    Some(Element { outline, start: outline.start as usize, end, next })
}

/// An object or array, read byte by byte: what the other readers are tested against.
#[cfg(test)]
pub(super) fn container_by_bytes(bytes: &[u8], max_depth: usize) -> Result<(usize, bool), NotJson> {
    refused_container(bytes, 0, 0, max_depth)
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
    match bulk::container(bytes, start, max_depth - outer_depth) {
        Some(found) => Ok(found),
        None => refused_container(bytes, start, outer_depth, max_depth),
    }
}

/// An object with nothing nested in it and only a few members, as many params are: read byte by
/// byte, that is faster. `None` if it is something else, or broken.
#[inline(never)]
fn flat_object(bytes: &[u8], start: usize) -> Option<(usize, bool)> {
    let mut scan = Scan { bytes, max_depth: 0, high: 0, escaped: false };
    if scan.at(start) != b'{' {
        return None;
    }
    let mut i = start + 1;
    for _ in 0..FLAT_MEMBERS {
        let (name, first) = scan.look(i);
        let (_, value) = scan.name(first, name).ok()?;
        let (value, first) = scan.look(value);
        let end = match first {
            b'"' => scan.string(value + 1).ok()?,
            b'0'..=b'9' => scan.scalar(first, value).ok()?,
            _ => return None,
        };
        match scan.look(end) {
            (comma, b',') => i = comma + 1,
            (end, b'}') => return Some((end + 1, scan.high != 0)),
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
    let mut scan = Scan { bytes, max_depth, high: 0, escaped: false };
    // Fewer bytes than this has levels, and two more around them.
    scan.container_by_bytes::<{ BULK / 64 + 1 }>(start, outer_depth).map(|end| (end, scan.high != 0))
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
    let mut scan = Scan { bytes, max_depth, high: 0, escaped: false };
    scan.container_by_bytes::<{ MAX_DEPTH / 64 + 1 }>(start, outer_depth).map(|end| (end, scan.high != 0))
}

/// A walk over the bytes. Whoever loops works on a copy, which lives in registers.
#[derive(Clone, Copy)]
struct Scan<'a> {
    bytes: &'a [u8],
    max_depth: usize,
    /// Not zero if a byte that is not ASCII was seen.
    high: u32,
    /// A backslash was seen, outside of containers that went to another walk.
    escaped: bool,
}

impl Scan<'_> {
    /// A value, of which the outline is noted: where it ends.
    #[inline(always)]
    fn outlined(&mut self, from: usize, outline: &mut Outline) -> Result<usize, NotJson> {
        let (start, first) = self.look(from);
        outline.begin(start);
        match first {
            b'{' => {
                outline.kind = Kind::Object;
                self.envelope(start, outline)
            }
            b'[' => {
                outline.kind = Kind::Array;
                self.value(first, start, 0)
            }
            _ => self.value(first, start, 0),
        }
    }

    /// An object whose members are noted where they are the envelope's.
    #[inline(always)]
    fn envelope(&mut self, start: usize, outline: &mut Outline) -> Result<usize, NotJson> {
        if self.max_depth == 0 {
            return Err(NotJson { at: start, why: Why::TooDeep });
        }
        let (mut i, first) = self.look(start + 1);
        if first == b'}' {
            return Ok(i + 1);
        }
        // Only this object's own strings count.
        self.escaped = false;
        let (mut seen, mut twice) = (0, 0);
        if let Some(version) = self.usual_version(i) {
            outline.members[Member::Jsonrpc as usize] = version;
            seen = Member::Jsonrpc.bit();
            (i, _) = self.look(version.end as usize + 1);
        }
        loop {
            let (member, value) = match self.usual_name(i) {
                Some((member, value)) => (Some(member), value),
                None => {
                    let (end, value) = self.name(self.at(i), i)?;
                    (self.bytes.get(i + 1..end - 1).and_then(Member::named), value)
                }
            };
            let (value, first) = self.look(value);
            let end = self.value(first, value, 1)?;
            if let Some(member) = member {
                twice |= seen & member.bit();
                seen |= member.bit();
                outline.members[member as usize] = Span::new(value, end);
            }
            match self.look(end) {
                (comma, b',') => (i, _) = self.look(comma + 1),
                (end, b'}') => {
                    (outline.seen, outline.twice) = (seen as u8, twice as u8);
                    outline.escaped = self.escaped;
                    return Ok(end + 1);
                }
                (at, _) => return Err(syntax(at)),
            }
        }
    }

    /// The version as nearly everybody writes it, with a comma behind it: where its value stands.
    #[inline(always)]
    fn usual_version(&self, i: usize) -> Option<Span> {
        (chunk(self.bytes, i)? == b"\"jsonrpc\":\"2.0\",").then(|| Span::new(i + 10, i + 15))
    }

    /// One of our names as nearly everybody writes it, with the colon right behind: found by
    /// comparing one word. Returns the place behind the colon.
    #[inline(always)]
    fn usual_name(&self, i: usize) -> Option<(Member, usize)> {
        const fn word(text: &[u8; 8]) -> u64 {
            u64::from_le_bytes(*text)
        }
        const METHOD: u64 = word(b"\"method\"");
        const PARAMS: u64 = word(b"\"params\"");
        const RESULT: u64 = word(b"\"result\"");
        const ERROR: u64 = word(b"\"error\":");
        const JSONRPC: u64 = word(b"\"jsonrpc");
        const ID: u64 = word(b"\"id\":\0\0\0");
        const FIVE_BYTES: u64 = (1 << 40) - 1;
        let found = word(chunk(self.bytes, i)?);
        if found & FIVE_BYTES == ID {
            return Some((Member::Id, i + 5));
        }
        let (member, colon) = match found {
            METHOD => (Member::Method, i + 8),
            PARAMS => (Member::Params, i + 8),
            RESULT => (Member::Result, i + 8),
            ERROR => return Some((Member::Error, i + 8)),
            JSONRPC if self.at(i + 8) == b'"' => (Member::Jsonrpc, i + 9),
            _ => return None,
        };
        (self.at(colon) == b':').then_some((member, colon + 1))
    }

    /// The value that begins with the byte `first` at `start`: where it ends.
    #[inline(always)]
    fn value(&mut self, first: u8, start: usize, outer_depth: usize) -> Result<usize, NotJson> {
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
        let mut scan = *self;
        let mut nest = Nest::<WORDS>::new();
        let mut depth = outer_depth;
        let mut in_object = false;
        let mut i = start;
        let mut byte = scan.at(i);
        // At the top of this loop a value is due, and this is its first byte.
        'value: loop {
            match byte {
                b'"' => i = scan.string(i + 1)?,
                b'{' | b'[' => {
                    if depth >= scan.max_depth {
                        return Err(NotJson { at: i, why: Why::TooDeep });
                    }
                    nest.remember(depth, in_object);
                    depth += 1;
                    in_object = byte == b'{';
                    let opening = byte;
                    (i, byte) = scan.look(i + 1);
                    // In ASCII a closing bracket stands two behind its opening one.
                    if byte != opening + 2 {
                        if in_object {
                            (_, i) = scan.name(byte, i)?;
                            (i, byte) = scan.look(i);
                        }
                        continue 'value;
                    }
                    i += 1;
                    depth -= 1;
                    in_object = nest.recall(depth);
                }
                _ => i = scan.scalar(byte, i)?,
            }
            loop {
                if depth == outer_depth {
                    *self = scan;
                    return Ok(i);
                }
                (i, byte) = scan.look(i);
                if byte == b',' {
                    (i, byte) = scan.look(i + 1);
                    if in_object {
                        (_, i) = scan.name(byte, i)?;
                        (i, byte) = scan.look(i);
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
    fn name(&mut self, first: u8, i: usize) -> Result<(usize, usize), NotJson> {
        if first != b'"' {
            return Err(syntax(i));
        }
        let end = self.string(i + 1)?;
        match self.look(end) {
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
            let Special { ends, high } = trusted::special(lane);
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
    fn look(&self, i: usize) -> (usize, u8) {
        let byte = self.at(i);
        if byte > b' ' { (i, byte) } else { self.look_behind_white(i) }
    }

    #[inline(never)]
    fn look_behind_white(&self, mut i: usize) -> (usize, u8) {
        while is_white(self.at(i)) {
            i += 1;
        }
        (i, self.at(i))
    }

    #[inline(always)]
    fn at(&self, i: usize) -> u8 {
        self.bytes.get(i).copied().unwrap_or(0)
    }
}

/// The bytes that begin at `i`, if there are so many.
#[inline(always)]
fn chunk<const LENGTH: usize>(bytes: &[u8], i: usize) -> Option<&[u8; LENGTH]> {
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
    let values = u64::from_le_bytes(word) ^ EACH * b'0' as u64;
    // The highest bit of a byte is set by adding this, from ten on, unless it is set already. No
    // byte before the first such one carries into the next.
    let others = (values.wrapping_add(EACH * (0x80 - 10)) | values) & EACH * 0x80;
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
            let special = trusted::special(lane);
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
        Some(lane) => trusted::special(lane).without(LANE - rest.len()),
        None => {
            let mut lane = [0; LANE];
            lane[..rest.len()].copy_from_slice(rest);
            trusted::special(&lane)
        }
    }
}
