//! Time from the start of a server to its first answer, and its idle memory.

use std::io;
use std::time::Instant;

use crate::Effort;
use crate::drive::Drive;
use crate::figures::{Life, median};
use crate::load::{Load, Shape};
use crate::server::{Contender, Server};
use crate::table::failed;

const FIRST: Load = Load::echo(1, 64, Shape::Text);

pub fn measure(roster: &[Contender], effort: Effort) -> io::Result<Vec<Life>> {
    eprintln!("start to first answer");
    let life = |contender: &Contender| Life {
        server: contender.name.clone(),
        framing: contender.framing,
        start_nanos: Vec::new(),
        idle_kib: 0,
    };
    let mut lives: Vec<_> = roster.iter().map(life).collect();
    let mut memory = vec![Vec::new(); roster.len()];
    // A start is short, and starts differ more than rounds of messages do.
    for _ in 0..effort.rounds * 3 {
        for ((contender, life), memory) in roster.iter().zip(&mut lives).zip(&mut memory) {
            let begun = Instant::now();
            let server = Server::start(contender).map_err(|error| failed(contender, &error))?;
            Drive::new(FIRST, &server).map_err(|error| failed(contender, &error))?;
            life.start_nanos.push(begun.elapsed().as_nanos() as f64);
            memory.extend(server.memory_kib("VmRSS").map(|kib| kib as f64));
            server.end();
        }
    }
    for (life, memory) in lives.iter_mut().zip(memory) {
        life.idle_kib = median(&memory) as u64;
    }
    Ok(lives)
}
