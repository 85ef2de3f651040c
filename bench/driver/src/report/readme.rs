//! The README tables: fewer loads, and one line for each form of the params.
//!
//! Ours has separate lines for text, typed params and a tree, so that each can be compared with
//! stacks that use the same form.

use crate::contenders::{OURS, OURS_AS_TREE, OURS_TYPED};
use crate::load::{Load, Shape};
use crate::report::markdown::{Align, Table};
use crate::report::number::{self, NONE};
use crate::report::tables::NOT_MEASURED;
use crate::report::view::{Entrant, FIRST, Role, View};
use crate::server::Pinning;
use crate::wire::Framing;

/// The columns: small and nested, one at a time and many.
const LOADS: [Load; 5] = [
    Load::echo(1, 64, Shape::Text),
    Load::echo(1, 1_000, Shape::Nested),
    Load::echo(64, 64, Shape::Text),
    Load::echo(64, 1_000, Shape::Nested),
    Load::echo(2, 1_000_000, Shape::Nested),
];

/// A line of the table: a server, in each of these framings.
struct TableLine<'a> {
    name: String,
    entrants: Vec<Entrant<'a>>,
}

/// Over stdin and stdout, on one core. Ours has one line for all framings.
pub fn pipes(view: View<'_>) -> String {
    let measured = view.entrants(Pinning::OneCore, FIRST);
    let mut names: Vec<&str> = vec![OURS, OURS_TYPED, OURS_AS_TREE];
    let mut peers: Vec<_> =
        measured.iter().copied().filter(|entrant| entrant.role() == Role::Peer).collect();
    let ratio = |entrant: &Entrant<'_>| view.ratio(*entrant, Pinning::OneCore, FIRST);
    let first = |entrant: &Entrant<'_>| ratio(entrant).unwrap_or(f64::MAX);
    peers.sort_by(|one, other| first(one).total_cmp(&first(other)));
    names.extend(peers.iter().map(|peer| peer.server));
    names.dedup();
    let line = |name: &str| TableLine {
        name: shown(name),
        entrants: measured.iter().copied().filter(|entrant| entrant.server == name).collect(),
    };
    table(view, &names.into_iter().map(line).collect::<Vec<_>>())
}

/// Over sockets, on one core: one line per transport.
pub fn sockets(view: View<'_>) -> String {
    let measured = view.entrants(Pinning::OneCore, FIRST);
    let takes_part = |entrant: &Entrant<'_>| !entrant.role().is_limit();
    table(view, &measured.into_iter().filter(takes_part).map(over).collect::<Vec<_>>())
}

fn over(entrant: Entrant<'_>) -> TableLine<'_> {
    let transport = match entrant.framing {
        Framing::WebSocket => "WebSocket",
        Framing::Http => "HTTP",
        _ => "TCP",
    };
    TableLine { name: format!("{} · {transport}", shown(entrant.server)), entrants: vec![entrant] }
}

/// Names of our own servers, with the form of the params.
fn shown(server: &str) -> String {
    match server {
        OURS => format!("**{OURS}**, params as text"),
        OURS_TYPED => format!("**{OURS}**, typed params"),
        OURS_AS_TREE => format!("**{OURS}**, params as a tree"),
        _ => server.to_owned(),
    }
}

fn table(view: View<'_>, lines: &[TableLine<'_>]) -> String {
    if lines.iter().all(|line| line.entrants.is_empty()) {
        return NOT_MEASURED.to_owned();
    }
    let titles = LOADS.map(|load| load.to_string());
    let mut head = vec![("", Align::Left)];
    head.extend(titles.iter().map(|title| (title.as_str(), Align::Right)));
    let mut table = Table::new(&head);
    let ranges: Vec<Vec<_>> =
        lines.iter().map(|line| LOADS.map(|load| range(view, line, load)).to_vec()).collect();
    let least = |column: usize| {
        let lows = ranges.iter().filter_map(|cells| cells[column].map(|(low, _)| low));
        lows.min_by(f64::total_cmp).map(number::multiple)
    };
    let least: Vec<_> = (0..LOADS.len()).map(least).collect();
    for (line, cells) in lines.iter().zip(&ranges) {
        let shown = cells.iter().zip(&least).map(|(cell, least)| match cell {
            Some((low, high)) => {
                let (low, high) = (number::multiple(*low), number::multiple(*high));
                let is_best = Some(&low) == least.as_ref();
                let text = if low == high { low } else { format!("{low}–{high}") };
                if is_best { format!("**{text}**") } else { text }
            }
            None => NONE.to_owned(),
        });
        table.add([line.name.clone()].into_iter().chain(shown));
    }
    table.finish()
}

/// Lowest and highest multiple of the bare loop's time.
fn range(view: View<'_>, line: &TableLine<'_>, load: Load) -> Option<(f64, f64)> {
    let ratio = |entrant: &Entrant<'_>| view.ratio(*entrant, Pinning::OneCore, load);
    let ratios: Vec<f64> = line.entrants.iter().filter_map(ratio).collect();
    let low = ratios.iter().copied().min_by(f64::total_cmp)?;
    let high = ratios.iter().copied().max_by(f64::total_cmp)?;
    Some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn each_form_of_the_params_has_a_line_even_without_figures() {
        let figures = sample::figures();
        let text = pipes(View(&figures));
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[2].starts_with("| **duet-rpc**, params as text | **1.05–1.10** |"), "{text}");
        assert!(lines[3].starts_with("| **duet-rpc**, typed params | – |"), "{text}");
        assert!(lines[4].starts_with("| **duet-rpc**, params as a tree | – |"), "{text}");
        assert!(lines[5].starts_with("| quick 1.0 | 2.3 |"), "{text}");
    }

    #[test]
    fn the_best_of_a_column_is_bold() {
        let mut figures = sample::figures();
        for row in figures.rows.iter_mut().filter(|row| row.server == "quick 1.0") {
            row.nanos.iter_mut().for_each(|nanos| *nanos /= 10.0);
        }
        let text = pipes(View(&figures));
        let quick = text.lines().find(|line| line.starts_with("| quick 1.0")).expect("a line");
        assert!(quick.contains("**0.23**"), "{text}");
        assert!(!text.contains("**1."), "{text}");
    }

    #[test]
    fn a_transport_has_a_line_of_its_own() {
        let figures = sample::figures();
        let text = sockets(View(figures.sockets.as_deref().expect("it has some")));
        for line in ["**duet-rpc**, params as text · TCP", "rival 1, as a tree · HTTP"] {
            assert!(text.contains(&format!("| {line} |")), "{text}");
        }
    }
}
