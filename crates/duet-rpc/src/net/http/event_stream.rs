//! Parser of event streams (`text/event-stream`): takes bytes in any pieces, and returns the data of each event.
//!
//! ```text
//! LineStart ──':'──▶ comment, skipped ──┐
//!     │  name                           │
//!     ▼                                 ▼
//!   Name ──':'──▶ ValueStart ──▶ Value ──line end──▶ LineStart
//!     └─────────line end─────────────────────────────────▲
//!
//! an empty line ends the event
//! ```
//!
//! Only `data` lines are kept. An event of another type than `message` is skipped, and so is an event that
//! the end of the stream cut off. A line may end in CR LF, LF or CR.

/// Splits a stream of any length into events. It holds at most one event, within the size limit.
#[derive(Debug)]
pub(super) struct EventStreamParser {
    state: LineState,
    /// The name of the field, cut at a length that no known name reaches.
    name: Vec<u8>,
    /// The type of the event, cut at a length that no known type reaches.
    kind: Vec<u8>,
    data: Vec<u8>,
    /// The event has a line of data.
    has_data: bool,
    /// The last byte was a CR: an LF after it belongs to the same line end.
    is_after_return: bool,
    /// Nothing has arrived yet, except perhaps a byte order mark.
    is_first_line: bool,
    limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineState {
    LineStart,
    Name,
    /// A space after the colon is not a part of the value.
    ValueStart(EventField),
    Value(EventField),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventField {
    Data,
    Kind,
    /// A comment, or a field without a meaning here.
    Skipped,
}

/// An event is longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventTooLong;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Names and types are cut at this length. Every known name or type is shorter, even with a byte order mark.
const LONGEST_NAME: usize = 11;

impl EventStreamParser {
    /// A parser of events with up to this number of bytes of data.
    pub(super) fn new(limit: usize) -> Self {
        EventStreamParser {
            state: LineState::LineStart,
            name: Vec::new(),
            kind: Vec::new(),
            data: Vec::new(),
            has_data: false,
            is_after_return: false,
            is_first_line: true,
            limit,
        }
    }

    /// Takes bytes off the front, up to the end of an event, and returns the data of the event.
    pub(super) fn next_event(
        &mut self,
        bytes: &mut &[u8],
    ) -> Result<Option<Vec<u8>>, EventTooLong> {
        while let Some((&byte, behind)) = bytes.split_first() {
            let is_second_half = std::mem::take(&mut self.is_after_return) && byte == b'\n';
            if is_second_half {
                *bytes = behind;
            } else if matches!(byte, b'\r' | b'\n') {
                *bytes = behind;
                self.is_after_return = byte == b'\r';
                if let Some(event) = self.end_line()? {
                    return Ok(Some(event));
                }
            } else if let LineState::Value(field) = self.state {
                let length = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
                let (value, behind) = bytes.split_at(length.unwrap_or(bytes.len()));
                *bytes = behind;
                self.take_value(field, value)?;
            } else {
                let is_used = self.step(byte)?;
                *bytes = if is_used { behind } else { bytes };
            }
        }
        Ok(None)
    }

    /// Takes a byte before the value of a field. Returns `false` if the byte belongs to the value.
    fn step(&mut self, byte: u8) -> Result<bool, EventTooLong> {
        match (self.state, byte) {
            (LineState::LineStart | LineState::Name, b':') => {
                self.state = LineState::ValueStart(self.begin_value()?);
            }
            (LineState::LineStart | LineState::Name, _) => {
                self.state = LineState::Name;
                push_name(&mut self.name, &[byte]);
            }
            (LineState::ValueStart(field) | LineState::Value(field), _) => {
                self.state = LineState::Value(field);
                return Ok(byte == b' ');
            }
        }
        Ok(true)
    }

    /// Begins the value of the field whose name has come.
    fn begin_value(&mut self) -> Result<EventField, EventTooLong> {
        let name = std::mem::take(&mut self.name);
        let is_first_line = std::mem::take(&mut self.is_first_line);
        let bare = name.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first_line);
        Ok(match bare.unwrap_or(&name) {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.take_value(EventField::Data, b"\n")?;
                }
                EventField::Data
            }
            b"event" => {
                self.kind.clear();
                EventField::Kind
            }
            _ => EventField::Skipped,
        })
    }

    fn take_value(&mut self, field: EventField, value: &[u8]) -> Result<(), EventTooLong> {
        match field {
            EventField::Data if value.len() > self.limit - self.data.len() => {
                return Err(EventTooLong);
            }
            EventField::Data => self.data.extend_from_slice(value),
            EventField::Kind => push_name(&mut self.kind, value),
            EventField::Skipped => {}
        }
        Ok(())
    }

    /// Returns the data of an event that this line ends.
    fn end_line(&mut self) -> Result<Option<Vec<u8>>, EventTooLong> {
        let is_mark = self.is_first_line && self.name == BYTE_ORDER_MARK;
        match std::mem::replace(&mut self.state, LineState::LineStart) {
            LineState::Name if !is_mark => drop(self.begin_value()?),
            LineState::Name | LineState::LineStart => {
                self.name.clear();
                self.is_first_line = false;
                self.has_data = false;
                let (kind, data) = (std::mem::take(&mut self.kind), std::mem::take(&mut self.data));
                let is_message = matches!(&*kind, b"" | b"message");
                return Ok(Some(data).filter(|data| is_message && !data.is_empty()));
            }
            LineState::ValueStart(_) | LineState::Value(_) => {}
        }
        Ok(None)
    }
}

/// Appends to a name, up to the maximum length. A name of that length matches no known name.
fn push_name(name: &mut Vec<u8>, bytes: &[u8]) {
    let room = LONGEST_NAME - name.len();
    name.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::{EventStreamParser, EventTooLong};

    const LIMIT: usize = 20;

    /// The events of a stream in these pieces; the last may be an error.
    fn parse<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut parser = EventStreamParser::new(LIMIT);
        let mut events = Vec::new();
        for mut piece in pieces {
            loop {
                match parser.next_event(&mut piece) {
                    Ok(Some(event)) => events.push(String::from_utf8(event).expect("text")),
                    Ok(None) => break,
                    Err(EventTooLong) => {
                        events.push("too long".to_owned());
                        return events;
                    }
                }
            }
            assert!(piece.is_empty());
        }
        events
    }

    /// Checks the events of a stream that comes whole, byte by byte, and cut everywhere, with each line end.
    fn check(stream: &str, expected: &[&str]) {
        for line_end in ["\n", "\r\n", "\r"] {
            let stream = stream.replace('\n', line_end);
            let bytes = stream.as_bytes();
            assert_eq!(parse([bytes]), expected, "{stream:?}");
            assert_eq!(parse(bytes.chunks(1)), expected, "{stream:?} byte by byte");
            for at in 0..bytes.len() {
                let (one, two) = bytes.split_at(at);
                assert_eq!(parse([one, two]), expected, "{stream:?} cut at {at}");
            }
        }
    }

    #[test]
    fn t1_events_come_whole_however_the_stream_is_cut() {
        let rows: &[(&str, &[&str])] = &[
            ("", &[]),
            ("\n\n\n", &[]),
            ("data: {}\n\n", &["{}"]),
            ("data:{}\n\n", &["{}"]),
            ("data:  {}\n\n", &[" {}"]),
            ("data: 1\n\ndata: 2\n\n", &["1", "2"]),
            ("data: 1\n\n\n\ndata: 2\n\n", &["1", "2"]),
            ("data: [\ndata: 1\ndata: ]\n\n", &["[\n1\n]"]),
            ("data: a:b: c\n\n", &["a:b: c"]),
            // Comments, and fields without a meaning here.
            (": ping\n\n:\n\ndata: 1\n\n", &["1"]),
            ("id: 7\ndata: 1\n: x\nretry: 5\n\n", &["1"]),
            ("datadatadatadata: 1\ndat: 1\nDATA: 1\n data: 1\n\n", &[]),
            (": 0123456789012345678901234567890\n\ndata: 1\n\n", &["1"]),
            // Types.
            ("event: message\ndata: 1\n\n", &["1"]),
            ("data: 1\nevent: message\n\n", &["1"]),
            ("event: endpoint\ndata: 1\n\ndata: 2\n\n", &["2"]),
            ("event: messagemessage\ndata: 1\n\n", &[]),
            ("event: x\nevent: message\ndata: 1\n\n", &["1"]),
            ("event:\ndata: 1\n\n", &["1"]),
            ("event\ndata: 1\n\n", &["1"]),
            // Without data there is no event.
            ("id: 7\ndata:\n\ndata\n\ndata: 1\n\n", &["1"]),
            ("data\ndata\n\n", &["\n"]),
            ("data\ndata: 1\n\n", &["\n1"]),
            // A stream that is cut off.
            ("data: 1", &[]),
            ("data: 1\n", &[]),
            ("data: 1\n\ndata: 2\n", &["1"]),
            // A byte order mark.
            ("\u{feff}data: 1\n\n", &["1"]),
            ("\u{feff}: x\ndata: 1\n\n", &["1"]),
            ("\u{feff}\ndata: 1\n\n", &["1"]),
            ("\u{feff}event: x\ndata: 1\n\n", &[]),
            ("data: 1\n\n\u{feff}data: 2\n\n", &["1"]),
        ];
        for (stream, expected) in rows {
            check(stream, expected);
        }
    }

    #[test]
    fn f3_an_event_over_the_limit_ends_the_stream_where_it_passes_the_limit() {
        let rows: &[(&str, &[&str])] = &[
            ("data: 01234567890123456789\n\ndata: 1\n\n", &["01234567890123456789", "1"]),
            ("data: 1\n\ndata: 012345678901234567890", &["1", "too long"]),
            ("data: 0123456789\ndata: 0123456789\n\n", &["too long"]),
            ("event: x\ndata: 012345678901234567890", &["too long"]),
            ("data\n\ndata: 1\n\n", &["1"]),
        ];
        for (stream, expected) in rows {
            check(stream, expected);
        }
        let empty_lines = "data\n".repeat(LIMIT + 2);
        check(&empty_lines, &["too long"]);
    }

    #[test]
    fn f3_a_line_that_is_skipped_takes_no_memory() {
        let mut parser = EventStreamParser::new(LIMIT);
        for start in ["", ": ", "event: ", "id: ", "data: 1\n"] {
            let stream = format!("{start}{}", "x".repeat(100_000));
            assert_eq!(parser.next_event(&mut stream.as_bytes()), Ok(None));
            let held = parser.name.capacity() + parser.kind.capacity() + parser.data.capacity();
            assert!(held < 200, "{start:?}: {held}");
            assert_eq!(parser.next_event(&mut &b"\n"[..]), Ok(None));
        }
    }
}
