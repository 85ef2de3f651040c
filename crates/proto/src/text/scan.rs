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
const BULK: usize = 256;

/// Checks that `bytes` are one JSON text, with nothing but white space around it.
#[inline]
pub(super) fn text(bytes: &[u8], max_depth: usize, outline: &mut Outline) -> Result<(), NotJson> {
    let mut scan = Scan { bytes, max_depth: max_depth.min(MAX_DEPTH), high: false, escaped: false };
    let end = scan.outlined(scan.white_space(0), outline)?;
    let end = scan.white_space(end);
    if end != bytes.len() {
        return Err(syntax(end));
    }
    if scan.high && simdutf8::basic::from_utf8(bytes).is_err() {
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
    let mut scan = Scan { bytes, max_depth: MAX_DEPTH, high: false, escaped: false };
    let start = scan.white_space(from);
    let mut outline = Outline::default();
    let end = scan.outlined(start, &mut outline).ok()?;
    let behind = scan.white_space(end);
    let next = (scan.at(behind) == b',').then_some(behind + 1);
    Some(Element { outline, start, end, next })
}

/// An object or array, read byte by byte: what the other readers are tested against.
#[cfg(test)]
pub(super) fn container_by_bytes(bytes: &[u8], max_depth: usize) -> Result<(usize, bool), NotJson> {
    Scan { bytes, max_depth, high: false, escaped: false }.refused_container(0, 0)
}

/// A walk over the bytes. Whoever loops works on a copy, which lives in registers.
#[derive(Clone, Copy)]
struct Scan<'a> {
    bytes: &'a [u8],
    max_depth: usize,
    /// A byte that is not ASCII was seen.
    high: bool,
    /// A backslash was seen, outside of containers that went to another walk.
    escaped: bool,
}

impl Scan<'_> {
    /// A value, of which the outline is noted: where it ends.
    #[inline(always)]
    fn outlined(&mut self, start: usize, outline: &mut Outline) -> Result<usize, NotJson> {
        outline.start = start as u32;
        outline.kind = match self.at(start) {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            _ => Kind::Scalar,
        };
        match outline.kind {
            Kind::Object => self.envelope(start, outline),
            Kind::Array | Kind::Scalar => self.value(start, 0),
        }
    }

    /// An object whose members are noted where they are the envelope's.
    #[inline(always)]
    fn envelope(&mut self, start: usize, outline: &mut Outline) -> Result<usize, NotJson> {
        if self.max_depth == 0 {
            return Err(NotJson { at: start, why: Why::TooDeep });
        }
        let mut i = self.white_space(start + 1);
        if self.at(i) == b'}' {
            return Ok(i + 1);
        }
        // Only this object's own strings count.
        self.escaped = false;
        loop {
            let (member, value) = match self.usual_name(i) {
                Some((member, value)) => (Some(member), self.white_space(value)),
                None => {
                    let (after_name, value) = self.name(i)?;
                    (self.bytes.get(i + 1..after_name - 1).and_then(Member::named), value)
                }
            };
            let end = match member {
                Some(Member::Jsonrpc) if self.is_usual_version(value) => value + 5,
                _ => self.value(value, 1)?,
            };
            if let Some(member) = member {
                outline.note(member, Span::new(value, end));
            }
            i = self.white_space(end);
            match self.at(i) {
                b',' => i = self.white_space(i + 1),
                b'}' => {
                    outline.escaped = self.escaped;
                    return Ok(i + 1);
                }
                _ => return Err(syntax(i)),
            }
        }
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
        let found = word(self.bytes.get(i..)?.first_chunk()?);
        let (member, colon) = match found {
            METHOD => (Member::Method, i + 8),
            PARAMS => (Member::Params, i + 8),
            RESULT => (Member::Result, i + 8),
            ERROR => (Member::Error, i + 7),
            JSONRPC if self.at(i + 8) == b'"' => (Member::Jsonrpc, i + 9),
            _ if found & FIVE_BYTES == ID => (Member::Id, i + 4),
            _ => return None,
        };
        (self.at(colon) == b':').then_some((member, colon + 1))
    }

    /// Whether `"2.0"` stands here.
    #[inline(always)]
    fn is_usual_version(&self, i: usize) -> bool {
        self.bytes.get(i..).and_then(|rest| rest.first_chunk()) == Some(b"\"2.0\"")
    }

    #[inline(always)]
    fn value(&mut self, start: usize, outer_depth: usize) -> Result<usize, NotJson> {
        match self.at(start) {
            b'"' => self.string(start + 1),
            b'{' | b'[' => {
                let (end, high) = self.container(start, outer_depth)?;
                self.high |= high;
                Ok(end)
            }
            _ => self.scalar(start),
        }
    }

    /// An object or array: where it ends, and whether there are bytes that are not ASCII.
    #[inline(always)]
    fn container(self, start: usize, outer_depth: usize) -> Result<(usize, bool), NotJson> {
        if self.bytes.len() - start < BULK {
            // Fewer bytes than this has levels, and two more around them.
            return self.container_by_bytes::<{ BULK / 64 + 1 }>(start, outer_depth);
        }
        match bulk::container(self.bytes, start, self.max_depth - outer_depth) {
            Some(found) => Ok(found),
            None => self.refused_container(start, outer_depth),
        }
    }

    /// What the bulk reader did not accept: this says what is wrong, and where; or accepts it, if
    /// it is only nested more deeply than that can see.
    #[cold]
    fn refused_container(self, start: usize, outer_depth: usize) -> Result<(usize, bool), NotJson> {
        self.container_by_bytes::<{ MAX_DEPTH / 64 + 1 }>(start, outer_depth)
    }

    /// An object or array, without recursion: hostile nesting costs a bit a level and no stack.
    #[inline(never)]
    fn container_by_bytes<const WORDS: usize>(
        self,
        start: usize,
        outer_depth: usize,
    ) -> Result<(usize, bool), NotJson> {
        let mut scan = self;
        let mut nest = Nest::<WORDS>::new();
        let mut depth = outer_depth;
        let mut in_object = false;
        let mut i = start;
        'value: loop {
            match scan.at(i) {
                b'"' => i = scan.string(i + 1)?,
                opening @ (b'{' | b'[') => {
                    if depth >= scan.max_depth {
                        return Err(NotJson { at: i, why: Why::TooDeep });
                    }
                    nest.remember(depth, in_object);
                    depth += 1;
                    in_object = opening == b'{';
                    i = scan.white_space(i + 1);
                    // In ASCII a closing bracket stands two behind its opening one.
                    if scan.at(i) != opening + 2 {
                        if in_object {
                            (_, i) = scan.name(i)?;
                        }
                        continue 'value;
                    }
                    i += 1;
                    depth -= 1;
                    in_object = nest.recall(depth);
                }
                _ => i = scan.scalar(i)?,
            }
            loop {
                if depth == outer_depth {
                    return Ok((i, scan.high));
                }
                i = scan.white_space(i);
                match scan.at(i) {
                    b',' => {
                        i = scan.white_space(i + 1);
                        if in_object {
                            (_, i) = scan.name(i)?;
                        }
                        continue 'value;
                    }
                    closing @ (b'}' | b']') if (closing == b'}') == in_object => {
                        i += 1;
                        depth -= 1;
                        in_object = nest.recall(depth);
                    }
                    _ => return Err(syntax(i)),
                }
            }
        }
    }

    /// A member's name and its colon: where the name ends, and where the value starts.
    #[inline(always)]
    fn name(&mut self, i: usize) -> Result<(usize, usize), NotJson> {
        if self.at(i) != b'"' {
            return Err(syntax(i));
        }
        let end = self.string(i + 1)?;
        let colon = self.white_space(end);
        if self.at(colon) != b':' {
            return Err(syntax(colon));
        }
        Ok((end, self.white_space(colon + 1)))
    }

    /// From behind the opening quote to behind the closing one.
    #[inline(always)]
    fn string(&mut self, start: usize) -> Result<usize, NotJson> {
        // Most strings are short: one look sees the end of nearly all.
        if let Some(lane) = self.bytes.get(start..).and_then(|rest| rest.first_chunk()) {
            let Special { ends, high } = trusted::special(lane);
            self.high |= high != 0;
            let end = start + ends.trailing_zeros() as usize;
            if ends != 0 && self.at(end) == b'"' {
                return Ok(end + 1);
            }
        }
        let (end, high, escaped) = rest_of_string(self.bytes, start)?;
        self.high |= high;
        self.escaped |= escaped;
        Ok(end)
    }

    /// A number or one of the three words.
    #[inline(always)]
    fn scalar(&mut self, start: usize) -> Result<usize, NotJson> {
        let mut i = start;
        while self.at(i).is_ascii_digit() {
            i += 1;
        }
        // A plain integer is done here; what it may not be followed by, the caller sees.
        let plain = i > start
            && (self.at(start) != b'0' || i == start + 1)
            && !matches!(self.at(i), b'.' | b'e' | b'E');
        if plain { Ok(i) } else { scalar::end_of(self.bytes, start).ok_or(syntax(start)) }
    }

    #[inline(always)]
    fn white_space(&self, mut i: usize) -> usize {
        while is_white(self.at(i)) {
            i += 1;
        }
        i
    }

    #[inline(always)]
    fn at(&self, i: usize) -> u8 {
        self.bytes.get(i).copied().unwrap_or(0)
    }
}

/// From somewhere inside a string to behind its closing quote; whether a byte on the way was not
/// ASCII, and whether one was a backslash.
#[inline(never)]
fn rest_of_string(bytes: &[u8], mut i: usize) -> Result<(usize, bool, bool), NotJson> {
    let (mut high, mut escaped) = (false, false);
    loop {
        while let Some(lane) = bytes.get(i..).and_then(|rest| rest.first_chunk()) {
            let special = trusted::special(lane);
            high |= special.high != 0;
            i += special.ends.trailing_zeros().min(LANE as u32) as usize;
            if special.ends != 0 {
                break;
            }
        }
        if let Some(rest) = bytes.get(i..).filter(|rest| rest.len() < LANE) {
            let special = at_end(bytes, rest);
            high |= special.high != 0;
            i += special.ends.trailing_zeros().min(rest.len() as u32) as usize;
        }
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
