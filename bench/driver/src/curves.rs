//! Cost of a message against its size, against pending calls and requests, and against the age of
//! the process.

use std::io;

use crate::Effort;
use crate::contenders::OURS;
use crate::drive::Drive;
use crate::figures::{Curve, CurveKind, Point, median};
use crate::load::{Load, Shape};
use crate::server::{Contender, Pinning, Server};
use crate::table::{failed, warm_up};
use crate::wire::Framing;

const SMALL: Load = Load::echo(64, 64, Shape::Text);

const SIZES: [usize; 8] = [64, 256, 1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000];
const PENDING: [usize; 6] = [0, 10, 100, 1_000, 10_000, 100_000];
/// Number of points in the life of a process.
const AGES: u64 = 20;

pub fn measure(contenders: &[Contender], effort: Effort, millions: u64) -> io::Result<Vec<Curve>> {
    let mut curves = sizes(contenders, effort)?;
    let ours = |contender: &&Contender| contender.name == OURS && contender.framing == Framing::Lsp;
    if let Some(ours) = contenders.iter().find(ours) {
        let pending = [(CurveKind::PendingCalls, "pend"), (CurveKind::RunningRequests, "hold")];
        for (kind, method) in pending {
            curves.push(waiting(ours, kind, method, effort).map_err(|e| failed(ours, &e))?);
        }
        curves.push(age(ours, millions).map_err(|error| failed(ours, &error))?);
    }
    Ok(curves)
}

/// Measures the cost against the size. The servers take turns here too.
fn sizes(contenders: &[Contender], effort: Effort) -> io::Result<Vec<Curve>> {
    let mut entrants = Vec::new();
    for contender in contenders.iter().filter(|contender| contender.framing == Framing::Lsp) {
        let server = Server::start(contender).map_err(|error| failed(contender, &error))?;
        entrants.push((contender, server, Vec::new()));
    }
    for size in SIZES {
        eprintln!("cost against size: {size} B");
        let window = (128_000 / size).clamp(2, 64);
        let load = Load::echo(window, size, Shape::Nested);
        let mut drives = Vec::new();
        for (contender, server, _) in &entrants {
            server.pin(Pinning::OneCore);
            drives.push(warm_up(load, server, effort).map_err(|e| failed(contender, &e))?);
        }
        let mut nanos = vec![Vec::new(); entrants.len()];
        for _ in 0..effort.rounds {
            for (((contender, server, _), (drive, count)), nanos) in
                entrants.iter().zip(&mut drives).zip(&mut nanos)
            {
                let run = drive.run(server, *count).map_err(|error| failed(contender, &error))?;
                nanos.push(run.took.as_nanos() as f64 / *count as f64);
            }
        }
        for ((_, server, points), nanos) in entrants.iter_mut().zip(nanos) {
            points.push(point(size as f64, median(&nanos), server));
        }
    }
    let curve = |(contender, server, points): (&Contender, Server, Vec<Point>)| {
        server.end();
        Curve {
            kind: CurveKind::Size,
            server: contender.name.clone(),
            framing: contender.framing,
            points,
        }
    };
    Ok(entrants.into_iter().map(curve).collect())
}

fn point(x: f64, nanos: f64, server: &Server) -> Point {
    Point { x, nanos, resident_kib: server.memory_kib("VmRSS").unwrap_or_default() }
}

/// Measures the cost against pending work, with one server for each number, so that they can take
/// turns.
fn waiting(ours: &Contender, kind: CurveKind, method: &str, effort: Effort) -> io::Result<Curve> {
    eprintln!("cost against {kind:?}");
    let mut entrants = Vec::new();
    for pending in PENDING {
        let mut server = Server::start(ours)?;
        server.pin(Pinning::OneCore);
        match kind {
            CurveKind::PendingCalls => server.have_pending_calls(method, pending)?,
            _ => server.hold_requests(method, pending)?,
        }
        let (drive, count) = warm_up(SMALL, &server, effort)?;
        entrants.push((server, drive, count, Vec::new()));
    }
    for _ in 0..effort.rounds {
        for (server, drive, count, nanos) in &mut entrants {
            nanos.push(drive.run(server, *count)?.took.as_nanos() as f64 / *count as f64);
        }
    }
    let points = PENDING
        .into_iter()
        .zip(&entrants)
        .map(|(pending, (server, _, _, nanos))| point(pending as f64, median(nanos), server))
        .collect();
    Ok(Curve { kind, server: ours.name.clone(), framing: ours.framing, points })
}

/// Measures one process, from its first message to its last.
fn age(ours: &Contender, millions: u64) -> io::Result<Curve> {
    eprintln!("cost against age, up to {millions} million messages");
    let server = Server::start(ours)?;
    server.pin(Pinning::OneCore);
    let mut drive = Drive::new(SMALL, &server)?;
    let step = (millions * 1_000_000 / AGES) as usize;
    let mut points = Vec::new();
    for number in 1..=AGES {
        let nanos = drive.run(&server, step)?.took.as_nanos() as f64 / step as f64;
        points.push(point((number * step as u64) as f64, nanos, &server));
    }
    server.end();
    Ok(Curve { kind: CurveKind::Age, server: ours.name.clone(), framing: ours.framing, points })
}
