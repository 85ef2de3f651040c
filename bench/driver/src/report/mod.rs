//! Generates tables and charts from the figures, and writes them into the documents.

mod bars;
mod checks;
mod goals;
mod lines;
mod markdown;
mod markers;
mod number;
mod panels;
mod readme;
#[cfg(test)]
mod sample;
mod scale;
mod socket_goals;
mod socket_tables;
mod svg;
mod tables;
mod view;

use std::fs;
use std::io;
use std::path::Path;

use crate::figures::Figures;
use crate::server::Pinning;
use view::View;

/// Document with all tables.
const DOCUMENT: &str = "PERFORMANCE.md";
/// Document with the most important tables, relative to the docs folder.
const README: &str = "../README.md";
/// Folder of the charts.
const CHARTS: &str = "performance";

pub fn write(figures: &Figures, docs: &Path) -> io::Result<()> {
    let of_pipes = (!figures.rows.is_empty()).then_some(View(figures));
    let of_sockets = figures.sockets.as_deref().map(View);
    if of_pipes.is_none() && of_sockets.is_none() {
        return Err(io::Error::other("there are no figures to report; measure the table first"));
    }
    let document = docs.join(DOCUMENT);
    fill(&document, &blocks(of_pipes, of_sockets))?;
    fill(&docs.join(README), &blocks_of_readme(of_pipes, of_sockets))?;
    let folder = docs.join(CHARTS);
    fs::create_dir_all(&folder)?;
    for (name, chart) in of_pipes.into_iter().flat_map(charts) {
        fs::write(folder.join(name), chart)?;
    }
    eprintln!("written: {} and {}", document.display(), folder.display());
    Ok(())
}

/// Inserts tables into a document.
fn fill(document: &Path, blocks: &[Block]) -> io::Result<()> {
    let said_of = |what: &dyn std::fmt::Display| format!("{}: {what}", document.display());
    let text = fs::read_to_string(document).map_err(|e| io::Error::new(e.kind(), said_of(&e)))?;
    let text = markers::fill(&text, blocks).map_err(|e| io::Error::other(said_of(&e)))?;
    fs::write(document, text)
}

/// A named table; `None` if it was not measured.
type Block = (&'static str, Option<String>);

fn blocks_of_readme(of_pipes: Option<View<'_>>, of_sockets: Option<View<'_>>) -> [Block; 2] {
    [("pipes", of_pipes.map(readme::pipes)), ("sockets", of_sockets.map(readme::sockets))]
}

/// All tables of the document.
fn blocks(of_pipes: Option<View<'_>>, of_sockets: Option<View<'_>>) -> Vec<Block> {
    type Make = fn(View<'_>) -> String;
    let from_pipes: [(_, Make); 7] = [
        ("goals", goals::table),
        ("table-one-core", |view| tables::ratios(view, Pinning::OneCore)),
        ("table-two-cores", |view| tables::ratios(view, Pinning::TwoCores)),
        ("waiting", tables::waiting),
        ("latency", |view| tables::latency(view, tables::FRAMING)),
        ("cost", tables::cost),
        ("system-calls", |view| tables::system_calls(view, tables::FRAMING)),
    ];
    let from_sockets: [(_, Make); 8] = [
        ("sockets-goals", socket_goals::table),
        ("sockets-one-core", |view| socket_tables::ratios(view, Pinning::OneCore)),
        ("sockets-two-cores", |view| socket_tables::ratios(view, Pinning::TwoCores)),
        ("sockets-latency", |view| tables::latency(view, tables::OVER)),
        ("sockets-system-calls", |view| tables::system_calls(view, tables::OVER)),
        ("sockets-connections", socket_tables::many),
        ("sockets-cores", socket_tables::cores),
        ("sockets-fairness", socket_tables::fairness),
    ];
    let pipes = from_pipes.into_iter().map(|(name, make)| (name, of_pipes.map(make)));
    let sockets = from_sockets.into_iter().map(|(name, make)| (name, of_sockets.map(make)));
    pipes.chain(sockets).collect()
}

fn charts(view: View<'_>) -> [(&'static str, String); 6] {
    [
        ("overview.svg", bars::overview(view)),
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
        let of_sockets = figures.sockets.as_deref().map(View);
        let blocks = blocks(Some(View(&figures)), of_sockets);
        assert!(blocks.iter().all(|(_, text)| text.is_some()));
        markers::fill(text, &blocks).unwrap();
        let readme = include_str!("../../../../README.md");
        markers::fill(readme, &blocks_of_readme(Some(View(&figures)), of_sockets)).unwrap();
        for (name, _) in charts(View(&figures)) {
            assert!(text.contains(&format!("]({CHARTS}/{name})")), "{name}");
        }
    }

    #[test]
    fn missing_figures_are_left_out() {
        let mut figures = sample::figures();
        figures.rows.truncate(1);
        (figures.startups, figures.peaks) = (Vec::new(), Vec::new());
        (figures.system_calls, figures.curves) = (Vec::new(), Vec::new());
        let mut of_sockets = figures.sockets.clone().unwrap();
        of_sockets.rows.truncate(1);
        (of_sockets.system_calls, of_sockets.fairness) = (Vec::new(), Vec::new());
        let blocks = blocks(Some(View(&figures)), Some(View(&of_sockets)));
        let texts = blocks.into_iter().map(|(name, text)| (name, text.unwrap()));
        for (name, text) in texts.chain(charts(View(&figures))) {
            assert!(!text.is_empty() && !text.contains("NaN") && !text.contains("inf"), "{name}");
        }
    }

    #[test]
    fn a_part_without_figures_has_no_tables() {
        let figures = sample::figures();
        let count = |of_pipes, of_sockets| {
            blocks(of_pipes, of_sockets).iter().filter(|(_, text)| text.is_some()).count()
        };
        assert_eq!(count(Some(View(&figures)), None), 7);
        assert_eq!(count(None, figures.sockets.as_deref().map(View)), 8);
    }

    #[test]
    fn nothing_is_written_without_figures() {
        let error = write(&Figures::default(), Path::new("/nowhere")).unwrap_err();
        assert!(error.to_string().contains("no figures"));
    }
}
