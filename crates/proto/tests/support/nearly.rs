//! Generator of texts that are messages or nearly so: one member is missing, doubled, of another
//! type, written with escapes, or a level too deep.

use super::Random;

/// JSON values of every type, with odd numbers and strings among them.
const VALUES: [&str; 30] = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "1.0",
    "1e3",
    "1E-2",
    "-1.50e+07",
    "18446744073709551616",
    "1234567890123456789012345678901234567890",
    "\"\"",
    "\"a\"",
    r#""\u0061""#,
    r#""2.0""#,
    r#""\ud83d\ude00""#,
    r#""\ud800""#,
    r#""\udc00\ud800x""#,
    r#""\"\\\/\b\f\n\r\t""#,
    "\"é😀\"",
    r#""id""#,
    "{}",
    "[]",
    "[1,2,3]",
    r#"{"id":1,"id":2}"#,
    r#"{"method":"a","params":[[]]}"#,
    "[{}]",
    "[[[[]]]]",
    r#"{"a":{"b":{"c":{}}}}"#,
];

/// Texts that are not JSON.
const BROKEN: [&str; 24] = [
    "01",
    "+1",
    "1.",
    ".5",
    "1e",
    "1e+",
    "-",
    "--1",
    "nul",
    "nulll",
    "True",
    "NaN",
    "'a'",
    "\"a",
    "\"\\x\"",
    "\"\\u12g4\"",
    "\"\u{1}\"",
    "\"\n\"",
    "[1,]",
    "[,1]",
    "{,}",
    "{\"a\"}",
    "{a:1}",
    "\u{feff}1",
];

const SPACE: [&str; 8] = ["", "", "", "", " ", "\t", "\n", "\r\n  "];

/// One text.
pub fn text(random: &mut Random) -> Vec<u8> {
    let text = match random.below(10) {
        0 => value(random),
        1..=3 => {
            let count = random.below(7);
            array(random, count)
        }
        _ => message(random),
    };
    let text = format!("{}{text}{}", space(random), space(random));
    if random.below(8) == 0 { spoiled(text.into_bytes(), random) } else { text.into_bytes() }
}

/// An object with the members of an envelope, or nearly so.
pub fn message(random: &mut Random) -> String {
    let mut members = Vec::new();
    let is_response = random.below(4) == 0;
    for (name, usual) in [
        ("jsonrpc", &[r#""2.0""#, r#""2.0""#, r#""2\u002e0""#, r#""2.00""#, "2.0"][..]),
        ("id", &["1", "\"a\"", "null", "1.0", "[]", "true", "-0"]),
        ("method", &["\"a\"", r#""\u0061b""#, "\"\"", "1"]),
        ("params", &["{}", "[]", "null", "[1]", "\"a\"", "1"]),
        ("result", &["null", "1", "{}"]),
        ("error", &[r#"{"code":1,"message":"a"}"#, "null", "1"]),
    ] {
        let is_usual = match name {
            "method" | "params" => !is_response,
            "result" | "error" => is_response && random.below(2) == 0,
            _ => true,
        };
        let count = match random.below(16) {
            0 => usize::from(!is_usual),
            1 => 2,
            _ => usize::from(is_usual),
        };
        for _ in 0..count {
            let value =
                if random.below(8) == 0 { value(random) } else { pick(usual, random).to_owned() };
            members.push((written(name, random), value));
        }
    }
    for _ in 0..random.below(6).saturating_sub(3) {
        let name = pick(&["x", "x", "ID", "id ", "", "jsonRpc", "metho", "paramss"], random);
        members.push((format!("\"{name}\""), value(random)));
    }
    for place in (1..members.len()).rev() {
        members.swap(place, random.below(place + 1));
    }
    let members: Vec<_> = members
        .iter()
        .map(|(name, value)| {
            let [a, b, c, d] = [(); 4].map(|()| space(random));
            format!("{a}{name}{b}:{c}{value}{d}")
        })
        .collect();
    format!("{{{}{}}}", space(random), members.join(","))
}

fn array(random: &mut Random, count: usize) -> String {
    let entries: Vec<_> = (0..count)
        .map(|_| match random.below(6) {
            0 => value(random),
            1 => format!("[{}]", message(random)),
            _ => message(random),
        })
        .collect();
    format!("[{}{}]", space(random), entries.join(&format!("{},{}", space(random), space(random))))
}

/// A value; sometimes an invalid one, or one nested around the limit.
fn value(random: &mut Random) -> String {
    match random.below(40) {
        0 => pick(&BROKEN, random).to_owned(),
        1 => {
            let levels = 4 + random.below(8);
            let (open, close) = pick(&[("[", "]"), ("{\"a\":", "}")], random);
            format!("{}{}{}", open.repeat(levels), pick(&VALUES, random), close.repeat(levels))
        }
        _ => pick(&VALUES, random).to_owned(),
    }
}

/// A name as a string; sometimes with one or two characters as escapes.
fn written(name: &str, random: &mut Random) -> String {
    let rarely = random.below(8) == 0;
    let mut text = String::from("\"");
    for character in name.chars() {
        if rarely && random.below(3) == 0 {
            let code = u32::from(character);
            let escaped = if random.below(2) == 0 {
                format!("\\u{code:04x}")
            } else {
                format!("\\u{code:04X}")
            };
            text.push_str(&escaped);
        } else {
            text.push(character);
        }
    }
    text + "\""
}

/// Adds, removes or changes one byte.
fn spoiled(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    let byte = pick(b"{}[]\",:\\ 0e.-\n\x00\x0b\x7f\x80\xc3\xff", random);
    let place = random.below(bytes.len().max(1));
    match random.below(3) {
        0 => bytes.insert(place.min(bytes.len()), byte),
        _ if bytes.is_empty() => {}
        1 => bytes[place] = byte,
        _ => drop(bytes.remove(place)),
    }
    bytes
}

fn space(random: &mut Random) -> &'static str {
    pick(&SPACE, random)
}

/// One of these.
pub fn pick<T: Copy>(from: &[T], random: &mut Random) -> T {
    from[random.below(from.len())]
}
