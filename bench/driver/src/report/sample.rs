//! Invented figures for tests: ours is a little slower than the limit, and ahead of both peers.

use crate::figures::{Curve, CurveKind, Figures, Latency, Life, Peak, Point, Row, SystemCalls};
use crate::load::{Load, Shape, TABLE};
use crate::roster::{LIMIT, OURS};
use crate::server::Place;
use crate::wire::Framing;

/// The servers, and how many times as long as the limit they take.
const SERVERS: [(&str, Framing, f64); 6] = [
    ("slow & <old> 2", Framing::Lsp, 28.0),
    ("quick 1.0", Framing::Lsp, 2.3),
    (OURS, Framing::Lsp, 1.1),
    (LIMIT, Framing::Lsp, 1.0),
    (LIMIT, Framing::Ndjson, 1.0),
    (OURS, Framing::Ndjson, 1.05),
];

pub fn figures() -> Figures {
    let mut figures = Figures { skipped: vec!["absent 3".to_owned()], ..Figures::default() };
    for (server, framing, factor) in SERVERS {
        add_server(&mut figures, server, framing, factor);
    }
    for kind in [CurveKind::PendingCalls, CurveKind::RunningRequests, CurveKind::Age] {
        figures.curves.push(curve(kind, OURS, 1.0));
    }
    figures
}

fn add_server(figures: &mut Figures, name: &str, framing: Framing, factor: f64) {
    let server = name.to_owned();
    for place in [Place::OneCore, Place::TwoCores] {
        for load in TABLE {
            let nanos = 5_000.0 * factor;
            let latency = Latency { p50: nanos as u32, p99: 2 * nanos as u32, p999: 60_000 };
            figures.rows.push(Row {
                server: server.clone(),
                framing,
                place,
                load,
                nanos: vec![nanos, nanos * 1.2, nanos * 0.9],
                cpu_nanos: vec![nanos / 2.0],
                switches: 1.0,
                latency: (load.window == 1).then_some(latency),
            });
        }
        figures.peaks.push(Peak { server: server.clone(), framing, place, kib: 4_000 });
    }
    let start_nanos = vec![1e6 * factor];
    figures.lives.push(Life { server: server.clone(), framing, start_nanos, idle_kib: 2_560 });
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

/// Flat, with the numbers of things that are looked at.
fn curve(kind: CurveKind, server: &str, factor: f64) -> Curve {
    let xs = match kind {
        CurveKind::Size => [64.0, 1e3, 64e3, 1e6],
        CurveKind::Age => [1e6, 2e6, 3e6, 4e6],
        _ => [0.0, 10.0, 1e3, 1e5],
    };
    let point = |x| Point { x, nanos: 700.0 * factor, resident_kib: 2_728 };
    Curve { kind, server: server.to_owned(), framing: Framing::Lsp, points: xs.map(point).to_vec() }
}
