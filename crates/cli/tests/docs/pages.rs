//! The pages for people, and the blocks in them.

use std::fs;
use std::path::{Path, PathBuf};

/// A file of Markdown.
pub(crate) struct Page {
    /// From the root of the repository.
    pub(crate) path: String,
    pub(crate) blocks: Vec<Block>,
    prose: String,
}

/// What stands between two fences.
#[derive(Debug)]
pub(crate) struct Block {
    /// The number of its first fence's line.
    pub(crate) line: usize,
    /// What stands behind the first fence.
    pub(crate) info: String,
    pub(crate) text: String,
    /// The line before the fence.
    before: String,
}

impl Block {
    pub(crate) fn language(&self) -> &str {
        self.info.split([',', ' ']).next().unwrap_or_default()
    }

    /// What a comment before it says, such as `<!-- file: PATH -->`.
    pub(crate) fn comment(&self, key: &str) -> Option<&str> {
        let comment = self.before.strip_prefix("<!-- ")?.strip_suffix(" -->")?;
        comment.strip_prefix(key)?.strip_prefix(": ")
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it is there")
}

/// All pages: in the root, in `docs`, beside crates and clients.
pub(crate) fn pages() -> Vec<Page> {
    let mut paths = Vec::new();
    for folder in [".", "docs", "bench", "fuzz", "packaging"] {
        collect(&root().join(folder), &mut paths);
    }
    for parent in ["crates", "clients"] {
        let Ok(folders) = fs::read_dir(root().join(parent)) else { continue };
        folders.flatten().for_each(|folder| collect(&folder.path(), &mut paths));
    }
    paths.sort();
    assert!(paths.len() > 10, "{paths:?}");
    paths.iter().map(|path| Page::read(path)).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let files = entries.flatten().map(|entry| entry.path());
    paths.extend(
        files
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
            .filter_map(|path| path.canonicalize().ok()),
    );
}

impl Page {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("a page is text");
        let path =
            path.strip_prefix(root()).expect("it is in the repository").display().to_string();
        let (mut blocks, mut prose, mut before) = (Vec::new(), String::new(), "");
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let Some(info) = line.trim_start().strip_prefix("```") else {
                prose.push_str(line);
                prose.push('\n');
                before = line;
                continue;
            };
            let indent = line.len() - line.trim_start().len();
            let mut text = String::new();
            for (_, line) in lines.by_ref().take_while(|(_, line)| line.trim_start() != "```") {
                text.push_str(line.get(indent..).unwrap_or_default());
                text.push('\n');
            }
            let before = before.trim().to_owned();
            blocks.push(Block { line: number + 1, info: info.to_owned(), text, before });
        }
        Page { path, blocks, prose }
    }

    /// Where its links lead to in this repository.
    pub(crate) fn links(&self) -> Vec<String> {
        let ends = self.prose.split("](").skip(1);
        let links = ends.filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
        links.filter(|link| !link.contains("://")).map(str::to_owned).collect()
    }

    /// Whether one of its headings has this name in links.
    pub(crate) fn has_anchor(&self, anchor: &str) -> bool {
        let headings = self.prose.lines().filter(|line| line.starts_with('#'));
        headings.map(|line| line.trim_start_matches('#').trim()).any(|heading| {
            let kept = heading.to_lowercase().replace(' ', "-");
            let is_kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
            kept.chars().filter(is_kept).collect::<String>() == anchor
        })
    }
}
