//! The limit: a loop that reads, finds frames, copies the id and the params, and writes back.
//!
//! It parses nothing, checks nothing, and relies on the exact form of the driver's requests. No
//! server that reads JSON can be faster on the same pipes.
//!
//! ```console
//! bench-limit lsp|ndjson|length [wide]
//! bench-limit tcp|ready
//! ```
//!
//! With `wide` it enlarges both pipes, as far as the system allows. The last two serve lines over
//! TCP.

mod sockets;

use std::os::fd::AsFd;
use std::process::ExitCode;

use rustix::buffer::spare_capacity;
use rustix::stdio::{stdin, stdout};

/// Lengths and texts around the id and the params in a request of the driver.
const BEFORE_ID: usize = br#"{"jsonrpc":"2.0","id":"#.len();
const ID_DIGITS: usize = 8;
const PARAMS: &[u8] = br#""params":"#;

const ROOM: usize = 256 * 1024;
const WIDE: usize = 1024 * 1024;

#[derive(Clone, Copy)]
enum Framing {
    Lsp,
    Ndjson,
    Length,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let framing = match arguments.next().as_deref() {
        Some("lsp") => Framing::Lsp,
        Some("ndjson") => Framing::Ndjson,
        Some("length") => Framing::Length,
        Some("tcp") => return exit_code(sockets::serve_each_on_a_thread()),
        Some("ready") => return exit_code(sockets::serve_when_ready()),
        _ => return ExitCode::from(2),
    };
    if arguments.next().as_deref() == Some("wide") {
        let _ = rustix::pipe::fcntl_setpipe_size(stdin(), WIDE);
        let _ = rustix::pipe::fcntl_setpipe_size(stdout(), WIDE);
    }
    exit_code(serve(framing, stdin(), stdout()))
}

fn exit_code<E>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve(framing: Framing, from: impl AsFd, to: impl AsFd) -> rustix::io::Result<()> {
    let (mut input, mut output) = (Vec::with_capacity(ROOM), Vec::with_capacity(ROOM));
    while serve_once(framing, &from, &to, &mut input, &mut output)? {}
    Ok(())
}

/// Reads once, and answers complete frames. Returns false at the end of the input.
fn serve_once(
    framing: Framing,
    from: impl AsFd,
    to: impl AsFd,
    input: &mut Vec<u8>,
    output: &mut Vec<u8>,
) -> rustix::io::Result<bool> {
    if rustix::io::read(from, spare_capacity(input))? == 0 {
        return Ok(false);
    }
    let mut done = 0;
    while let Some((start, end)) = next_frame(framing, &input[done..]) {
        answer(framing, &input[done + start..done + end], output);
        done += end;
    }
    input.drain(..done);
    if input.capacity() == input.len() {
        input.reserve(input.len());
    }
    let mut rest = &output[..];
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&to, rest)?..];
    }
    output.clear();
    Ok(true)
}

/// Start and end of the next body, if it is complete.
fn next_frame(framing: Framing, input: &[u8]) -> Option<(usize, usize)> {
    let (start, end) = match framing {
        Framing::Lsp => {
            let name = b"Content-Length: ".len();
            let digits = input.get(name..)?;
            let mut length = 0;
            let count = digits.iter().position(|&digit| {
                let is_digit = digit.is_ascii_digit();
                if is_digit {
                    length = length * 10 + usize::from(digit - b'0');
                }
                !is_digit
            })?;
            let start = name + count + b"\r\n\r\n".len();
            (start, start + length)
        }
        Framing::Ndjson => (0, memchr::memchr(b'\n', input)? + 1),
        Framing::Length => {
            let length = u32::from_be_bytes(*input.first_chunk()?);
            // A newline follows, which the length does not count.
            (4, 4 + length as usize + 1)
        }
    };
    (end <= input.len()).then_some((start, end))
}

fn answer(framing: Framing, body: &[u8], output: &mut Vec<u8>) {
    let id = &body[BEFORE_ID..BEFORE_ID + ID_DIGITS];
    let method = BEFORE_ID + ID_DIGITS;
    let Some(params) = memchr::memmem::find(&body[method..], PARAMS) else { return };
    let last = match framing {
        Framing::Lsp => body.len() - 1,
        Framing::Ndjson | Framing::Length => body.len() - 2,
    };
    let params = &body[method + params + PARAMS.len()..last];
    const PARTS: [&[u8]; 3] = [br#"{"jsonrpc":"2.0","id":"#, br#","result":"#, b"}"];
    let length = PARTS.iter().map(|part| part.len()).sum::<usize>() + id.len() + params.len();
    match framing {
        Framing::Lsp => {
            output.extend_from_slice(b"Content-Length: ");
            push_number(output, length);
            output.extend_from_slice(b"\r\n\r\n");
        }
        Framing::Ndjson => {}
        Framing::Length => output.extend_from_slice(&(length as u32).to_be_bytes()),
    }
    for part in [PARTS[0], id, PARTS[1], params, PARTS[2]] {
        output.extend_from_slice(part);
    }
    if !matches!(framing, Framing::Lsp) {
        output.push(b'\n');
    }
}

fn push_number(output: &mut Vec<u8>, number: usize) {
    if number >= 10 {
        push_number(output, number / 10);
    }
    output.push(b'0' + (number % 10) as u8);
}
