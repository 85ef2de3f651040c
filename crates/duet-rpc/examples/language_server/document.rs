//! Document: a text, its words, and conversion of positions.
//!
//! An editor gives a position as a line and a number of encoding units before it in that line. This module uses byte
//! offsets. A position that does not exist counts as the nearest position before it.

use std::ops::Range as Bytes;

use crate::protocol::{Position, Range};

/// The units in which an editor counts the characters of a line.
#[derive(Default, Clone, Copy, PartialEq)]
pub(crate) enum Encoding {
    Utf8,
    #[default]
    Utf16,
}

impl Encoding {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "utf-8",
            Encoding::Utf16 => "utf-16",
        }
    }

    /// The number of units of a character. Some characters, such as 😀, have two units in UTF-16.
    fn units(self, character: char) -> usize {
        match self {
            Encoding::Utf8 => character.len_utf8(),
            Encoding::Utf16 => character.len_utf16(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Document {
    /// The version number from the editor.
    pub(crate) version: i32,
    text: String,
    /// The byte offset of each line.
    lines: Vec<usize>,
}

impl Document {
    pub(crate) fn new(version: i32, text: String) -> Self {
        let lines = line_starts(&text);
        Document { version, text, lines }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The range of each line, without its end.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Bytes<usize>> {
        (0..self.lines.len()).filter_map(|number| self.line(number))
    }

    fn line(&self, number: usize) -> Option<Bytes<usize>> {
        let start = *self.lines.get(number)?;
        let next = self.lines.get(number + 1).copied().unwrap_or(self.text.len());
        let length = self.text[start..next].trim_end_matches(['\r', '\n']).len();
        Some(start..start + length)
    }

    /// Replaces a range with a text.
    pub(crate) fn replace(&mut self, range: Range, text: &str, encoding: Encoding) {
        let (start, end) = (self.byte(range.start, encoding), self.byte(range.end, encoding));
        self.text.replace_range(start.min(end)..start.max(end), text);
        self.lines = line_starts(&self.text);
    }

    /// Converts a position into a byte offset.
    fn byte(&self, position: Position, encoding: Encoding) -> usize {
        // A number that does not fit into `usize` is past the end of the text.
        let number = usize::try_from(position.line).unwrap_or(usize::MAX);
        let wanted = usize::try_from(position.character).unwrap_or(usize::MAX);
        let Some(line) = self.line(number) else { return self.text.len() };
        let mut units = 0;
        for (byte, character) in self.text[line.clone()].char_indices() {
            units += encoding.units(character);
            // A position inside a character counts as the beginning of the character.
            if units > wanted {
                return line.start + byte;
            }
        }
        line.end
    }

    /// Converts the byte offset of a character into a position.
    fn position(&self, byte: usize, encoding: Encoding) -> Position {
        let number = self.lines.partition_point(|&start| start <= byte) - 1;
        let before = &self.text[self.lines[number]..byte];
        let units = before.chars().map(|character| encoding.units(character)).sum::<usize>();
        // The message limit keeps texts small enough for `u32`.
        let narrow = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Position { line: narrow(number), character: narrow(units) }
    }

    pub(crate) fn range(&self, bytes: Bytes<usize>, encoding: Encoding) -> Range {
        Range {
            start: self.position(bytes.start, encoding),
            end: self.position(bytes.end, encoding),
        }
    }

    /// All words, with their byte offsets.
    pub(crate) fn words(&self) -> impl Iterator<Item = (usize, &str)> {
        let pieces = self.text.split(|character| !is_of_word(character));
        let origin = self.text.as_ptr().addr();
        pieces
            .filter(|word| !word.is_empty())
            .map(move |word| (word.as_ptr().addr() - origin, word))
    }

    /// The word at a position, or directly before it.
    pub(crate) fn word_at(&self, position: Position, encoding: Encoding) -> Option<Bytes<usize>> {
        let (before, behind) = self.text.split_at(self.byte(position, encoding));
        let start = before.trim_end_matches(is_of_word).len();
        let end = self.text.len() - behind.trim_start_matches(is_of_word).len();
        (start < end).then_some(start..end)
    }
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The byte offset of each line. A line ends with a line feed, a carriage return, or both.
fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let ends = (0..bytes.len()).filter(|&at| match bytes[at] {
        b'\n' => true,
        b'\r' => bytes.get(at + 1) != Some(&b'\n'),
        _ => false,
    });
    std::iter::once(0).chain(ends.map(|end| end + 1)).collect()
}
