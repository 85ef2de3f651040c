//! Writes a trace line by line.

use std::io::{self, Write};

use crate::encode;
use crate::header::Header;
use crate::record::{Body, Record};

/// Writes headers and records. A line is one `write_all`, unless it is large, so readers of the file
/// rarely see a torn one. Put a `BufWriter` around the output if nobody reads the file meanwhile.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    /// Kept from line to line.
    line: Vec<u8>,
}

/// A message of this size is not copied into the line.
const LARGE: usize = 32 * 1024;

/// The memory for a line that is kept after a long one.
const KEPT: usize = 1024 * 1024;

impl<W: Write> Writer<W> {
    /// A writer at the start of a file.
    pub fn new(output: W) -> Self {
        Writer { output, line: Vec::new() }
    }

    /// Writes a header and returns the number of bytes.
    ///
    /// # Errors
    ///
    /// If writing fails. The output may then end with a torn line.
    pub fn header(&mut self, header: &Header) -> io::Result<u64> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, header)?;
        self.line.push(b'\n');
        self.write_line()
    }

    /// Writes a record and returns the number of bytes.
    ///
    /// # Errors
    ///
    /// If writing fails. The output may then end with a torn line.
    pub fn record(&mut self, record: &Record<'_>) -> io::Result<u64> {
        self.line.clear();
        encode::write_before_message(record, &mut self.line);
        if let Some(Body::Msg(message)) = &record.body {
            if message.len() > LARGE {
                self.output.write_all(&self.line)?;
                self.output.write_all(message.as_bytes())?;
                self.output.write_all(encode::END)?;
                return Ok((self.line.len() + message.len() + encode::END.len()) as u64);
            }
            self.line.extend_from_slice(message.as_bytes());
        }
        self.line.extend_from_slice(encode::END);
        self.write_line()
    }

    /// Flushes the output.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    /// The output.
    pub fn get_ref(&self) -> &W {
        &self.output
    }

    /// Ends the trace and returns the output.
    pub fn into_inner(self) -> W {
        self.output
    }

    fn write_line(&mut self) -> io::Result<u64> {
        let written = self.output.write_all(&self.line);
        let count = self.line.len() as u64;
        if self.line.capacity() > KEPT {
            self.line = Vec::new();
        }
        written.map(|()| count)
    }
}
