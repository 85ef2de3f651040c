//! Wire examples: a `wire` block is a conversation with a server over its pipes.
//!
//! ```text
//! duet-rpc rpc --profile agent
//! → {"jsonrpc":"2.0","id":1,"method":"system.ping"}\n
//! ← {"jsonrpc":"2.0","id":1,"result":"pong"}\n
//! ```
//!
//! Lines with `→` are sent, lines with `←` must come back, byte for byte. Then stdin is closed, nothing more
//! may come, and the server must exit with 0.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;

use super::support::daemon::HANG;
use super::support::programs::{DUET_RPC, testbed};

/// One line of a conversation.
#[derive(Debug, PartialEq)]
enum WireStep {
    Write(Vec<u8>),
    Expect(Vec<u8>),
}

/// Runs the conversation of a block. Returns the first difference.
pub(crate) fn talk(block: &str) -> Result<(), String> {
    let mut lines = block.lines();
    let command = lines.next().unwrap_or_default();
    let steps = lines.map(step).collect::<Result<Vec<_>, _>>()?;
    if !steps.iter().any(|step| matches!(step, WireStep::Expect(_))) {
        return Err("nothing is expected".to_owned());
    }
    let mut words = command.split(' ');
    let mut command = match words.next() {
        Some("duet-rpc") => Command::new(DUET_RPC),
        Some("testbed") => Command::new(testbed()),
        program => return Err(format!("{program:?} is not a server that can be started here")),
    };
    command.args(words).env_remove("DUET_RPC_LOG");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = command.spawn().map_err(|error| error.to_string())?;
    let (mut stdin, stdout) = (server.stdin.take(), server.stdout.take());
    let (tell, told) = channel();
    thread::spawn(move || {
        let mut byte = [0];
        let mut stdout = stdout;
        while let Some(stdout) = &mut stdout
            && matches!(stdout.read(&mut byte), Ok(1))
            && tell.send(byte[0]).is_ok()
        {}
    });
    let mut held = (|| {
        let writes = steps.iter().rposition(|step| matches!(step, WireStep::Write(_)));
        for (number, step) in steps.into_iter().enumerate() {
            // After the last write, close stdin, so that a missing answer fails at the end of the output.
            if writes.is_none_or(|last| last < number) {
                drop(stdin.take());
            }
            match step {
                WireStep::Write(bytes) => {
                    let stdin = stdin.as_mut().ok_or("stdin is not a pipe")?;
                    stdin
                        .write_all(&bytes)
                        .and_then(|()| stdin.flush())
                        .map_err(|it| it.to_string())?;
                }
                WireStep::Expect(bytes) => {
                    let mut received = Vec::new();
                    while received.len() < bytes.len() && bytes.starts_with(&received) {
                        received
                            .push(told.recv_timeout(HANG).map_err(|_| differ(&bytes, &received))?);
                    }
                    if received != bytes {
                        // Read further output, for the failure message.
                        drop(stdin.take());
                        received.extend(told.iter());
                        return Err(differ(&bytes, &received));
                    }
                }
            }
        }
        Ok(())
    })();
    drop(stdin);
    let rest: Vec<u8> = told.iter().collect();
    let status = server.wait().map_err(|error| error.to_string())?;
    if held.is_ok() && !rest.is_empty() {
        held = Err(format!("further output:\n  {}", rest.escape_ascii()));
    }
    if held.is_ok() && !status.success() {
        held = Err(format!("the server ended with {status}"));
    }
    held
}

fn differ(expected: &[u8], received: &[u8]) -> String {
    let (expected, received) = (expected.escape_ascii(), received.escape_ascii());
    format!("expected:\n  {expected}\nreceived:\n  {received}")
}

fn step(line: &str) -> Result<WireStep, String> {
    if let Some(text) = line.strip_prefix("→ ") {
        return Ok(WireStep::Write(unescape(text)?));
    }
    match line.strip_prefix("← ") {
        Some(text) => Ok(WireStep::Expect(unescape(text)?)),
        None => Err(format!("neither → nor ←: `{line}`")),
    }
}

/// The bytes that a line stands for.
fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next() {
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'0') => 0,
            Some(b'\\') => b'\\',
            Some(b'x') => {
                let digits =
                    [rest.next(), rest.next()].map(|digit| char::from(digit.unwrap_or(b'?')));
                let byte = u8::from_str_radix(&String::from_iter(digits), 16);
                byte.map_err(|_| format!("\\x needs two digits: `{text}`"))?
            }
            _ => return Err(format!("unknown escape: `{text}`")),
        });
    }
    Ok(bytes)
}

#[test]
fn a_wrong_wire_example_is_noticed() {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"system.ping"}\n"#;
    let pong = r#"{"jsonrpc":"2.0","id":1,"result":"pong"}\n"#;
    let agent = "duet-rpc rpc --profile agent";
    for (block, is_right) in [
        (format!("{agent}\n→ {ping}\n← {pong}"), true),
        (format!("{agent}\n→ {ping}\n← {pong}\n→ {ping}{ping}\n← {pong}{pong}"), true),
        (format!("{agent}\n→ {ping}\n← {}", pong.replace("pong", "ping")), false),
        (format!("{agent}\n→ {ping}\n← {pong}{pong}"), false),
        (format!("{agent}\n→ {ping}{ping}\n← {pong}"), false),
        (format!("{agent}\n→ {ping}"), false),
        (format!("{agent}\n{ping}\n← {pong}"), false),
        (format!("{agent}\n→ {ping}\\q\n← {pong}"), false),
        (format!("{agent}\n→ {ping}\\x1\n← {pong}"), false),
        (format!("cat\n→ {ping}\n← {ping}"), false),
        (format!("{agent} --framing none\n→ {ping}\n← {pong}"), false),
    ] {
        let held = talk(&block);
        assert_eq!(held.is_ok(), is_right, "{block}\n{held:?}");
    }
    assert_eq!(unescape(r"a\r\n\t\0\\\x2B→").as_deref(), Ok("a\r\n\t\0\\+→".as_bytes()));
}
