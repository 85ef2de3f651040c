//! The verdict of each check, and the table.

use std::fmt::Write;

use super::super::report::shown_up_to;

/// Maximum length of a detail, without the advice.
const DETAIL: usize = 240;

/// One row of the table.
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
}

// Same name: the checks of an installation know no warnings.
pub(super) enum Verdict {
    Ok(String),
    /// The protocol allows it, or only some clients mind it.
    Warning {
        why: String,
        next: &'static str,
    },
    /// It hangs, loses or confuses a client.
    Fault {
        why: String,
        next: &'static str,
    },
    /// Not run, for this reason.
    Skipped(&'static str),
}

impl Verdict {
    pub(super) fn warning(why: impl Into<String>, next: &'static str) -> Verdict {
        Verdict::Warning { why: why.into(), next }
    }

    pub(super) fn fault(why: impl Into<String>, next: &'static str) -> Verdict {
        Verdict::Fault { why: why.into(), next }
    }

    /// The verdict of a check that has no server.
    pub(super) fn gone() -> Verdict {
        Verdict::Skipped("the server does not start any more")
    }
}

/// The number of faults and of warnings.
pub(super) fn count(findings: &[Finding]) -> (usize, usize) {
    let faults = findings.iter().filter(|it| matches!(it.verdict, Verdict::Fault { .. }));
    let warnings = findings.iter().filter(|it| matches!(it.verdict, Verdict::Warning { .. }));
    (faults.count(), warnings.count())
}

/// The table and the line below it.
pub(super) fn render(findings: &[Finding], in_color: bool) -> String {
    let mut text = String::from("| check           | result  | detail |\n");
    text.push_str("| --------------- | ------- | ------ |\n");
    for Finding { check, verdict } in findings {
        let (result, color, detail) = match verdict {
            Verdict::Ok(detail) => ("ok", "\x1b[32m", shown_up_to(DETAIL, detail)),
            Verdict::Warning { why, next } => ("warning", "\x1b[33m", with_next(why, next)),
            Verdict::Fault { why, next } => ("FAULT", "\x1b[31m", with_next(why, next)),
            Verdict::Skipped(why) => ("skipped", "", (*why).to_owned()),
        };
        let (color, plain) = match in_color && !color.is_empty() {
            true => (color, "\x1b[0m"),
            false => ("", ""),
        };
        // The only character with a meaning in a table.
        let detail = detail.replace('|', "\\|");
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {check:15} | {color}{result:7}{plain} | {detail} |");
    }
    let number = |count, what| match count {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let (faults, warnings) = count(findings);
    let _ = writeln!(text, "\n{}, {}", number(faults, "fault"), number(warnings, "warning"));
    text
}

fn with_next(why: &str, next: &str) -> String {
    format!("{}; next: {next}", shown_up_to(DETAIL, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c10_the_table_has_a_verdict_per_line() {
        let findings = [
            Finding { check: "start", verdict: Verdict::Ok("after 1 s".to_owned()) },
            Finding { check: "ids", verdict: Verdict::warning("a|b", "do this") },
            Finding { check: "stdout", verdict: Verdict::fault("saw\n/home/me/x", "do that") },
            Finding { check: "SIGINT", verdict: Verdict::gone() },
        ];
        let expect = "\
| check           | result  | detail |
| --------------- | ------- | ------ |
| start           | ok      | after 1 s |
| ids             | warning | a\\|b; next: do this |
| stdout          | FAULT   | saw\\nPATH; next: do that |
| SIGINT          | skipped | the server does not start any more |

1 fault, 1 warning
";
        assert_eq!(render(&findings, false), expect);
        let colored = render(&findings, true);
        assert!(colored.contains("| \x1b[31mFAULT  \x1b[0m | saw"), "{colored}");
        assert!(render(&findings[..1], false).ends_with("\nno faults, no warnings\n"));
    }
}
