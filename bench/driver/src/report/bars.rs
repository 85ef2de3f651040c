//! Charts that compare servers under each load.

use crate::load::{Load, Shape};
use crate::report::number;
use crate::report::panels::{Panels, style};
use crate::report::scale::{Kind, Scale};
use crate::report::svg::{self, Anchor, Svg, colour};
use crate::report::view::{Entrant, FIRST, Role, View};
use crate::server::Pinning;
use crate::wire::Framing;

/// One core, which shows the software.
const CORES: Pinning = Pinning::OneCore;

const COLUMNS: usize = 3;
const BAR: f64 = 11.0;
const DOT: f64 = 4.5;

/// Ratio to the bare loop for each server, under every load.
pub fn ratios(view: View<'_>) -> String {
    draw_ratios(view, view.entrants(CORES, FIRST), view.loads(CORES, false))
}

/// Ratio to the bare loop for each server of one framing, under two loads: the picture of the README.
pub fn overview(view: View<'_>) -> String {
    let mut entrants = view.entrants(CORES, FIRST);
    entrants.retain(|entrant| entrant.framing == Framing::Lsp && !entrant.role().is_limit());
    draw_ratios(view, entrants, vec![FIRST, Load::echo(64, 1_000, Shape::Nested)])
}

/// Bars that begin at the bare loop.
fn draw_ratios(view: View<'_>, mut entrants: Vec<Entrant<'_>>, loads: Vec<Load>) -> String {
    // The bars begin there.
    entrants.retain(|entrant| entrant.role() != Role::Limit);
    let ratio = |entrant: Entrant<'_>, load| view.ratio(entrant, CORES, load);
    let all = entrants.iter().flat_map(|e| loads.iter().filter_map(|load| ratio(*e, *load)));
    let range = range(all, (0.9, 10.0));
    let panels = Panels::new(&entrants, COLUMNS, loads.len(), 1);
    let (width, height) = panels.size();
    let mut svg = Svg::new(
        width,
        height,
        "Time a message takes, as a multiple of the bare loop's",
        "One core, log scale, shorter is better. Bars begin at 1: a loop that parses nothing.",
        "For each load a panel with a bar for each server: its time divided by the bare loop's in \
         the same framing. The table of ratios on one core has the same figures.",
    );
    for (index, load) in loads.into_iter().enumerate() {
        let scale = Scale::new(Kind::Log, range, panels.axis(index));
        panels.draw(&mut svg, index, &[&load.to_string()], &scale, number::multiple_on_axis);
        let (top, begin) = (panels.top(index), scale.at(1.0));
        for &(entrant, y) in &panels.lines {
            let Some(ratio) = ratio(entrant, load) else { continue };
            let (end, y) = (scale.at(ratio), top + y);
            let (left, right) = (begin.min(end), begin.max(end));
            let fill = colour(entrant.role());
            svg.rect((left, y - BAR / 2.0), (right - left).max(1.5), BAR, fill);
            let value = number::multiple(ratio);
            let style = svg::VALUE.bold(entrant.role() == Role::Ours);
            svg.text((right + 5.0, y + 4.0), &value, style, Anchor::Start);
        }
        if let (Some((_, first)), Some((_, last))) = (panels.lines.first(), panels.lines.last()) {
            let (first, last) = (top + first - BAR, top + last + BAR);
            svg.line((begin, first), (begin, last), svg::AXIS, 1.0);
        }
    }
    svg.finish()
}

/// Handlers that wait: the time of a message, and its CPU time.
pub fn waiting(view: View<'_>) -> String {
    let loads = view.loads(CORES, true);
    let mut entrants = view.entrants(CORES, loads.first().copied().unwrap_or(FIRST));
    // The bare loop does not wait.
    entrants.retain(|entrant| !entrant.role().is_limit());
    let both = |entrant: Entrant<'_>, load| {
        view.nanos(entrant, CORES, load).zip(view.cpu_nanos(entrant, CORES, load))
    };
    let all = entrants.iter().flat_map(|e| loads.iter().filter_map(|load| both(*e, *load)));
    let range = range(all.flat_map(|(nanos, cpu)| [nanos, cpu]), (1_000.0, 10_000.0));
    let panels = Panels::new(&entrants, COLUMNS, loads.len(), 2);
    let (width, height) = panels.size();
    let mut svg = Svg::new(
        width,
        height,
        "Time a message takes when its handler waits",
        "One core, log scale, further left is better. Full dots: time per message; rings: the \
         server's time on a core.",
        "For each load a panel with two dots for each server: the time for each message, and the \
         time on a core for each message. The table of handlers that wait has the same figures.",
    );
    for (index, load) in loads.into_iter().enumerate() {
        let scale = Scale::new(Kind::Log, range, panels.axis(index));
        let name = load.to_string();
        let (what, handler) = name.rsplit_once(", ").unwrap_or((&name, ""));
        panels.draw(&mut svg, index, &[what, handler], &scale, number::duration);
        for &(entrant, y) in &panels.lines {
            let Some((nanos, cpu)) = both(entrant, load) else { continue };
            let (fill, y) = (colour(entrant.role()), panels.top(index) + y);
            let (all, on_core) = (scale.at(nanos), scale.at(cpu));
            svg.line((all, y), (on_core, y), fill, 1.5);
            svg.ring((on_core, y), DOT, fill);
            svg.dot((all, y), DOT, fill, fill);
            let right = all.max(on_core) + DOT + 5.0;
            svg.text(
                (right, y + 4.0),
                &number::rounded_duration(nanos),
                style(entrant),
                Anchor::Start,
            );
        }
    }
    svg.finish()
}

/// The least and the most of the values, and at least `over`.
fn range(values: impl Iterator<Item = f64>, over: (f64, f64)) -> (f64, f64) {
    let positive = values.filter(|value| value.is_finite() && *value > 0.0);
    positive.fold(over, |(least, most), value| (least.min(value), most.max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::report::svg::tests::assert_well_formed;

    #[test]
    fn charts_are_well_formed_and_name_every_server() {
        let figures = sample::figures();
        for chart in [ratios(View(&figures)), waiting(View(&figures))] {
            assert_well_formed(&chart);
            for name in ["duet-rpc", "quick 1.0", "slow &amp; &lt;old&gt; 2", "lsp", "ndjson"] {
                assert!(chart.contains(&format!(">{name}</text>")), "{name}");
            }
        }
    }

    #[test]
    fn every_bar_has_its_value_beside_it() {
        let chart = ratios(View(&sample::figures()));
        assert_eq!(chart.matches(">28</text>").count(), 11);
        assert_eq!(chart.matches(">1.10</text>").count(), 11);
    }
}
