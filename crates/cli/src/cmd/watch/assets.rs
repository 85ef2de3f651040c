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

    #[test]
    fn the_page_names_no_other_server() {
        for asset in ASSETS {
            let content = asset.content.replace("http://www.w3.org/2000/svg", "");
            assert!(!content.contains("https://"), "{}", asset.path);
            assert!(!content.contains("http://"), "{}", asset.path);
        }
    }
}
