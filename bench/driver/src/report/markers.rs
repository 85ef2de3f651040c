//! Inserts generated text into a document, between marker comments.

const BEGIN: (&str, &str) = ("<!-- figures: ", " -->");
const END: &str = "<!-- end of figures -->";

/// Returns the document with each block replaced. Text outside of the markers stays, and so does a
/// block without figures.
pub fn fill(document: &str, blocks: &[(&str, Option<String>)]) -> Result<String, String> {
    let mut filled = String::new();
    let mut missing: Vec<_> = blocks.iter().map(|(name, _)| *name).collect();
    let mut open = None;
    for line in document.split_inclusive('\n') {
        let begun = line.trim().strip_prefix(BEGIN.0).and_then(|rest| rest.strip_suffix(BEGIN.1));
        match (begun, open) {
            (Some(name), None) => {
                let Some((_, text)) = blocks.iter().find(|(known, _)| *known == name) else {
                    return Err(format!("there are no figures named {name}"));
                };
                missing.retain(|missing| *missing != name);
                open = Some((name, text.is_some()));
                match text {
                    Some(text) => {
                        filled += &format!("{}\n\n{}\n\n", line.trim_end(), text.trim_end());
                    }
                    None => filled += line,
                }
            }
            (Some(_), Some((name, _))) => return Err(without_end(name)),
            (None, Some((_, true))) if line.trim() != END => {}
            (None, None) if line.trim() == END => {
                return Err(format!("\"{END}\" without a beginning"));
            }
            (None, _) => {
                open = open.filter(|_| line.trim() != END);
                filled += line;
            }
        }
    }
    match (open, missing.as_slice()) {
        (Some((name, _)), _) => Err(without_end(name)),
        (None, []) => Ok(filled),
        (None, missing) => Err(format!(
            "no place for the figures named {}; write \"{}NAME{}\" and \"{END}\" where they belong",
            missing.join(", "),
            BEGIN.0,
            BEGIN.1
        )),
    }
}

fn without_end(name: &str) -> String {
    format!("the figures named {name} have no \"{END}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# Title\n<!-- figures: a -->\nold\n<!-- end of figures -->\nbetween\n\
                            <!-- figures: b -->\n<!-- end of figures -->\nend";

    fn blocks() -> [(&'static str, Option<String>); 2] {
        [("a", Some("new a\n".to_owned())), ("b", Some("new b".to_owned()))]
    }

    #[test]
    fn blocks_are_replaced_and_the_rest_stays() {
        let filled = fill(DOCUMENT, &blocks()).unwrap();
        assert_eq!(
            filled,
            "# Title\n<!-- figures: a -->\n\nnew a\n\n<!-- end of figures -->\nbetween\n\
             <!-- figures: b -->\n\nnew b\n\n<!-- end of figures -->\nend"
        );
        assert_eq!(fill(&filled, &blocks()).unwrap(), filled, "once more changes nothing");
    }

    #[test]
    fn blocks_without_figures_stay() {
        let [_, b] = blocks();
        let filled = fill(DOCUMENT, &[("a", None), b]).unwrap();
        assert!(filled.contains("a -->\nold\n<!--") && filled.contains("new b"), "{filled}");
        assert_eq!(fill(DOCUMENT, &[("a", None), ("b", None)]).unwrap(), DOCUMENT);
    }

    #[test]
    fn a_block_without_a_marker_is_reported() {
        let error = fill("nothing here", &blocks()).unwrap_err();
        assert!(error.contains("a, b"), "{error}");
    }

    #[test]
    fn a_marker_for_an_unknown_block_is_reported() {
        let error = fill("<!-- figures: c -->\n<!-- end of figures -->\n", &blocks()).unwrap_err();
        assert!(error.contains("named c"), "{error}");
    }

    #[test]
    fn unmatched_markers_are_refused() {
        for document in [
            "<!-- figures: a -->\n",
            "<!-- figures: a -->\n<!-- figures: b -->\n<!-- end of figures -->\n",
            "<!-- end of figures -->\n",
        ] {
            assert!(fill(document, &blocks()).is_err(), "{document}");
        }
    }
}
