//! System calls of servers per message, counted by strace.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::process::{Command, Stdio};

use crate::drive::Drive;
use crate::figures::SystemCalls;
use crate::load::{Load, Shape};
use crate::server::{Contender, Server};
use crate::table::failed;

/// Counted loads: a round trip, and a pipeline of small messages.
const LOADS: [Load; 2] = [Load::echo(1, 1_000, Shape::Nested), Load::echo(64, 64, Shape::Text)];

/// The second run has twice as many messages, so the difference is the cost of messages alone.
const MESSAGES: usize = 6_400;

pub fn measure(
    contenders: &[Contender],
    takes: fn(&Contender, Load) -> bool,
) -> io::Result<Vec<SystemCalls>> {
    let strace = Command::new("strace").arg("-V").stdout(Stdio::null()).status();
    if !strace.is_ok_and(|status| status.success()) {
        eprintln!("skipped: system calls are not counted: strace is not installed");
        return Ok(Vec::new());
    }
    let mut counted = Vec::new();
    for load in LOADS {
        eprintln!("system calls: {load}");
        for contender in contenders.iter().filter(|contender| takes(contender, load)) {
            counted.push(count(contender, load).map_err(|error| failed(contender, &error))?);
        }
    }
    Ok(counted)
}

fn count(contender: &Contender, load: Load) -> io::Result<SystemCalls> {
    let once = count_life(contender, load, MESSAGES)?;
    let twice = count_life(contender, load, 2 * MESSAGES)?;
    let of_messages = |(name, &count): (&String, &u64)| {
        let more = count.saturating_sub(once.get(name).copied().unwrap_or_default());
        (name.clone(), more as f64 / MESSAGES as f64)
    };
    let mut by_name: Vec<_> =
        twice.iter().map(of_messages).filter(|(_, count)| *count > 0.0).collect();
    by_name.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    Ok(SystemCalls {
        server: contender.name.clone(),
        framing: contender.framing,
        load,
        all: by_name.iter().map(|(_, count)| count).sum(),
        by_name,
    })
}

/// System calls of a server that serves this many messages, by name.
fn count_life(
    contender: &Contender,
    load: Load,
    messages: usize,
) -> io::Result<BTreeMap<String, u64>> {
    let path = std::env::temp_dir().join(format!("bench-strace-{}", std::process::id()));
    let summary = path.display().to_string();
    let strace = ["strace", "-f", "-qq", "-c", "-U", "calls,name", "-o", &summary];
    let server = Server::start_under(&strace.map(str::to_owned), contender)?;
    Drive::new(load, &server)?.run(&server, messages)?;
    server.end();
    let text = fs::read_to_string(&path)?;
    fs::remove_file(&path)?;
    let count = |line: &str| {
        let (count, name) = line.trim().split_once(' ')?;
        Some((name.trim().to_owned(), count.parse().ok()?))
    };
    Ok(text.lines().filter_map(count).filter(|(name, _)| name != "total").collect())
}
