//! Writes a trace line by line.

use std::io::{self, Write};

use crate::encode;
use crate::header::Header;
use crate::record::Record;

/// Writes headers and records, one `write_all` for each line, so that readers of the file rarely see
/// a torn one. Put a `BufWriter` around the output if nobody reads the file meanwhile.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    /// Kept from line to line.
    line: Vec<u8>,
}

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
        encode::write(record, &mut self.line);
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
