//! Stderr log: prints failures of handlers if the application has installed no `tracing` subscriber.
//!
//! Without it, a handler that panics or fails would leave no trace: the client receives `Internal error`, and the
//! panic hook is silent inside handlers. A subscriber of our own would do the same, but then each message would
//! cost more, and the application could not install one later.

use std::fmt::{self, Display};
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::dispatcher::get_default;
use tracing::subscriber::NoSubscriber;

use crate::sys::print_or_drop;

/// The number of bytes that a writable pipe takes without blocking (`PIPE_BUF`).
const LONGEST_LINE: usize = 4096;

/// Set by `serve` and `Server`. Other programs decide themselves what to print to stderr.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Turns the log on.
pub(crate) fn enable() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// Prints that a handler failed.
pub(crate) fn handler_failed(method: &str, id: Option<&dyn Display>, error: &dyn Display) {
    if IS_ON.load(Ordering::Relaxed) && get_default(|dispatch| dispatch.is::<NoSubscriber>()) {
        print_or_drop(&line(method, id, error));
    }
}

/// The line, cut to a length that never blocks.
fn line(method: &str, id: Option<&dyn Display>, error: &dyn Display) -> String {
    let mut line = format!("error: handler failed: {error} (method {method:?}");
    if let Some(id) = id {
        line += &format!(", id {id}");
    }
    let mut line = Escaped(&(line + ")")).to_string();
    let cut = (0..LONGEST_LINE).rev().find(|&place| line.is_char_boundary(place));
    line.truncate(cut.unwrap_or(0));
    line.push('\n');
    line
}

/// A text without characters that could forge a line or control a terminal (G6).
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '"' | '\'' | '\\' => write!(f, "{character}"),
            _ => write!(f, "{}", character.escape_debug()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Escaped, LONGEST_LINE, line};

    #[test]
    fn g6_characters_that_control_a_terminal_are_escaped() {
        for (text, expect) in [
            (r#"a "quoted" \ text"#, r#"a "quoted" \ text"#),
            ("two\nlines", "two\\nlines"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("\u{202e}reversed", "\\u{202e}reversed"),
            ("Grüße", "Grüße"),
        ] {
            assert_eq!(Escaped(text).to_string(), expect);
        }
    }

    #[test]
    fn l8_line_is_cut_to_the_size_that_a_pipe_takes_without_blocking() {
        let text = line("add", Some(&7), &"ü".repeat(LONGEST_LINE));
        assert!(text.len() <= LONGEST_LINE && text.len() > LONGEST_LINE - 3, "{}", text.len());
        assert!(text.starts_with("error: handler failed: ü") && text.ends_with("ü\n"));
        let text = line("add", Some(&7), &"disk full");
        assert_eq!(text, "error: handler failed: disk full (method \"add\", id 7)\n");
    }
}
