//! Invented figures for tests: ours is a little slower than the limit, and ahead of all peers.

use crate::contenders::{LIMIT, OURS, OURS_AS_TREE};
use crate::figures::{
    Curve, CurveKind, Fairness, Figures, Latency, Peak, Point, Row, Startup, SystemCalls,
};
use crate::load::{Load, Shape, TABLE};
use crate::server::Pinning;
use crate::sockets::{self, MANY, MANY_BUSY};
use crate::wire::Framing;

/// The servers, with their multiples of the limit's time.
const SERVERS: [(&str, Framing, f64); 6] = [
    ("slow & <old> 2", Framing::Lsp, 28.0),
    ("quick 1.0", Framing::Lsp, 2.3),
    (OURS, Framing::Lsp, 1.1),
    (LIMIT, Framing::Lsp, 1.0),
    (LIMIT, Framing::Ndjson, 1.0),
    (OURS, Framing::Ndjson, 1.05),
];

/// The same over sockets.
const LISTENING: [(&str, Framing, f64); 9] = [
    (LIMIT, Framing::Ndjson, 1.0),
    (OURS, Framing::Ndjson, 1.1),
    (OURS, Framing::WebSocket, 1.2),
    (OURS_AS_TREE, Framing::WebSocket, 1.3),
    ("rival 1", Framing::WebSocket, 2.0),
    ("rival 1, as a tree", Framing::WebSocket, 4.0),
    (OURS, Framing::Http, 1.5),
    ("rival 1", Framing::Http, 3.0),
    ("rival 1, as a tree", Framing::Http, 3.0),
];

pub fn figures() -> Figures {
    let mut figures = Figures { skipped: vec!["absent 3".to_owned()], ..Figures::default() };
    for (server, framing, factor) in SERVERS {
        add_server(&mut figures, server, framing, factor);
    }
    for kind in [CurveKind::PendingCalls, CurveKind::RunningRequests, CurveKind::Age] {
        figures.curves.push(curve(kind, OURS, 1.0));
    }
    figures.sockets = Some(Box::new(of_sockets()));
    figures
}

fn of_sockets() -> Figures {
    let mut figures = Figures::default();
    for (name, framing, factor) in LISTENING {
        let nanos = 10_000.0 * factor;
        for cores in [Pinning::OneCore, Pinning::TwoCores] {
            let takes = |load: &Load| framing != Framing::Http || load.window == 1;
            for load in sockets::loads().filter(takes) {
                figures.rows.push(row(name, framing, cores, load, nanos));
            }
        }
        if name == LIMIT {
            figures.rows.retain(|row| row.load != MANY);
            continue;
        }
        for (cores, factor) in [(Pinning::TwoCores, 4.0), (Pinning::BothCores, 2.5)] {
            let busy = row(name, framing, cores, MANY_BUSY, nanos * factor);
            figures.rows.push(Row { cpu_nanos: vec![nanos * factor], ..busy });
        }
        figures.fairness.push(Fairness {
            server: name.to_owned(),
            framing,
            connections: 1_000,
            median: 2_000_000,
            p99: 3_000_000,
            worst: 9_000_000,
            fewest: 90,
            most: 110,
        });
    }
    figures
}

fn row(server: &str, framing: Framing, cores: Pinning, load: Load, nanos: f64) -> Row {
    let latency = Latency { p50: nanos as u32, p99: 2 * nanos as u32, p999: 60_000 };
    Row {
        server: server.to_owned(),
        framing,
        cores,
        load,
        nanos: vec![nanos, nanos * 1.2, nanos * 0.9],
        cpu_nanos: vec![nanos / 2.0],
        driver_nanos: vec![nanos / 4.0],
        switches: 1.0,
        latency: (load.window == 1).then_some(latency),
    }
}

fn add_server(figures: &mut Figures, name: &str, framing: Framing, factor: f64) {
    let server = name.to_owned();
    for cores in [Pinning::OneCore, Pinning::TwoCores] {
        for load in TABLE {
            figures.rows.push(row(name, framing, cores, load, 5_000.0 * factor));
        }
        figures.peaks.push(Peak { server: server.clone(), framing, cores, kib: 4_000 });
    }
    let start_nanos = vec![1e6 * factor];
    figures.startups.push(Startup {
        server: server.clone(),
        framing,
        start_nanos,
        idle_kib: 2_560,
    });
    for (window, count) in [(1, 1.0), (64, 0.02)] {
        let load = Load::echo(window, 64, Shape::Text);
        let names = ["read", "write", "epoll_wait"].map(|name| (name.to_owned(), count));
        figures.system_calls.push(SystemCalls {
            server: server.clone(),
            framing,
            load,
            all: 3.0 * count,
            by_name: names.to_vec(),
        });
    }
    if framing == Framing::Lsp {
        figures.curves.push(curve(CurveKind::Size, name, factor));
    }
}

/// A flat curve, with the usual x values.
fn curve(kind: CurveKind, server: &str, factor: f64) -> Curve {
    let xs = match kind {
        CurveKind::Size => [64.0, 1e3, 64e3, 1e6],
        CurveKind::Age => [1e6, 2e6, 3e6, 4e6],
        _ => [0.0, 10.0, 1e3, 1e5],
    };
    let point = |x| Point { x, nanos: 700.0 * factor, resident_kib: 2_728 };
    Curve { kind, server: server.to_owned(), framing: Framing::Lsp, points: xs.map(point).to_vec() }
}
