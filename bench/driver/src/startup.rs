//! Time from the start of a server to its first answer, and its idle memory.

use std::io;
use std::time::Instant;

use crate::Effort;
use crate::drive::Drive;
use crate::figures::{Startup, median};
use crate::load::{Load, Shape};
use crate::server::{Contender, Server};
use crate::table::failed;

const FIRST: Load = Load::echo(1, 64, Shape::Text);

pub fn measure(contenders: &[Contender], effort: Effort) -> io::Result<Vec<Startup>> {
    eprintln!("start to first answer");
    let startup = |contender: &Contender| Startup {
        server: contender.name.clone(),
        framing: contender.framing,
        start_nanos: Vec::new(),
        idle_kib: 0,
    };
    let mut startups: Vec<_> = contenders.iter().map(startup).collect();
    let mut memory = vec![Vec::new(); contenders.len()];
    // A start is short, and starts differ more than rounds of messages do.
    for _ in 0..effort.rounds * 3 {
        for ((contender, startup), memory) in contenders.iter().zip(&mut startups).zip(&mut memory)
        {
            let begun = Instant::now();
            let server = Server::start(contender).map_err(|error| failed(contender, &error))?;
            Drive::new(FIRST, &server).map_err(|error| failed(contender, &error))?;
            startup.start_nanos.push(begun.elapsed().as_nanos() as f64);
            memory.extend(server.memory_kib("VmRSS").map(|kib| kib as f64));
            server.end();
        }
    }
    for (startup, memory) in startups.iter_mut().zip(memory) {
        startup.idle_kib = median(&memory) as u64;
    }
    Ok(startups)
}
