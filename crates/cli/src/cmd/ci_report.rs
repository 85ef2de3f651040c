//! Reports for CI systems: JUnit XML and SARIF.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// Tests: each a name, and the texts of its failures.
pub(super) type Tests = Vec<(String, Vec<String>)>;

/// Suites with a name and tests.
pub(super) fn junit(suites: Vec<(&str, Tests)>) -> String {
    let counts = |tests: &[&Tests]| {
        let all = || tests.iter().copied().flatten();
        let failures = all().filter(|(_, failures)| !failures.is_empty()).count();
        format!("tests=\"{}\" failures=\"{failures}\" errors=\"0\"", all().count())
    };
    let all: Vec<_> = suites.iter().map(|(_, tests)| tests).collect();
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    // Writing to a string does not fail.
    let _ = writeln!(out, "<testsuites {}>", counts(&all));
    for (suite, tests) in suites {
        let _ = writeln!(out, "  <testsuite name=\"{}\" {}>", xml(suite), counts(&[&tests]));
        out += &cases(&xml(suite), tests);
        out += "  </testsuite>\n";
    }
    out + "</testsuites>\n"
}

fn cases(suite: &str, tests: Tests) -> String {
    let mut out = String::new();
    for (name, texts) in tests {
        let name = xml(&name);
        let Some(first) = texts.first() else {
            let _ = writeln!(out, "    <testcase classname=\"{suite}\" name=\"{name}\"/>");
            continue;
        };
        let _ = writeln!(out, "    <testcase classname=\"{suite}\" name=\"{name}\">");
        let (message, all) = (xml(first), xml(&texts.join("\n")));
        let _ = writeln!(out, "      <failure message=\"{message}\">{all}</failure>");
        let _ = writeln!(out, "    </testcase>");
    }
    out
}

/// A log of one run with these rules and results.
pub(super) fn sarif(rules: Vec<Value>, results: Vec<Value>) -> String {
    let driver = json!({
        "name": "duet-rpc",
        "version": env!("CARGO_PKG_VERSION"),
        "rules": rules,
    });
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    });
    format!("{log}\n")
}

/// Text for XML 1.0, which has no control characters.
pub(super) fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(letter),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ if letter.is_control() => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
    out
}

/// A path as a relative or absolute URI reference.
pub(super) fn uri(path: &str) -> String {
    let mut out = if path.starts_with('/') { "file://".to_owned() } else { String::new() };
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => out.push(byte.into()),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}
