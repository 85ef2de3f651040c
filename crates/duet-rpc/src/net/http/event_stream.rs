//! Parser of event streams (`text/event-stream`): takes bytes in any pieces, and returns the data of each event.
//!
//! A line is a field (`name: value`) or a comment, and an empty line ends the event. A line may end in CR LF, LF or CR.
//! Only `data` lines are kept. An event of another type than `message` is skipped, and so is an event that the end of
//! the stream cut off.

/// Splits a stream of any length into events. It holds at most one event, within the size limit.
#[derive(Debug)]
pub(super) struct EventStreamParser {
    /// The current line; only its start, unless it is a line of data.
    line: Vec<u8>,
    /// The lines of data of the current event, each with a line end.
    data: Vec<u8>,
    /// `true` unless the current event has another type.
    is_message: bool,
    /// The last byte was a CR: an LF after it belongs to the same line end.
    is_after_return: bool,
    /// No line has ended yet.
    is_first_line: bool,
    limit: usize,
}

/// An event is longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventTooLong;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Length of the start of a line that is kept. Every line with a meaning is shorter, or a line of data.
const LINE_START: usize = 24;

impl EventStreamParser {
    /// A parser of events with up to this number of bytes of data.
    pub(super) fn new(limit: usize) -> Self {
        EventStreamParser {
            line: Vec::new(),
            data: Vec::new(),
            is_message: true,
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
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.is_after_return) && first == b'\n' {
                *bytes = &bytes[1..];
                continue;
            }
            let length = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let (part, behind) = bytes.split_at(length.unwrap_or(bytes.len()));
            *bytes = behind;
            self.extend_line(part)?;
            if let Some((&end, behind)) = behind.split_first() {
                *bytes = behind;
                self.is_after_return = end == b'\r';
                if let Some(event) = self.end_line()? {
                    return Ok(Some(event));
                }
            }
        }
        Ok(None)
    }

    fn extend_line(&mut self, part: &[u8]) -> Result<(), EventTooLong> {
        let room = LINE_START.saturating_sub(self.line.len());
        let (start, rest) = part.split_at(room.min(part.len()));
        self.line.extend_from_slice(start);
        if let (b"data", value) = self.field() {
            self.check_room(value.len() + rest.len())?;
            self.line.extend_from_slice(rest);
        }
        Ok(())
    }

    /// Returns the data of an event that this line ends.
    fn end_line(&mut self) -> Result<Option<Vec<u8>>, EventTooLong> {
        let is_event = match self.field() {
            (b"data", value) => {
                self.check_room(value.len())?;
                let from = self.line.len() - value.len();
                self.data.extend_from_slice(&self.line[from..]);
                self.data.push(b'\n');
                false
            }
            (b"event", value) => {
                self.is_message = matches!(value, b"" | b"message");
                false
            }
            (name, value) => name.is_empty() && value.is_empty() && !self.line.starts_with(b":"),
        };
        // A long line gives its memory back.
        self.line = Vec::new();
        self.is_first_line = false;
        if !is_event {
            return Ok(None);
        }
        let mut data = std::mem::take(&mut self.data);
        data.pop();
        let is_message = std::mem::replace(&mut self.is_message, true);
        Ok(Some(data).filter(|data| is_message && !data.is_empty()))
    }

    /// Name and value of the field in the current line. A comment has no name.
    fn field(&self) -> (&[u8], &[u8]) {
        let mark = self.line.strip_prefix(BYTE_ORDER_MARK).filter(|_| self.is_first_line);
        let line = mark.unwrap_or(&self.line);
        let end = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(end);
        let value = value.strip_prefix(b":").unwrap_or(value);
        (name, value.strip_prefix(b" ").unwrap_or(value))
    }

    /// Fails if the event has no room for this many bytes of data.
    fn check_room(&self, bytes: usize) -> Result<(), EventTooLong> {
        if self.data.len() + bytes > self.limit { Err(EventTooLong) } else { Ok(()) }
    }
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
            let held = parser.line.capacity() + parser.data.capacity();
            assert!(held < 200, "{start:?}: {held}");
            assert_eq!(parser.next_event(&mut &b"\n"[..]), Ok(None));
        }
    }
}
