//! Makes tables and charts of the figures, and writes them into the folder of documents.

mod bars;
mod checks;
mod goals;
mod lines;
mod markdown;
mod markers;
mod number;
mod panels;
#[cfg(test)]
mod sample;
mod scale;
mod svg;
mod tables;
mod view;

use std::fs;
use std::io;
use std::path::Path;

use crate::figures::Figures;
use crate::server::Place;
use view::View;

/// The document that has the tables.
const DOCUMENT: &str = "PERFORMANCE.md";
/// The folder beside it that has the charts.
const CHARTS: &str = "performance";

pub fn write(figures: &Figures, docs: &Path) -> io::Result<()> {
    if figures.rows.is_empty() {
        return Err(io::Error::other("there are no figures to report; measure the table first"));
    }
    let view = View(figures);
    let document = docs.join(DOCUMENT);
    let said_of = |what: &dyn std::fmt::Display| format!("{}: {what}", document.display());
    let text = fs::read_to_string(&document).map_err(|e| io::Error::new(e.kind(), said_of(&e)))?;
    let text = markers::fill(&text, &blocks(view)).map_err(|e| io::Error::other(said_of(&e)))?;
    fs::write(&document, text)?;
    let folder = docs.join(CHARTS);
    fs::create_dir_all(&folder)?;
    for (name, chart) in charts(view) {
        fs::write(folder.join(name), chart)?;
    }
    eprintln!("written: {} and {}", document.display(), folder.display());
    Ok(())
}

fn blocks(view: View<'_>) -> Vec<(&'static str, String)> {
    vec![
        ("goals", goals::table(view)),
        ("table-one-core", tables::ratios(view, Place::OneCore)),
        ("table-two-cores", tables::ratios(view, Place::TwoCores)),
        ("waiting", tables::waiting(view)),
        ("latency", tables::latency(view)),
        ("cost", tables::cost(view)),
        ("system-calls", tables::system_calls(view)),
    ]
}

fn charts(view: View<'_>) -> [(&'static str, String); 5] {
    [
        ("ratios.svg", bars::ratios(view)),
        ("waiting.svg", bars::waiting(view)),
        ("size.svg", lines::size(view)),
        ("pending.svg", lines::pending(view)),
        ("age.svg", lines::age(view)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_a_place_for_every_table_and_shows_every_chart() {
        let text = include_str!("../../../../docs/PERFORMANCE.md");
        let figures = sample::figures();
        markers::fill(text, &blocks(View(&figures))).unwrap();
        for (name, _) in charts(View(&figures)) {
            assert!(text.contains(&format!("]({CHARTS}/{name})")), "{name}");
        }
    }

    #[test]
    fn what_was_not_measured_is_left_out_without_harm() {
        let mut figures = sample::figures();
        figures.rows.truncate(1);
        (figures.lives, figures.peaks) = (Vec::new(), Vec::new());
        (figures.system_calls, figures.curves) = (Vec::new(), Vec::new());
        for (name, text) in blocks(View(&figures)).into_iter().chain(charts(View(&figures))) {
            assert!(!text.is_empty() && !text.contains("NaN") && !text.contains("inf"), "{name}");
        }
    }

    #[test]
    fn nothing_is_written_without_figures() {
        let error = write(&Figures::default(), Path::new("/nowhere")).unwrap_err();
        assert!(error.to_string().contains("no figures"));
    }
}
