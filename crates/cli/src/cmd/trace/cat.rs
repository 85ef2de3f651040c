//! `trace cat`: writes the bytes that passed in one direction (R0).

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use duet_rpc_trace::{Dir, Entry, Reader, parts};

use crate::args::{CatArgs, DirName};
use crate::console;
use crate::exit::Exit;

/// Writes a direction of a trace to stdout.
pub(super) fn run(args: &CatArgs) -> Exit {
    let dir = match args.dir {
        DirName::C2s => Dir::C2s,
        DirName::S2c => Dir::S2c,
        DirName::Err => Dir::Err,
    };
    let mut output = match console::stdout() {
        Ok(output) => BufWriter::new(output.lock()),
        Err(error) => return console::cannot_write(&error),
    };
    let mut cat = Cat { dir, missing: None, is_ended: false, written: 0, passed: None };
    let copied = match args.file.to_str() {
        Some("-") => cat.copy(io::stdin().lock(), &mut output),
        _ => parts(&args.file).iter().try_for_each(|part| cat.copy(open(part)?, &mut output)),
    };
    match copied.and_then(|()| output.flush().map_err(CopyFailure::Writing)) {
        Ok(()) => {}
        Err(CopyFailure::Writing(error)) => return console::cannot_write(&error),
        Err(CopyFailure::Reading(error)) => {
            console::say(format_args!("cannot read {}: {error}", args.file.display()));
            return Exit::Failed;
        }
    }
    if !cat.is_ended {
        cat.miss("it has no end: the session still runs, or its tap was killed".to_owned());
    }
    cat.compare_lengths();
    match cat.missing {
        None => Exit::Success,
        Some(why) => {
            console::say(format_args!("the trace is not lossless: {why}"));
            Exit::Failed
        }
    }
}

enum CopyFailure {
    Reading(io::Error),
    Writing(io::Error),
}

struct Cat {
    dir: Dir,
    /// The first reason why bytes are missing.
    missing: Option<String>,
    is_ended: bool,
    /// The number of bytes that were written, and that passed when the session was recorded.
    written: u64,
    passed: Option<u64>,
}

impl Cat {
    fn copy(&mut self, input: impl Read, output: &mut impl Write) -> Result<(), CopyFailure> {
        let (mut reader, mut bytes) = (Reader::new(input), Vec::new());
        while let Some(entry) = reader.next_entry().map_err(CopyFailure::Reading)? {
            match entry {
                Entry::Header(header) if !header.is_supported() => {
                    self.miss(format!("its format is version {}", header.duet));
                }
                Entry::Record(record) => {
                    if let Some(end) = record.end {
                        self.is_ended = true;
                        // Programs that do not count write no numbers.
                        let is_counted = [end.c2s, end.s2c, end.err] != [0; 3];
                        let passed = match self.dir {
                            Dir::C2s => end.c2s,
                            Dir::S2c => end.s2c,
                            _ => end.err,
                        };
                        self.passed = is_counted.then_some(passed);
                        if !end.lossless {
                            self.miss("its recorder says so".to_owned());
                        }
                    }
                    if record.dir == self.dir {
                        bytes.clear();
                        if let Err(why) = record.write_wire(&mut bytes) {
                            self.miss(format!("record {}: {why}", record.seq));
                        }
                        self.written += bytes.len() as u64;
                        output.write_all(&bytes).map_err(CopyFailure::Writing)?;
                    }
                }
                Entry::Bad(line) => self.miss(line.to_string()),
                _ => {}
            }
        }
        if reader.torn() > 0 {
            self.miss(format!("the last {} bytes are not a whole line", reader.torn()));
        }
        Ok(())
    }

    /// Records can be missing: a part of a rotated trace was removed, or a line.
    fn compare_lengths(&mut self) {
        let written = self.written;
        if let Some(passed) = self.passed.filter(|&passed| passed != written) {
            self.miss(format!("it has {written} bytes of the {passed} that passed"));
        }
    }

    fn miss(&mut self, why: String) {
        self.missing.get_or_insert(why);
    }
}

fn open(path: &Path) -> Result<File, CopyFailure> {
    File::open(path).map_err(CopyFailure::Reading)
}
