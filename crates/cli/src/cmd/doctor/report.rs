//! The report: a table that people can read and Markdown can render.

use std::fmt::Write;

/// One row of the table.
pub(super) struct Outcome {
    pub(super) check: &'static str,
    pub(super) profile: &'static str,
    pub(super) framing: &'static str,
    pub(super) verdict: Verdict,
}

pub(super) enum Verdict {
    /// The detail for the table.
    Passed(String),
    Failed(Failure),
    /// Not run, because a check that this one needs has failed.
    Skipped,
}

impl From<Result<String, Failure>> for Verdict {
    fn from(result: Result<String, Failure>) -> Verdict {
        result.map_or_else(Verdict::Failed, Verdict::Passed)
    }
}

/// Reason for a failed check, and the next step. Empty parts are not shown.
#[derive(Default)]
pub(super) struct Failure {
    pub(super) why: String,
    pub(super) sent: String,
    pub(super) expected: String,
    pub(super) saw: String,
    pub(super) stderr: String,
    pub(super) next: &'static str,
}

impl Failure {
    fn detail(&self) -> String {
        let Failure { sent, expected, saw, stderr, next, .. } = self;
        let parts = [("sent", sent), ("expected", expected), ("saw", saw), ("stderr", stderr)];
        let parts = parts.into_iter().filter(|(_, text)| !text.is_empty());
        let parts = parts.map(|(name, text)| format!("{name} {}; ", shown(text)));
        parts.collect::<String>() + "next: " + next
    }
}

/// Text of a program or of the system, made safe for a table in a bug report: short, without control
/// characters and paths.
pub(super) fn shown(text: &str) -> String {
    shown_up_to(80, text)
}

/// The same, with another length.
pub(super) fn shown_up_to(max_chars: usize, text: &str) -> String {
    const QUOTES: &str = "\"'`";
    let mut clean = String::new();
    let mut before = ' ';
    // Inside a path: the quote that ends it, or `None` if a blank does.
    let mut path: Option<Option<char>> = None;
    for c in text.trim_end().chars() {
        match path {
            Some(Some(quote)) if c != quote => continue,
            Some(None) if !(c.is_whitespace() || QUOTES.contains(c) || ",;)".contains(c)) => {
                continue;
            }
            _ => path = None,
        }
        if c == '/' && (before.is_whitespace() || QUOTES.contains(before) || "=(:".contains(before))
        {
            path = Some(QUOTES.contains(before).then_some(before));
        }
        before = c;
        match c {
            _ if path.is_some() => clean.push_str("PATH"),
            // Characters that change the text direction or are invisible.
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => {
                clean.extend(c.escape_unicode());
            }
            '\0' => clean.push_str("\\0"),
            _ if c.is_control() => clean.extend(c.escape_default()),
            _ => clean.push(c),
        }
    }
    match clean.char_indices().nth(max_chars - 1) {
        Some((end, last)) if end + last.len_utf8() < clean.len() => clean[..end].to_owned() + "…",
        _ => clean,
    }
}

/// The table and the line below it.
pub(super) fn render(outcomes: &[Outcome], in_color: bool) -> String {
    let mut text = String::new();
    let mut line = |cells: [&str; 5], color: Option<&str>| {
        // The only character with a meaning in a table.
        let [check, profile, framing, result, detail] = cells.map(|it| it.replace('|', "\\|"));
        let (color, plain) = color.map_or(("", ""), |color| (color, "\x1b[0m"));
        let _ = write!(text, "| {check:12} | {profile:7} | {framing:7} ");
        // A failure takes the width that it needs; the rows around it stay narrow.
        let _ = writeln!(text, "| {color}{result:7}{plain} | {detail} |");
    };
    line(["check", "profile", "framing", "result", "detail"], None);
    line(["------------", "-------", "-------", "-------", "------"], None);
    let (mut failed, mut skipped) = (0, 0);
    for Outcome { check, profile, framing, verdict } in outcomes {
        let (result, detail, color) = match verdict {
            Verdict::Passed(detail) => ("ok".to_owned(), detail.clone(), Some("\x1b[32m")),
            Verdict::Failed(failure) => {
                failed += 1;
                (format!("FAILED: {}", failure.why), failure.detail(), Some("\x1b[31m"))
            }
            Verdict::Skipped => {
                skipped += 1;
                ("skipped".to_owned(), "a check above failed".to_owned(), None)
            }
        };
        line([check, profile, framing, &result, &detail], color.filter(|_| in_color));
    }
    let all = outcomes.len();
    let _ = match (failed, skipped) {
        (0, 0) => writeln!(text, "\nall {all} checks passed"),
        (_, 0) => writeln!(text, "\n{failed} of {all} checks FAILED"),
        _ => writeln!(text, "\n{failed} of {all} checks FAILED, {skipped} skipped"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_short_escaped_and_without_paths() {
        for (text, expect) in [
            ("plain \"text\"", "plain \"text\""),
            ("\x1b[31mred\r\n\0", "\\u{1b}[31mred\\r\\n\\0"),
            ("a\u{202e}b\u{85}c", "a\\u{202e}b\\u{85}c"),
            ("at /home/me/x.rs, sink=/tmp/log 1/2", "at PATH, sink=PATH 1/2"),
            ("cannot start \"/home/my files/x\": no", "cannot start \"PATH\": no"),
            (
                r#"{"path":"/home/me","method":"$/cancelRequest"}"#,
                r#"{"path":"PATH","method":"$/cancelRequest"}"#,
            ),
        ] {
            assert_eq!(shown(text), expect);
        }
        let long = shown(&"é".repeat(81));
        assert_eq!((long.chars().count(), long.ends_with("é…")), (80, true));
        assert_eq!(shown(&"é".repeat(80)), "é".repeat(80));
    }

    #[test]
    fn table_has_a_row_for_each_check() {
        let outcome =
            |check, verdict| Outcome { check, profile: "editor", framing: "lsp", verdict };
        let failure = Failure {
            why: "no exit".to_owned(),
            sent: "a|b".to_owned(),
            saw: "c".to_owned(),
            next: "start it with exec",
            ..Failure::default()
        };
        let outcomes = [
            outcome("exit", Verdict::Failed(failure)),
            outcome("echo", Verdict::Passed("version".to_owned())),
            outcome("first answer", Verdict::Skipped),
        ];
        let expect = "\
| check        | profile | framing | result  | detail |
| ------------ | ------- | ------- | ------- | ------ |
| exit         | editor  | lsp     | FAILED: no exit | sent a\\|b; saw c; next: start it with exec |
| echo         | editor  | lsp     | ok      | version |
| first answer | editor  | lsp     | skipped | a check above failed |

1 of 3 checks FAILED, 1 skipped
";
        assert_eq!(render(&outcomes, false), expect);
        let colored = render(&outcomes, true);
        assert!(colored.contains("| \x1b[32mok     \x1b[0m | version |"), "{colored}");
        assert!(colored.contains("| \x1b[31mFAILED: no exit\x1b[0m |"), "{colored}");
        assert!(render(&outcomes[..1], false).ends_with("\n1 of 1 checks FAILED\n"));
        assert!(render(&outcomes[1..2], false).ends_with("\nall 1 checks passed\n"));
    }
}
