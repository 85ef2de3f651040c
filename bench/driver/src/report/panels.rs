//! Small multiples: the servers on the left, and panels beside them that share their lines.

use crate::report::scale::Scale;
use crate::report::svg::{self, Anchor, Svg, width_of};
use crate::report::view::{Entrant, FRAMINGS, Role};
use crate::wire::Framing;

/// Heights of a server's line, of a framing's name, and of the gap between two framings.
const LINE: f64 = 17.0;
const HEADING: f64 = 17.0;
const BETWEEN: f64 = 6.0;

/// Space above the first panel for the title of the picture, above each panel for its own title of
/// one or two lines, and below for its axis.
const TOP: f64 = 74.0;
const TITLE_LINE: f64 = 16.0;
const AXIS: f64 = 40.0;

const SIDE: f64 = 20.0;
const PANEL: f64 = 235.0;
/// Space right of a panel's axis, for the label of its last value.
const VALUE: f64 = 62.0;

pub struct Panels<'a> {
    /// The servers, with the vertical positions of their lines in a panel.
    pub lines: Vec<(Entrant<'a>, f64)>,
    headings: Vec<(Framing, f64)>,
    panel_height: f64,
    title_height: f64,
    labels: f64,
    columns: usize,
    count: usize,
}

impl<'a> Panels<'a> {
    /// Lays out `count` panels, with `title_lines` lines of title each.
    pub fn new(entrants: &[Entrant<'a>], columns: usize, count: usize, title_lines: u8) -> Self {
        let (mut lines, mut headings) = (Vec::new(), Vec::new());
        let mut y = 0.0;
        for framing in FRAMINGS {
            let group = entrants.iter().filter(|entrant| entrant.framing == framing);
            let mut group = group.peekable();
            if group.peek().is_none() {
                continue;
            }
            headings.push((framing, y + HEADING / 2.0));
            y += HEADING;
            for entrant in group {
                lines.push((*entrant, y + LINE / 2.0));
                y += LINE;
            }
            y += BETWEEN;
        }
        let widths = entrants.iter().map(|entrant| width_of(entrant.server, style(*entrant)));
        let labels = widths.fold(0.0, f64::max) + 10.0;
        Panels {
            lines,
            headings,
            panel_height: y,
            title_height: TITLE_LINE * f64::from(title_lines),
            labels,
            columns: columns.min(count).max(1),
            count,
        }
    }

    pub fn size(&self) -> (f64, f64) {
        let rows = self.count.div_ceil(self.columns) as f64;
        let width = 2.0 * SIDE + self.labels + self.columns as f64 * PANEL;
        (width, TOP + rows * self.row_height())
    }

    /// Horizontal range of a panel's axis.
    pub fn axis(&self, index: usize) -> (f64, f64) {
        let left = SIDE + self.labels + (index % self.columns) as f64 * PANEL;
        (left, left + PANEL - VALUE)
    }

    /// Top of the lines of a panel.
    pub fn top(&self, index: usize) -> f64 {
        let row = (index / self.columns) as f64;
        TOP + self.title_height + row * self.row_height()
    }

    fn row_height(&self) -> f64 {
        self.title_height + self.panel_height + AXIS
    }

    /// Draws the title and axis of a panel, and the servers if it is the first of its row.
    pub fn draw(
        &self,
        svg: &mut Svg,
        index: usize,
        title: &[&str],
        scale: &Scale,
        shown: fn(f64) -> String,
    ) {
        let (top, left) = (self.top(index), self.axis(index).0);
        let bottom = top + self.panel_height;
        let mut y = top - self.title_height + TITLE_LINE / 2.0;
        for (text, style) in title.iter().zip([svg::HEADING, svg::NOTE]) {
            svg.text((left, y), text, style, Anchor::Start);
            y += TITLE_LINE;
        }
        for tick in scale.ticks() {
            let x = scale.at(tick);
            svg.line((x, top), (x, bottom), svg::GRID, 1.0);
            svg.text((x, bottom + 14.0), &shown(tick), svg::TICK, Anchor::Middle);
        }
        if index.is_multiple_of(self.columns) {
            let x = left - 10.0;
            for (framing, y) in &self.headings {
                let style = svg::TICK.bold(true);
                svg.text((SIDE, top + y + 4.0), framing.name(), style, Anchor::Start);
            }
            for (entrant, y) in &self.lines {
                svg.text((x, top + y + 4.0), entrant.server, style(*entrant), Anchor::End);
            }
        }
    }
}

pub fn style(entrant: Entrant<'_>) -> svg::Style {
    svg::LABEL.bold(entrant.role() == Role::Ours)
}
