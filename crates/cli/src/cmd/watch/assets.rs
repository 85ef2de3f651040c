//! The files of the page. They are part of the program, so that the page needs no installation and no other server.

/// A file: its path, media type and content.
pub(super) struct Asset {
    pub(super) path: &'static str,
    pub(super) media_type: &'static str,
    pub(super) content: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! assets {
    ($($path:literal $media_type:ident $file:literal)*) => {
        &[$(Asset {
            path: $path,
            media_type: $media_type,
            content: include_str!(concat!("page/", $file)),
        }),*]
    };
}

static ASSETS: &[Asset] = assets! {
    "/" HTML "index.html"
    "/icon.svg" SVG "icon.svg"
    "/base.css" CSS "base.css"
    "/views.css" CSS "views.css"
    "/detail.css" CSS "detail.css"
    "/theme.js" SCRIPT "theme.js"
    "/main.js" SCRIPT "main.js"
    "/body.js" SCRIPT "body.js"
    "/chart.js" SCRIPT "chart.js"
    "/detail.js" SCRIPT "detail.js"
    "/dom.js" SCRIPT "dom.js"
    "/format.js" SCRIPT "format.js"
    "/help.js" SCRIPT "help.js"
    "/json.js" SCRIPT "json.js"
    "/keys.js" SCRIPT "keys.js"
    "/list.js" SCRIPT "list.js"
    "/pairs.js" SCRIPT "pairs.js"
    "/records.js" SCRIPT "records.js"
    "/rows.js" SCRIPT "rows.js"
    "/rpc.js" SCRIPT "rpc.js"
    "/sequence.js" SCRIPT "sequence.js"
    "/sessions.js" SCRIPT "sessions.js"
    "/state.js" SCRIPT "state.js"
    "/stats.js" SCRIPT "stats.js"
    "/table.js" SCRIPT "table.js"
    "/terms.js" SCRIPT "terms.js"
    "/timeline.js" SCRIPT "timeline.js"
    "/tree.js" SCRIPT "tree.js"
};

/// The file with this path.
pub(super) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_page_is_served_and_every_import_exists() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cmd/watch/page");
        let files = fs::read_dir(folder).expect("the folder of the page").count();
        assert_eq!(files, ASSETS.len());
        for asset in ASSETS {
            for import in asset.content.split("from \"./").skip(1) {
                let name = import.split('"').next().unwrap_or_default();
                assert!(find(&format!("/{name}")).is_some(), "{} imports {name}", asset.path);
            }
        }
    }

    /// Markup in a message must stay text.
    #[test]
    fn scripts_never_parse_markup_or_code() {
        for asset in ASSETS.iter().filter(|asset| asset.media_type == SCRIPT) {
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "Function(",
            ] {
                assert!(!asset.content.contains(word), "{} uses {word}", asset.path);
            }
        }
    }

    /// The relative luminance of a colour such as `#1b1f24` (WCAG 2).
    fn luminance(color: &str) -> f64 {
        let part = |place: usize| {
            let byte = u8::from_str_radix(&color[place..place + 2], 16).expect("a colour");
            let part = f64::from(byte) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn every_text_has_enough_contrast_on_every_background_in_both_themes() {
        let style = find("/base.css").expect("a style sheet").content;
        for theme in [":root {", ":root[data-theme=\"dark\"] {"] {
            let block = style.split(theme).nth(1).and_then(|rest| rest.split('}').next());
            let block = block.expect("a theme");
            let color = |name: &str| {
                let rest = block.split(&format!("--{name}: ")).nth(1).expect("a colour");
                luminance(&rest[..7])
            };
            let texts = ["text", "muted", "accent", "green", "red", "amber", "violet"];
            let grounds = ["bg", "panel", "raised", "odd", "hover", "selected"];
            let tints = ["accent-soft", "red-soft", "amber-soft"];
            for text in texts {
                for ground in grounds.iter().chain(&tints) {
                    let (one, other) = (color(text), color(ground));
                    let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
                    assert!(contrast >= 4.5, "{theme} {text} on {ground}: {contrast:.2}");
                }
            }
        }
    }

    #[test]
    fn the_page_names_no_other_server() {
        for asset in ASSETS {
            let content = asset.content.replace("http://www.w3.org/2000/svg", "");
            assert!(!content.contains("https://"), "{}", asset.path);
            assert!(!content.contains("http://"), "{}", asset.path);
        }
    }
}
