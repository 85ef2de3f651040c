//! HTTP bodies: a known number of bytes, chunks, or everything until the connection ends.

use super::head::Length;

/// Cuts a body out of bytes that come in any pieces, and never holds or awaits more than its limit.
#[derive(Debug)]
pub(in crate::net) struct Body {
    part: Part,
    /// How many bytes the body may still have.
    room: u64,
    /// How many bytes may still come that are neither of the body nor a chunk's length.
    patience: usize,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// So many bytes, which are the rest of the body.
    Rest(u64),
    /// Bytes, until there are no more.
    UntilEnd,
    /// A chunk's length, of which so many digits have come.
    Size {
        size: u64,
        digits: u8,
    },
    /// What may stand behind it on the line.
    Extension {
        size: u64,
    },
    /// The line feed of that line.
    SizeEnd {
        size: u64,
    },
    /// A chunk's bytes, and the two that end it.
    Chunk(u64),
    ChunkReturn,
    ChunkFeed,
    /// The lines behind the last chunk.
    Trailer {
        is_empty: bool,
    },
    TrailerFeed {
        is_empty: bool,
    },
    Done,
}

/// What is wrong with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Flaw {
    /// It is longer than the limit.
    TooLarge,
    /// Its chunks are malformed.
    Malformed,
}

/// The most digits of a chunk's length.
const DIGITS: u8 = 16;

/// How many bytes of extensions and trailers are skipped, in all.
const PATIENCE: usize = 8 * 1024;

/// What stands before a chunk's length.
const SIZE: Part = Part::Size { size: 0, digits: 0 };

impl Body {
    /// A body of that length. That it is too large is known here if its length is.
    pub(in crate::net) fn new(length: Length, limit: usize) -> Result<Self, Flaw> {
        let room = limit as u64;
        let part = match length {
            Length::Fixed(0) => Part::Done,
            Length::Fixed(length) if length > room => return Err(Flaw::TooLarge),
            Length::Fixed(length) => Part::Rest(length),
            Length::Chunked => SIZE,
            Length::UntilEnd => Part::UntilEnd,
        };
        Ok(Body { part, room, patience: PATIENCE })
    }

    /// Returns `true` if all of it has come.
    pub(in crate::net) fn is_whole(&self) -> bool {
        self.part == Part::Done
    }

    /// Returns `true` if it was whole if the connection ended here.
    pub(in crate::net) fn may_end(&self) -> bool {
        matches!(self.part, Part::Done | Part::UntilEnd)
    }

    /// Appends what belongs to the body, and says how many bytes of the piece were used.
    pub(in crate::net) fn take(&mut self, piece: &[u8], into: &mut Vec<u8>) -> Result<usize, Flaw> {
        let mut rest = piece;
        while let Some((&byte, behind)) = rest.split_first() {
            rest = match self.part {
                Part::Done => break,
                Part::Rest(length) => {
                    let (taken, behind) = self.copy(rest, length, into)?;
                    self.part = match length - taken {
                        0 => Part::Done,
                        left => Part::Rest(left),
                    };
                    behind
                }
                Part::Chunk(length) => {
                    let (taken, behind) = self.copy(rest, length, into)?;
                    self.part = match length - taken {
                        0 => Part::ChunkReturn,
                        left => Part::Chunk(left),
                    };
                    behind
                }
                Part::UntilEnd => self.copy(rest, u64::MAX, into)?.1,
                _ => {
                    self.part = self.step(byte)?;
                    behind
                }
            };
        }
        Ok(piece.len() - rest.len())
    }

    /// Appends up to so many bytes; how many these were, and what stands behind them.
    fn copy<'a>(
        &mut self,
        from: &'a [u8],
        length: u64,
        into: &mut Vec<u8>,
    ) -> Result<(u64, &'a [u8]), Flaw> {
        let (taken, behind) = from.split_at(length.min(from.len() as u64) as usize);
        self.room = self.room.checked_sub(taken.len() as u64).ok_or(Flaw::TooLarge)?;
        into.extend_from_slice(taken);
        Ok((taken.len() as u64, behind))
    }

    /// One byte of what stands between chunks.
    fn step(&mut self, byte: u8) -> Result<Part, Flaw> {
        Ok(match (self.part, byte) {
            (Part::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                if digits == DIGITS {
                    return Err(Flaw::Malformed);
                }
                let digit = (byte as char).to_digit(16).unwrap_or_default();
                Part::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }
            }
            (Part::Size { digits: 0, .. }, _) => return Err(Flaw::Malformed),
            (Part::Size { size, .. } | Part::Extension { size }, b'\r') => Part::SizeEnd { size },
            (Part::Size { size, .. }, b';' | b' ' | b'\t') => {
                self.skip(Part::Extension { size })?
            }
            (Part::Extension { size }, b'\t' | b' '..=b'~' | 0x80..) => {
                self.skip(Part::Extension { size })?
            }
            (Part::SizeEnd { size: 0 }, b'\n') => Part::Trailer { is_empty: true },
            // Known before any of it is awaited.
            (Part::SizeEnd { size }, b'\n') if size > self.room => return Err(Flaw::TooLarge),
            (Part::SizeEnd { size }, b'\n') => Part::Chunk(size),
            (Part::ChunkReturn, b'\r') => Part::ChunkFeed,
            (Part::ChunkFeed, b'\n') => SIZE,
            (Part::Trailer { is_empty }, b'\r') => Part::TrailerFeed { is_empty },
            (Part::Trailer { .. }, b'\t' | b' '..=b'~' | 0x80..) => {
                self.skip(Part::Trailer { is_empty: false })?
            }
            (Part::TrailerFeed { is_empty: true }, b'\n') => Part::Done,
            (Part::TrailerFeed { is_empty: false }, b'\n') => Part::Trailer { is_empty: true },
            _ => return Err(Flaw::Malformed),
        })
    }

    /// Goes on to that part, past a byte that means nothing here.
    fn skip(&mut self, part: Part) -> Result<Part, Flaw> {
        self.patience = self.patience.checked_sub(1).ok_or(Flaw::Malformed)?;
        Ok(part)
    }
}
