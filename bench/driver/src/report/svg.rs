//! Hand-written SVG: only lines, shapes and text on a light background.

use crate::report::view::Role;

/// Colours that are legible on the light background, which every picture includes.
const GROUND: &str = "#fdfdfc";
pub const INK: &str = "#1f2328";
pub const FAINT_INK: &str = "#59636e";
pub const GRID: &str = "#e3e5e8";
pub const AXIS: &str = "#a5abb3";

/// One strong colour for ours, a weak one for its variants, grey for the limit. Blue and orange are
/// distinct for all kinds of colour vision.
pub fn colour(role: Role) -> &'static str {
    match role {
        Role::Limit => "#57606a",
        Role::OtherLimit => "#98a1ab",
        Role::Ours => "#0a58ca",
        Role::OursTyped => "#4f93e8",
        Role::OursAsTree => "#7fb0f0",
        Role::Peer => "#dd9a3c",
    }
}

/// Colours for peers in one plot; each also gets a shape.
pub const PEER_COLOURS: [&str; 7] =
    ["#d55e00", "#009e73", "#b5508c", "#c99700", "#5b4b8a", "#8b5e3c", "#3a8fa8"];

#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Copy)]
pub struct Style {
    size: f64,
    bold: bool,
    ink: &'static str,
}

pub const TITLE: Style = Style { size: 16.0, bold: true, ink: INK };
pub const NOTE: Style = Style { size: 12.0, bold: false, ink: FAINT_INK };
pub const HEADING: Style = Style { size: 12.0, bold: true, ink: INK };
pub const LABEL: Style = Style { size: 12.0, bold: false, ink: INK };
pub const VALUE: Style = Style { size: 11.0, bold: false, ink: INK };
pub const TICK: Style = Style { size: 11.0, bold: false, ink: FAINT_INK };

impl Style {
    pub fn bold(self, bold: bool) -> Self {
        Style { bold, ..self }
    }
}

/// Upper bound of a text's width, because fonts differ.
pub fn width_of(text: &str, style: Style) -> f64 {
    let of_a_letter = if style.bold { 0.64 } else { 0.58 };
    text.chars().count() as f64 * style.size * of_a_letter
}

pub struct Svg {
    width: f64,
    height: f64,
    title: String,
    description: String,
    body: String,
}

impl Svg {
    /// A picture with a title, and a note below it.
    pub fn new(width: f64, height: f64, title: &str, note: &str, description: &str) -> Self {
        let mut svg = Svg {
            width,
            height,
            title: title.to_owned(),
            description: description.to_owned(),
            body: String::new(),
        };
        svg.text((20.0, 30.0), title, TITLE, Anchor::Start);
        svg.text((20.0, 50.0), note, NOTE, Anchor::Start);
        svg
    }

    pub fn rect(&mut self, (x, y): (f64, f64), width: f64, height: f64, fill: &str) {
        let (x, y, width, height) = (number(x), number(y), number(width), number(height));
        self.element(
            "rect",
            &[("x", &x), ("y", &y), ("width", &width), ("height", &height), ("fill", fill)],
        );
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64) {
        let [x1, y1, x2, y2, width] = [from.0, from.1, to.0, to.1, width].map(number);
        self.element(
            "line",
            &[
                ("x1", &x1),
                ("y1", &y1),
                ("x2", &x2),
                ("y2", &y2),
                ("stroke", stroke),
                ("stroke-width", &width),
            ],
        );
    }

    pub fn polyline(&mut self, points: &[(f64, f64)], stroke: &str, width: f64) {
        self.element(
            "polyline",
            &[
                ("points", &joined(points)),
                ("fill", "none"),
                ("stroke", stroke),
                ("stroke-width", &number(width)),
                ("stroke-linejoin", "round"),
            ],
        );
    }

    pub fn dot(&mut self, (x, y): (f64, f64), radius: f64, fill: &str, stroke: &str) {
        self.element(
            "circle",
            &[
                ("cx", &number(x)),
                ("cy", &number(y)),
                ("r", &number(radius)),
                ("fill", fill),
                ("stroke", stroke),
                ("stroke-width", "1.5"),
            ],
        );
    }

    /// A circle without a fill.
    pub fn ring(&mut self, at: (f64, f64), radius: f64, stroke: &str) {
        self.dot(at, radius, GROUND, stroke);
    }

    /// One of four shapes, for lines that colour alone may not distinguish.
    pub fn shape(&mut self, number: usize, (x, y): (f64, f64), size: f64, fill: &str) {
        let corners: &[(f64, f64)] = match number % 4 {
            0 => return self.dot((x, y), size, fill, fill),
            1 => &[(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)],
            2 => &[(0.0, -1.3), (1.2, 1.0), (-1.2, 1.0)],
            _ => &[(0.0, -1.4), (1.4, 0.0), (0.0, 1.4), (-1.4, 0.0)],
        };
        let corners: Vec<_> =
            corners.iter().map(|(dx, dy)| (x + dx * size, y + dy * size)).collect();
        self.element("polygon", &[("points", &joined(&corners)), ("fill", fill)]);
    }

    pub fn text(&mut self, (x, y): (f64, f64), text: &str, style: Style, anchor: Anchor) {
        if text.is_empty() {
            return;
        }
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if style.bold { "bold" } else { "normal" };
        self.body.push_str(&format!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\" font-weight=\"{weight}\" fill=\"{}\" \
             text-anchor=\"{anchor}\">{}</text>\n",
            number(x),
            number(y),
            number(style.size),
            style.ink,
            escape(text),
        ));
    }

    fn element(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.body.push_str(&format!("<{name}"));
        for (name, value) in attributes {
            self.body.push_str(&format!(" {name}=\"{}\"", escape(value)));
        }
        self.body.push_str("/>\n");
    }

    pub fn finish(self) -> String {
        let (width, height) = (number(self.width), number(self.height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" aria-labelledby=\"title desc\" \
             font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\">\n\
             <title id=\"title\">{}</title>\n<desc id=\"desc\">{}</desc>\n\
             <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{GROUND}\"/>\n{}</svg>\n",
            escape(&self.title),
            escape(&self.description),
            self.body
        )
    }
}

/// Tenths of a pixel are precise enough.
fn number(value: f64) -> String {
    format!("{}", (value * 10.0).round() / 10.0)
}

fn joined(points: &[(f64, f64)]) -> String {
    let points: Vec<_> =
        points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
    points.join(" ")
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Checks that elements are closed in order, attributes are quoted, and numbers are finite.
    pub fn assert_well_formed(svg: &str) {
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1) {
            let (tag, text) = tag.split_once('>').expect("a tag ends");
            assert!(!text.contains('>'), "{text}");
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name)),
                None if tag.ends_with('/') => {}
                None => open.push(tag.split_whitespace().next().unwrap()),
            }
        }
        assert!(open.is_empty(), "{open:?}");
        for entity in svg.split('&').skip(1) {
            let known = ["amp;", "lt;", "gt;", "quot;"];
            assert!(known.iter().any(|known| entity.starts_with(known)), "{entity:.20}");
        }
        assert!(svg.starts_with("<svg ") && !svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn pictures_are_well_formed_and_text_is_escaped() {
        let mut svg = Svg::new(100.0, 50.0, "a < b & \"c\"", "note", "said");
        svg.rect((1.0, 2.0), 3.0, 4.0, INK);
        svg.line((0.0, 0.0), (1.0, 1.0 / 3.0), GRID, 1.0);
        svg.polyline(&[(0.0, 0.0), (1.0, 2.0)], AXIS, 2.0);
        (0..4).for_each(|number| svg.shape(number, (5.0, 5.0), 3.0, INK));
        svg.text((0.0, 0.0), "</text>", LABEL, Anchor::End);
        let text = svg.finish();
        assert_well_formed(&text);
        assert!(text.contains("<title id=\"title\">a &lt; b &amp; &quot;c&quot;</title>"));
        assert!(text.contains(">&lt;/text&gt;</text>"));
        assert!(text.contains("y2=\"0.3\""));
    }
}
