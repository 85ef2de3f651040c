//! JSON texts to send: ids, values and envelopes, each in one of many valid forms.

use super::prelude::*;

/// An id, as written. It contains the number, so that all ids differ.
pub(super) fn id(random: &mut Random, number: u64) -> String {
    match random.below(14) {
        0 => format!("{number}.0"),
        1 => format!("-{number}"),
        2 => format!("{}{number:020}", "9".repeat(20)),
        3 => format!("{number}e3"),
        4 => format!("{number}E+0"),
        5 => format!("\"{number}\""),
        6 => format!(r#""\u00e9\\\"\n\/{number}""#),
        7 => format!("\"é☃𝄞 {number}\""),
        8 => format!("\"{}{number}\"", "long ".repeat(random.below(60))),
        9 => format!("{number}.{number}e-{number}"),
        _ => number.to_string(),
    }
}

/// Ids without a number. Each may be in use only once.
pub(super) const FIXED_IDS: [&str; 6] = ["-0", "0", "null", "\"\"", "-0.0", "1e400"];

const NUMBERS: [&str; 5] = ["-0", "0.5", "-1.25e-300", "1e999", "123456789012345678901234567890"];

/// Parts of strings, as written.
const PARTS: &str = concat!(
    r#"a|word |é|☃|𝄞|\n|\"|\\|\/|\u0000|\ud834\udd1e|Content-Length: 5|{}[]|\r\n"#,
    "|\u{7f}|\u{2028}"
);

/// A value, with white space where that is allowed.
pub(super) fn value(random: &mut Random, depth: usize, blanks: &[&str]) -> String {
    match random.below(if depth == 0 { 9 } else { 11 }) {
        0 => "null".to_owned(),
        1 => (*random.pick(&["true", "false"])).to_owned(),
        2 => random.bits().to_string(),
        3 => (*random.pick(&NUMBERS)).to_owned(),
        4..=8 => string(random),
        9 => many(random, "[", "]", blanks, |random| value(random, depth - 1, blanks)),
        _ => many(random, "{", "}", blanks, |random| {
            let (name, blank) = (string(random), random.pick(blanks));
            format!("{name}{blank}:{}", value(random, depth - 1, blanks))
        }),
    }
}

fn many(
    random: &mut Random,
    open: &str,
    close: &str,
    blanks: &[&str],
    one: impl Fn(&mut Random) -> String,
) -> String {
    let count = random.below(5);
    let mut padded = |_| {
        let part = one(random);
        format!("{}{part}{}", random.pick(blanks), random.pick(blanks))
    };
    let parts: Vec<_> = (0..count).map(&mut padded).collect();
    format!("{open}{}{}{close}", random.pick(blanks), parts.join(","))
}

fn string(random: &mut Random) -> String {
    let count = random.below(8);
    let all: Vec<_> = PARTS.split('|').collect();
    let parts: String = (0..count).map(|_| *random.pick(&all)).collect();
    format!("\"{parts}\"")
}

/// Params that a method accepts unchanged: an array or an object.
pub(super) fn params(random: &mut Random, blanks: &[&str]) -> String {
    if random.once_in(40) {
        // The envelope is one level, so this is the maximum depth.
        let deep = DEPTH - 1;
        return format!("{}{}", "[".repeat(deep), "]".repeat(deep));
    }
    if random.once_in(60) {
        return format!("[\"{}\"]", "z".repeat(random.below(60_000)));
    }
    let depth = random.below(5);
    let array = random.once_in(2);
    let (open, close) = if array { ("[", "]") } else { ("{", "}") };
    many(random, open, close, blanks, |random| match array {
        true => value(random, depth, blanks),
        false => format!("{}:{}", string(random), value(random, depth, blanks)),
    })
}

/// A request, or a notification without an id, with its members in any order.
pub(super) fn envelope(
    random: &mut Random,
    id: Option<&str>,
    method: &str,
    params: Option<&str>,
    blanks: &[&str],
) -> String {
    let mut members = vec![r#""jsonrpc":"2.0""#.to_owned(), format!(r#""method":{method}"#)];
    members.extend(id.map(|id| format!(r#""id":{id}"#)));
    members.extend(params.map(|params| format!(r#""params":{params}"#)));
    if random.once_in(8) {
        members.push(format!(r#""trace{}":{}"#, random.below(9), value(random, 1, &[""])));
    }
    if random.once_in(2) {
        let places = members.len();
        members.swap(random.below(places), random.below(places));
    }
    let blank = if random.once_in(4) { *random.pick(blanks) } else { "" };
    format!("{blank}{{{blank}{}{blank}}}{blank}", members.join(&format!("{blank},{blank}")))
}

/// A JSON string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
