//! The Markdown pages, and their code blocks.

use std::fs;
use std::path::{Path, PathBuf};

use super::support::programs::root;

/// A Markdown file.
pub(crate) struct Page {
    /// Path from the root of the repository.
    pub(crate) path: String,
    pub(crate) blocks: Vec<Block>,
    /// Lines outside of a plain block that show code, or may show code.
    pub(crate) unseen: Vec<String>,
    prose: String,
}

/// A fenced code block.
#[derive(Debug)]
pub(crate) struct Block {
    /// Line number of the opening fence.
    pub(crate) line: usize,
    /// Text after the opening fence.
    pub(crate) info: String,
    pub(crate) text: String,
    /// The line before the fence.
    before: String,
}

impl Block {
    pub(crate) fn language(&self) -> &str {
        self.info.split([',', ' ']).next().unwrap_or_default()
    }

    /// Value of a comment before the block, such as `<!-- file: PATH -->`.
    pub(crate) fn comment(&self, key: &str) -> Option<&str> {
        let comment = self.before.strip_prefix("<!-- ")?.strip_suffix(" -->")?;
        comment.strip_prefix(key)?.strip_prefix(": ")
    }
}

/// All pages of the repository.
pub(crate) fn pages() -> Vec<Page> {
    let paths = files(&root(), "md");
    assert!(paths.len() > 10, "{paths:?}");
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a page is text");
        let path = path.strip_prefix(root()).expect("the page is in the repository");
        Page::new(&path.display().to_string(), &text)
    };
    paths.iter().map(read).collect()
}

/// Files with this extension in a folder and its subfolders.
pub(crate) fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    collect(folder, extension, &mut paths);
    paths.sort();
    paths
}

fn collect(folder: &Path, extension: &str, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        // Skip fetched and built files.
        let others = ["target", "node_modules", ".git", ".venv"];
        let is_ours = !others.iter().any(|other| name == *other);
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && is_ours => collect(&path, extension, paths),
            // Skip links, because their target is listed itself.
            Ok(kind) if kind.is_file() && path.extension().is_some_and(|it| it == extension) => {
                paths.push(path);
            }
            _ => {}
        }
    }
}

const FENCE: &str = "```";

impl Page {
    fn new(path: &str, text: &str) -> Self {
        let (mut blocks, mut unseen) = (Vec::new(), Vec::new());
        let (mut prose, mut before) = (String::new(), "");
        let mut lines = text.lines().enumerate();
        let mut is_strange = |number: usize, line: &str| {
            unseen.push(format!("{path}:{}: `{line}`", number + 1));
        };
        while let Some((number, line)) = lines.next() {
            let Some(info) = line.trim_start().strip_prefix(FENCE) else {
                if may_be_code(before, line) {
                    is_strange(number, line);
                }
                prose.push_str(line);
                prose.push('\n');
                before = line;
                continue;
            };
            let indent = line.len() - line.trim_start().len();
            let (mut text, mut is_closed) = (String::new(), false);
            for (number, line) in lines.by_ref() {
                is_closed = line.trim() == FENCE;
                if is_closed {
                    break;
                }
                // Other parsers read a longer fence, or one that opens another block, differently.
                if line.trim_start().starts_with(FENCE) {
                    is_strange(number, line);
                }
                text.push_str(line.get(indent..).unwrap_or_default());
                text.push('\n');
            }
            if !is_closed {
                is_strange(number, line);
            }
            let comment = std::mem::take(&mut before).trim().to_owned();
            blocks.push(Block { line: number + 1, info: info.to_owned(), text, before: comment });
        }
        Page { path: path.to_owned(), blocks, unseen, prose }
    }

    /// Targets of its links within this repository.
    pub(crate) fn links(&self) -> Vec<String> {
        let ends = self.prose.split("](").skip(1);
        let links = ends.filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
        links.filter(|link| !link.contains("://")).map(str::to_owned).collect()
    }

    /// Returns true if a heading or an explicit anchor has this name.
    pub(crate) fn has_anchor(&self, anchor: &str) -> bool {
        if self.prose.contains(&format!("<a id=\"{anchor}\"></a>")) {
            return true;
        }
        let headings = self.prose.lines().filter(|line| line.starts_with('#'));
        headings.map(|line| line.trim_start_matches('#').trim()).any(|heading| {
            let kept = heading.to_lowercase().replace(' ', "-");
            let is_kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
            kept.chars().filter(is_kept).collect::<String>() == anchor
        })
    }
}

/// Returns true if a line may show code without a fence at the start of a line. Such code is not allowed.
fn may_be_code(before: &str, line: &str) -> bool {
    let has_fence = line.contains(FENCE) || line.contains("~~~");
    let is_indented = line.starts_with("    ") || line.starts_with('\t');
    let has_tag = line.contains("<pre") || line.contains("<code");
    has_fence || has_tag || (is_indented && before.trim().is_empty())
}

#[test]
fn code_outside_of_plain_blocks_is_found() {
    for (page, unseen) in [
        ("text\n\n```rust\nlet a = 1;\n```\n\ntext\n", 0),
        ("- item\n\n  ```rust\n  let a = 1;\n  ```   \n  text\n", 0),
        ("- item that is\n  longer\n    - another\n", 0),
        ("~~~rust\nlet a = 1;\n~~~\n", 2),
        ("> ```rust\n> let a = 1;\n> ```\n", 2),
        ("text\n\n    let a = 1;\n", 1),
        ("text\n\n\tlet a = 1;\n", 1),
        ("<pre>let a = 1;</pre>\n", 1),
        ("```text\na picture\n````\n\n```rust\nlet a = 1;\n```\n", 2),
        ("```rust\nlet a = 1;\n", 1),
    ] {
        assert_eq!(Page::new("page.md", page).unseen.len(), unseen, "{page}");
    }
    let page = Page::new("page.md", "<!-- file: a.rs -->\n```rust\n```\n```rust\n```\n");
    let files: Vec<_> = page.blocks.iter().map(|block| block.comment("file")).collect();
    assert_eq!(files, [Some("a.rs"), None]);
}
