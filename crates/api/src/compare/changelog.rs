//! The comparison as a changelog in Markdown.

use std::fmt::Write as _;

use super::{Change, ChangeRule, Comparison};
use crate::model::Document;

impl Comparison {
    /// The changes as a changelog, in Markdown: added, changed, deprecated, removed. Breaking ones are marked.
    pub fn changelog(&self, old: &Document, new: &Document) -> String {
        let (a, b) = (plain(&old.info.version), plain(&new.info.version));
        let versions = if a == b { b } else { format!("{b} (was {a})") };
        let mut out = format!("# {} {versions}\n", plain(&new.info.title));
        let breaking = self.breaking().count();
        let _ = match (self.changes.len(), breaking) {
            (0, _) => writeln!(out, "\nNo changes."),
            (_, 0) => writeln!(out, "\nNo breaking changes."),
            (_, 1) => writeln!(out, "\n1 breaking change."),
            (_, count) => writeln!(out, "\n{count} breaking changes."),
        };
        for section in ["Added", "Changed", "Deprecated", "Removed"] {
            let mut entries = self.changes.iter().filter(|it| section_of(it) == section).peekable();
            if entries.peek().is_some() {
                let _ = writeln!(out, "\n## {section}\n");
            }
            for entry in entries {
                let _ = writeln!(out, "- {}", line(entry));
            }
        }
        if self.omitted > 0 {
            let _ = writeln!(out, "\n{} more changes are left out.", self.omitted);
        }
        out
    }
}

fn section_of(change: &Change) -> &'static str {
    match change.rule {
        ChangeRule::MethodAdded | ChangeRule::Added => "Added",
        ChangeRule::MethodRemoved | ChangeRule::AliasRemoved | ChangeRule::Removed => "Removed",
        ChangeRule::Deprecation if !change.text.contains("no longer") => "Deprecated",
        _ => "Changed",
    }
}

fn line(change: &Change) -> String {
    let breaking = if change.is_breaking { "**Breaking:** " } else { "" };
    let client = if change.is_client_method { " (called by the server)" } else { "" };
    let path = match change.path.as_str() {
        "" => String::new(),
        path => format!(" {}", code(path)),
    };
    let text = plain(&change.text);
    format!("{breaking}{}{client}{path}: {text}", code(&change.method))
}

/// Code in Markdown, whatever the text is.
fn code(text: &str) -> String {
    let text = plain(text);
    // The fence must be longer than every run of backticks in the text.
    let longest = text.split(|it| it != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// One line of text.
fn plain(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect()
}
