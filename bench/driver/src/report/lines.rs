//! Charts of the cost of a message against another quantity.

use crate::figures::{Curve, CurveKind, Point};
use crate::report::number;
use crate::report::scale::{Kind, Scale, spread};
use crate::report::svg::{self, Anchor, PEER_COLOURS, Svg, colour, width_of};
use crate::report::view::{Role, View};

const WIDTH: f64 = 820.0;
const LEFT: f64 = 76.0;
/// Space for the picture's title and the title of the first axis.
const TOP: f64 = 96.0;
const AXIS: f64 = 52.0;
/// Space between the labels of two lines.
const LABEL_GAP: f64 = 16.0;
/// Space between the plot and the labels.
const LABEL_LEFT: f64 = 34.0;

struct PlotLine {
    name: String,
    colour: &'static str,
    /// True for our own server, whose line stands out.
    is_strong: bool,
    shape: usize,
    points: Vec<(f64, f64)>,
}

struct Axis<'a> {
    title: &'a str,
    scale: Scale,
    shown: fn(f64) -> String,
}

/// One line per server.
pub fn size(view: View<'_>) -> String {
    let mut curves: Vec<_> = view.curves(CurveKind::Size).collect();
    // The line drawn last is in front of the others.
    curves.sort_by_key(|curve| {
        (Role::from_server(&curve.server) == Role::Ours, curve.server.clone())
    });
    let mut peers = 0;
    let mut lines = Vec::new();
    for curve in curves {
        let role = Role::from_server(&curve.server);
        let (colour, shape) = match role {
            Role::Peer => {
                peers += 1;
                (PEER_COLOURS[(peers - 1) % PEER_COLOURS.len()], peers)
            }
            role => (colour(role), 0),
        };
        let is_strong = role == Role::Ours;
        lines.push(line(&curve.server, colour, is_strong, shape, &nanos(curve)));
    }
    let height = 520.0;
    let right = right_of_plot(&lines);
    let across = |points: fn(&(f64, f64)) -> f64| {
        let values = lines.iter().flat_map(|line| &line.points).map(points);
        values.fold((f64::MAX, f64::MIN), |(least, most), v| (least.min(v), most.max(v)))
    };
    let mut svg = Svg::new(
        WIDTH,
        height,
        "Time a message takes, against its size",
        "One core, nested JSON, 64 requests at once or as many as make 128 KB, both scales \
         logarithmic.",
        "A line for each server: time for each message against the size of its params. The lines \
         rise with the size; lower is better.",
    );
    let (x, y) = match lines.is_empty() {
        true => ((64.0, 1e6), (1e3, 1e6)),
        false => (across(|point| point.0), across(|point| point.1)),
    };
    let x = Axis {
        title: "size of the params",
        scale: Scale::new(Kind::Log, x, (LEFT, right)),
        shown: number::bytes,
    };
    let y = Axis {
        title: "time per message",
        scale: Scale::new(Kind::Log, (y.0 * 0.8, y.1 * 1.2), (height - AXIS, TOP)),
        shown: number::duration,
    };
    plot(&mut svg, &x, &y, &lines);
    svg.finish()
}

/// One line for pending calls, and one for pending requests.
pub fn pending(view: View<'_>) -> String {
    let kinds = [
        (CurveKind::PendingCalls, "pending calls", colour(Role::Ours)),
        (CurveKind::RunningRequests, "running requests", PEER_COLOURS[0]),
    ];
    let mut lines = Vec::new();
    for (shape, (kind, name, colour)) in kinds.into_iter().enumerate() {
        if let Some(curve) = view.curves(kind).next() {
            lines.push(line(name, colour, true, shape, &nanos(curve)));
        }
    }
    let height = 400.0;
    let (most, most_nanos) = most(&lines);
    let mut svg = Svg::new(
        WIDTH,
        height,
        "Time a message takes, against how many others wait",
        "duet-rpc, one core, 64 B, 64 requests at once. A flat line is the goal.",
        "Two lines: time for each message against the number of calls to the client that are not \
         answered, and against the number of requests that are not answered.",
    );
    let x = Axis {
        title: "calls or requests that wait meanwhile",
        scale: Scale::new(Kind::ZeroAndLog, (0.0, most.max(10.0)), (LEFT, right_of_plot(&lines))),
        shown: number::grouped,
    };
    let scale = Scale::from_zero(most_nanos, (height - AXIS, TOP));
    plot(&mut svg, &x, &Axis { title: "time per message", scale, shown: number::duration }, &lines);
    svg.finish()
}

/// Two plots, one below the other: time and memory against messages served.
pub fn age(view: View<'_>) -> String {
    let points: &[Point] = view.curves(CurveKind::Age).next().map_or(&[], |curve| &curve.points);
    let time = |point: &Point| point.nanos;
    let memory = |point: &Point| point.resident_kib as f64 / 1024.0;
    let time = age_line(points, time, number::rounded_duration);
    let memory = age_line(points, memory, |mebibytes| format!("{mebibytes:.1} MiB"));
    let (plot_height, height) = (150.0, 520.0);
    let mut svg = Svg::new(
        WIDTH,
        height,
        "Time and memory, against the age of the process",
        "duet-rpc, one core, 64 B, 64 requests at once, all to one process. Flat lines are the \
         goal.",
        "Two plots of one line each: time for each message, and resident memory, against the \
         number of messages that the process has served.",
    );
    let right = right_of_plot(&time).min(right_of_plot(&memory));
    let messages = Scale::new(Kind::Linear, (0.0, most(&time).0.max(1e6)), (LEFT, right));
    let upper = (TOP + plot_height, TOP);
    let lower = (height - AXIS, height - AXIS - plot_height);
    plot(
        &mut svg,
        &Axis { title: "", scale: messages, shown: millions },
        &Axis {
            title: "time per message",
            scale: Scale::from_zero(most(&time).1, upper),
            shown: number::duration,
        },
        &time,
    );
    plot(
        &mut svg,
        &Axis { title: "messages served", scale: messages, shown: millions },
        &Axis {
            title: "resident memory, MiB",
            scale: Scale::from_zero(most(&memory).1, lower),
            shown: |mebibytes| number::hundredths(mebibytes).to_string(),
        },
        &memory,
    );
    svg.finish()
}

/// One line, labelled with its last value; none without points.
fn age_line(
    points: &[Point],
    value: impl Fn(&Point) -> f64,
    shown: fn(f64) -> String,
) -> Vec<PlotLine> {
    let points: Vec<_> = points.iter().map(|point| (point.x, value(point))).collect();
    let of_last =
        |(_, last): &(f64, f64)| line(&shown(*last), colour(Role::Ours), true, 0, &points);
    points.last().map(of_last).into_iter().collect()
}

fn millions(count: f64) -> String {
    match count {
        0.0 => "0".to_owned(),
        count => format!("{} million", number::hundredths(count / 1e6)),
    }
}

fn nanos(curve: &Curve) -> Vec<(f64, f64)> {
    curve.points.iter().map(|point| (point.x, point.nanos)).collect()
}

fn line(
    name: &str,
    colour: &'static str,
    is_strong: bool,
    shape: usize,
    points: &[(f64, f64)],
) -> PlotLine {
    let points = points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    PlotLine { name: name.to_owned(), colour, is_strong, shape, points }
}

fn most(lines: &[PlotLine]) -> (f64, f64) {
    let points = lines.iter().flat_map(|line| &line.points);
    points.fold((0.0, 0.0), |(x, y): (f64, f64), point| (x.max(point.0), y.max(point.1)))
}

/// The labels stand right of the plot.
fn right_of_plot(lines: &[PlotLine]) -> f64 {
    let widths = lines.iter().map(|line| width_of(&line.name, svg::LABEL.bold(line.is_strong)));
    WIDTH - 16.0 - LABEL_LEFT - widths.fold(0.0, f64::max)
}

/// Draws axes, lines, and a label at the end of each line.
fn plot(svg: &mut Svg, x: &Axis<'_>, y: &Axis<'_>, lines: &[PlotLine]) {
    let ((left, right), (bottom, top)) = (x.scale.positions(), y.scale.positions());
    svg.text((20.0, top - 14.0), y.title, svg::HEADING, Anchor::Start);
    svg.text((right, bottom + 36.0), x.title, svg::HEADING, Anchor::End);
    for tick in y.scale.ticks() {
        let at = y.scale.at(tick);
        svg.line((left, at), (right, at), svg::GRID, 1.0);
        svg.text((left - 8.0, at + 4.0), &(y.shown)(tick), svg::TICK, Anchor::End);
    }
    for tick in x.scale.ticks() {
        let at = x.scale.at(tick);
        svg.line((at, bottom), (at, bottom + 5.0), svg::AXIS, 1.0);
        svg.text((at, bottom + 18.0), &(x.shown)(tick), svg::TICK, Anchor::Middle);
    }
    svg.line((left, bottom), (right, bottom), svg::AXIS, 1.0);
    let mut ends = Vec::new();
    for line in lines {
        let position = |(px, py): &(f64, f64)| (x.scale.at(*px), y.scale.at(*py));
        let positions: Vec<_> = line.points.iter().map(position).collect();
        let (width, size) = if line.is_strong { (3.0, 4.0) } else { (1.6, 3.0) };
        svg.polyline(&positions, line.colour, width);
        for position in &positions {
            svg.shape(line.shape, *position, size, line.colour);
        }
        ends.push(positions.last().map_or(bottom, |(_, y)| *y));
    }
    let labels = spread(&ends, LABEL_GAP, top, bottom);
    for ((line, end), label) in lines.iter().zip(ends).zip(labels) {
        svg.line((right + 7.0, end), (right + 20.0, label), line.colour, 1.0);
        svg.shape(line.shape, (right + 25.0, label), 3.5, line.colour);
        let style = svg::LABEL.bold(line.is_strong);
        svg.text((right + LABEL_LEFT, label + 4.0), &line.name, style, Anchor::Start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::report::svg::tests::assert_well_formed;

    #[test]
    fn charts_are_well_formed_and_name_their_lines() {
        let figures = sample::figures();
        let view = View(&figures);
        let charts = [
            (size(view), "slow &amp; &lt;old&gt; 2"),
            (pending(view), "running requests"),
            (age(view), "2.7 MiB"),
        ];
        for (chart, name) in charts {
            assert_well_formed(&chart);
            assert!(chart.contains(&format!(">{name}</text>")), "{name}");
        }
    }

    #[test]
    fn a_flat_curve_is_a_flat_line() {
        let chart = pending(View(&sample::figures()));
        let line = chart.lines().find(|line| line.starts_with("<polyline")).unwrap();
        let points = line.split('"').nth(1).unwrap();
        let heights: Vec<_> = points.split(' ').filter_map(|point| point.split_once(',')).collect();
        assert_eq!(heights.len(), 4);
        assert!(heights.iter().all(|(_, y)| *y == heights[0].1), "{points}");
    }
}
