//! Parses a fault rule.
//!
//! ```text
//! rule   = fault ( term )*                        separated by space
//! fault  = name | name "=" value                  JSON and quoted text may contain spaces
//! term   = "nth:" number ("|" number)* | "every:" number | "p:" part | "after:" (time | number)
//!        | a term of the filter language
//! ```
//!
//! An error names the position of the wrong word in the whole rule. For that, the own terms are replaced
//! by spaces before the filter is parsed: its positions stay those of the rule.

use serde_json::value::RawValue;

use super::json_edit;
use super::rule::{After, CORRUPTIONS, Choice, Fault, FaultRule, Nth};
use crate::filter::{Filter, FilterError, parse_size, parse_time};
use crate::sys::{EXPECTED_SIGNAL, KILL, SIGNALS};

/// The names of faults, with `=` if a value has to follow.
const FAULTS: [&str; 15] = [
    "delay=",
    "throttle=",
    "slice=",
    "stall",
    "drop",
    "dup",
    "reorder",
    "cut",
    "half-close",
    "kill",
    "corrupt=",
    "error=",
    "answer=",
    "set=",
    "unset=",
];

/// The own terms of rules.
const TERMS: [&str; 4] = ["nth:", "every:", "p:", "after:"];

/// The pause between the pieces of `slice=`: a reader that is awake sees each piece alone.
const SLICE_PAUSE: u64 = 1_000;

/// The time after which a message of `reorder` comes, even if no other did.
const REORDER_WITHIN: u64 = 1_000_000;

/// Copies of a message, and messages that may overtake it.
const MOST_COPIES: u64 = 1_000;

pub(super) fn rule(text: &str) -> Result<FaultRule, FilterError> {
    let mut input = RuleText { text, rest: text.trim_start() };
    let fault = input.fault()?;
    if !input.rest.is_empty() && !input.rest.starts_with(char::is_whitespace) {
        return Err(input.expected("a space after the fault"));
    }
    let start = text.len() - input.rest.len();
    let (choice, filter) = own_terms(text, start)?;
    let filter = Filter::parse(&filter).map_err(explain_own_term)?;
    if filter.needs_state() {
        let place = text[start..].find("is:").map_or(text, |place| &text[start + place..]);
        let expected = "another term than is: with a state, which is known only later";
        return Err(error_at(text, place, expected));
    }
    Ok(FaultRule { text: text.trim().to_owned(), fault, filter, choice })
}

struct RuleText<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> RuleText<'a> {
    fn fault(&mut self) -> Result<Fault, FilterError> {
        let start = self.rest;
        let name_end = start.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(start.len());
        let (name, rest) = start.split_at(name_end);
        let is_known = |fault: &&&str| fault.trim_end_matches('=') == name;
        let Some(known) = FAULTS.iter().find(is_known) else {
            let expected = format!("a fault ({})", FAULTS.join(", "));
            return Err(error_at(self.text, start, &expected));
        };
        self.rest = rest;
        match (rest.strip_prefix('='), known.ends_with('=')) {
            (Some(value), _) => {
                self.rest = value;
                self.with_value(name)
            }
            (None, true) => Err(self.expected(&format!("`=` and {}", expected_value(name)))),
            (None, false) => Ok(match name {
                "stall" => Fault::Stall(None),
                "drop" => Fault::Drop,
                "dup" => Fault::Dup(2),
                "reorder" => Fault::Reorder { count: 1, most: REORDER_WITHIN },
                "cut" => Fault::Cut,
                "half-close" => Fault::HalfClose,
                _ => Fault::Kill(KILL),
            }),
        }
    }

    fn with_value(&mut self, name: &str) -> Result<Fault, FilterError> {
        match name {
            "answer" => return self.json().map(Fault::Answer),
            "set" => {
                let steps = self.pointer()?;
                if !self.take('=') {
                    return Err(self.expected("`=` and a JSON value after the pointer"));
                }
                return Ok(Fault::Set { steps, value: self.json()? });
            }
            "unset" => return self.pointer().map(|steps| Fault::Unset { steps }),
            "error" => return self.error(),
            "drop" | "cut" | "half-close" => return Err(self.expected("no value")),
            _ => {}
        }
        let start = self.rest;
        let word = self.word();
        plain_value(name, word).ok_or_else(|| error_at(self.text, start, expected_value(name)))
    }

    /// `CODE:TEXT`.
    fn error(&mut self) -> Result<Fault, FilterError> {
        let start = self.rest;
        let wrong = || error_at(self.text, start, expected_value("error"));
        let (code, rest) = start.split_once(':').ok_or_else(wrong)?;
        let code = code.parse().map_err(|_| wrong())?;
        self.rest = rest;
        let text = match rest.starts_with('"') {
            true => self.quoted()?,
            false => self.word().to_owned(),
        };
        match text.is_empty() {
            true => Err(self.expected("a text, in quotes if it has spaces")),
            false => Ok(Fault::Error { code, text }),
        }
    }

    /// A JSON pointer, in quotes if it contains spaces or `=`.
    fn pointer(&mut self) -> Result<Vec<String>, FilterError> {
        let start = self.rest;
        let pointer = match start.starts_with('"') {
            true => self.quoted()?,
            false => {
                let is_end = |c: char| c.is_whitespace() || c == '=';
                let end = start.find(is_end).unwrap_or(start.len());
                self.rest = &start[end..];
                start[..end].to_owned()
            }
        };
        json_edit::steps(&pointer)
            .ok_or_else(|| error_at(self.text, start, "a JSON pointer such as /params/uri"))
    }

    fn quoted(&mut self) -> Result<String, FilterError> {
        let start = self.rest;
        let text = self.json()?;
        serde_json::from_str(&text)
            .map_err(|_| error_at(self.text, start, "text in quotes, with the escapes of JSON"))
    }

    /// A JSON value, as it stands there.
    fn json(&mut self) -> Result<String, FilterError> {
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter::<&RawValue>();
        match values.next() {
            Some(Ok(value)) => {
                let end = values.byte_offset();
                self.rest = &self.rest[end..];
                Ok(value.get().to_owned())
            }
            _ => Err(self.expected("a JSON value such as null, 5, \"text\" or {\"a\":1}")),
        }
    }

    fn word(&mut self) -> &'a str {
        let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn take(&mut self, letter: char) -> bool {
        let rest = self.rest.strip_prefix(letter);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expected(&self, expected: &str) -> FilterError {
        error_at(self.text, self.rest, expected)
    }
}

/// The values of a fault, for an error message.
fn expected_value(name: &str) -> &'static str {
    match name {
        "delay" => "a time such as 200ms, or a range such as 100ms..300ms",
        "throttle" => "bytes in a second, such as 10k",
        "slice" => "a size and perhaps a pause, such as 16 or 16,5ms",
        "stall" => "a time such as 5s",
        "dup" => "a number of copies from 2 to 1000",
        "reorder" => "a number of messages from 1 to 1000 and perhaps a time, such as 2 or 2,500ms",
        "kill" => EXPECTED_SIGNAL,
        "corrupt" => "a corruption (json, utf8, length, truncate, bit, id, print)",
        "error" => "a code and a text, such as -32603:\"Internal error\"",
        "answer" => "a JSON value",
        "set" => "a JSON pointer and a value, such as /params/uri=null",
        _ => "a JSON pointer such as /params/uri",
    }
}

/// Parses the value of a fault that is one word.
fn plain_value(name: &str, word: &str) -> Option<Fault> {
    let (first, second) = match word.split_once(',') {
        Some((first, second)) => (first, Some(second)),
        None => (word, None),
    };
    let number = |most: u64| first.parse::<u64>().ok().filter(|it| (1..=most).contains(it));
    Some(match name {
        "delay" => {
            let (least, most) = word.split_once("..").unwrap_or((word, word));
            let (least, most) = (parse_time(least)?, parse_time(most)?);
            (least <= most).then_some(Fault::Delay { least, most })?
        }
        "throttle" => Fault::Throttle(parse_size(word).filter(|rate| *rate > 0)?),
        "slice" => {
            let size = parse_size(first).filter(|size| *size > 0)?;
            let pause = second.map_or(Some(SLICE_PAUSE), parse_time)?;
            Fault::Slice { size: usize::try_from(size).ok()?, pause }
        }
        "stall" => Fault::Stall(Some(parse_time(word)?)),
        "dup" if second.is_none() => {
            let copies = number(MOST_COPIES).filter(|copies| *copies > 1)?;
            Fault::Dup(u32::try_from(copies).ok()?)
        }
        "reorder" => {
            let count = u32::try_from(number(MOST_COPIES)?).ok()?;
            Fault::Reorder { count, most: second.map_or(Some(REORDER_WITHIN), parse_time)? }
        }
        "kill" => {
            let name = word.strip_prefix("SIG").unwrap_or(word);
            let signal = SIGNALS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?.1;
            Fault::Kill(signal)
        }
        "corrupt" => Fault::Corrupt(CORRUPTIONS.iter().find(|(known, _)| *known == word)?.1),
        _ => return None,
    })
}

/// Takes the own terms out of the rule from `start`. The rest has a space in the place of each of their
/// characters and of those of the fault.
fn own_terms(text: &str, start: usize) -> Result<(Choice, String), FilterError> {
    let mut choice = Choice::default();
    let blank = |text: &str| " ".repeat(text.chars().count());
    let mut filter = blank(&text[..start]);
    let (mut depth, mut is_quoted, mut is_escaped, mut at_word) = (0_u32, false, false, true);
    let mut rest = &text[start..];
    while let Some(letter) = rest.chars().next() {
        let term = TERMS.iter().find(|term| rest.starts_with(**term));
        if let Some(term) = term.filter(|_| at_word && depth == 0 && !is_quoted) {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let value = &rest[term.len()..end];
            choice.add(term, value).map_err(|what| error_at(text, &rest[term.len()..], what))?;
            filter += &blank(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        at_word = letter.is_whitespace();
        filter.push(letter);
        rest = &rest[letter.len_utf8()..];
    }
    Ok((choice, filter))
}

impl Choice {
    /// Adds a term. Returns what was expected if the value is wrong.
    fn add(&mut self, term: &str, value: &str) -> Result<(), &'static str> {
        let number = || value.parse::<u64>().ok().filter(|number| *number > 0);
        match term {
            "nth:" => {
                let values = value.split('|').map(nth).collect::<Option<Vec<_>>>();
                self.nth = values.ok_or("a number such as 2, 2|5 or >3")?;
            }
            "every:" => self.every = Some(number().ok_or("a number such as 10")?),
            "p:" => {
                let expected = "a probability such as 0.1 or 10%";
                self.probability = Some(probability(value).ok_or(expected)?);
            }
            _ => {
                let count = value.parse().ok().map(After::Messages);
                let after = count.or_else(|| parse_time(value).map(After::Time));
                self.after = Some(after.ok_or("a time such as 5s, or a number of messages")?);
            }
        }
        Ok(())
    }
}

fn nth(value: &str) -> Option<Nth> {
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
    if let Some(rest) = value.strip_prefix(">=") {
        number(rest).map(|number| Nth::Above(number - 1))
    } else if let Some(rest) = value.strip_prefix('>') {
        number(rest).map(Nth::Above)
    } else if let Some(rest) = value.strip_prefix("<=") {
        number(rest)?.checked_add(1).map(Nth::Below)
    } else if let Some(rest) = value.strip_prefix('<') {
        number(rest).map(Nth::Below)
    } else {
        number(value).map(Nth::Is)
    }
}

fn probability(value: &str) -> Option<f64> {
    let (number, scale) = match value.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (value, 1.0),
    };
    // Only plain numbers: no `inf`, no exponent.
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let part = number.parse::<f64>().ok().filter(|_| is_plain)? / scale;
    (0.0..=1.0).contains(&part).then_some(part)
}

/// An own term in a group or behind `-` is not one of the filter's.
fn explain_own_term(mut error: FilterError) -> FilterError {
    let found = error.found.trim_start_matches('-');
    if TERMS.iter().any(|term| found.starts_with(term)) {
        error.expected = "nth:, every:, p: and after: outside of groups and without `-`".to_owned();
    } else if error.expected.ends_with("or text in quotes") {
        error.expected = format!("{}, {}", TERMS.join(", "), error.expected);
    }
    error
}

/// The error at the place where `rest` begins.
fn error_at(text: &str, rest: &str, expected: &str) -> FilterError {
    const SHOWN: usize = 20;
    let before = &text[..text.len() - rest.len()];
    let found = rest.split(char::is_whitespace).next().unwrap_or_default();
    FilterError {
        position: before.chars().count(),
        expected: expected.to_owned(),
        found: found.chars().take(SHOWN).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::Corruption;
    use super::*;

    #[test]
    fn x2_faults_have_their_values() {
        let steps = |steps: &[&str]| steps.iter().map(|step| (*step).to_owned()).collect();
        let json = |json: &str| json.to_owned();
        let rows = [
            ("delay=200ms", Fault::Delay { least: 200_000, most: 200_000 }),
            ("delay=0s", Fault::Delay { least: 0, most: 0 }),
            (" delay=0.1s..1m ", Fault::Delay { least: 100_000, most: 60_000_000 }),
            ("throttle=10k", Fault::Throttle(10_240)),
            ("slice=16", Fault::Slice { size: 16, pause: 1_000 }),
            ("slice=1k,5ms", Fault::Slice { size: 1_024, pause: 5_000 }),
            ("stall", Fault::Stall(None)),
            ("stall=5s", Fault::Stall(Some(5_000_000))),
            ("drop", Fault::Drop),
            ("dup", Fault::Dup(2)),
            ("dup=3", Fault::Dup(3)),
            ("reorder", Fault::Reorder { count: 1, most: 1_000_000 }),
            ("reorder=2,500ms", Fault::Reorder { count: 2, most: 500_000 }),
            ("cut", Fault::Cut),
            ("half-close", Fault::HalfClose),
            ("kill", Fault::Kill(9)),
            ("kill=SIGKILL", Fault::Kill(9)),
            #[cfg(all(test, unix))]
            ("kill=SIGTERM", Fault::Kill(15)),
            #[cfg(all(test, unix))]
            ("kill=int", Fault::Kill(2)),
            ("corrupt=truncate", Fault::Corrupt(Corruption::Truncate)),
            ("error=-32603:boom", Fault::Error { code: -32603, text: json("boom") }),
            (
                "error=1:\"no \\\"way\\\"\" dir:s2c",
                Fault::Error { code: 1, text: json("no \"way\"") },
            ),
            ("answer={\"a\": [1, 2]} dir:s2c", Fault::Answer(json("{\"a\": [1, 2]}"))),
            ("answer=null", Fault::Answer(json("null"))),
            ("set=/a/0=1.50", Fault::Set { steps: steps(&["a", "0"]), value: json("1.50") }),
            (
                "set=\"/a b=\"=\"x y\" nth:2",
                Fault::Set { steps: steps(&["a b="]), value: json("\"x y\"") },
            ),
            ("unset=/error/data", Fault::Unset { steps: steps(&["error", "data"]) }),
        ];
        for name in FAULTS {
            assert!(rows.iter().any(|(text, _)| text.trim().starts_with(name)), "{name}");
        }
        for (text, fault) in rows {
            let rule = rule(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(rule.fault, fault, "{text}");
            assert_eq!(rule.to_string(), text.trim());
        }
    }

    #[test]
    fn x2_own_terms_stand_anywhere_and_the_rest_is_a_filter() {
        let choice = |text: &str| {
            let rule = rule(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            (rule.choice, rule.filter.to_string())
        };
        let rows = [
            ("drop nth:2", Choice { nth: vec![Nth::Is(2)], ..Choice::default() }, ""),
            (
                "drop nth:2|>5|<=9 dir:s2c",
                Choice {
                    nth: vec![Nth::Is(2), Nth::Above(5), Nth::Below(10)],
                    ..Choice::default()
                },
                "dir:s2c",
            ),
            (
                "drop dir:s2c every:3 -id:7",
                Choice { every: Some(3), ..Choice::default() },
                "dir:s2c -id:7",
            ),
            ("drop p:10% x", Choice { probability: Some(0.1), ..Choice::default() }, "text:x"),
            ("drop p:1", Choice { probability: Some(1.0), ..Choice::default() }, ""),
            (
                "drop after:5s (dir:s2c | id:7)",
                Choice { after: Some(After::Time(5_000_000)), ..Choice::default() },
                "dir:s2c | id:7",
            ),
            (
                "drop after:5 \"p:0.1\"",
                Choice { after: Some(After::Messages(5)), ..Choice::default() },
                "text:p:0.1",
            ),
        ];
        for (text, expected, filter) in rows {
            assert_eq!(choice(text), (expected, filter.to_owned()), "{text}");
        }
    }

    #[test]
    fn x2_mistakes_name_the_position_and_what_was_expected() {
        let faults = FAULTS.join(", ");
        let rows = [
            ("", format!("position 1: expected a fault ({faults}), found the end")),
            ("dealy=1s", format!("position 1: expected a fault ({faults}), found `dealy=1s`")),
            ("delay", "position 6: expected `=` and a time such as 200ms, or a range such as 100ms..300ms, found the end".to_owned()),
            ("delay=fast dir:s2c", "position 7: expected a time such as 200ms, or a range such as 100ms..300ms, found `fast`".to_owned()),
            ("delay=2s..1s", "position 7: expected a time such as 200ms, or a range such as 100ms..300ms, found `2s..1s`".to_owned()),
            ("drop=1", "position 6: expected no value, found `1`".to_owned()),
            ("dup=1", "position 5: expected a number of copies from 2 to 1000, found `1`".to_owned()),
            ("corrupt=xml", "position 9: expected a corruption (json, utf8, length, truncate, bit, id, print), found `xml`".to_owned()),
            ("error=boom", "position 7: expected a code and a text, such as -32603:\"Internal error\", found `boom`".to_owned()),
            ("error=1:", "position 9: expected a text, in quotes if it has spaces, found the end".to_owned()),
            ("answer={a", "position 8: expected a JSON value such as null, 5, \"text\" or {\"a\":1}, found `{a`".to_owned()),
            ("answer={}x", "position 10: expected a space after the fault, found `x`".to_owned()),
            ("set=a=1", "position 5: expected a JSON pointer such as /params/uri, found `a=1`".to_owned()),
            ("set=/a", "position 7: expected `=` and a JSON value after the pointer, found the end".to_owned()),
            ("drop dür:s2c", "position 6: expected nth:, every:, p:, after:, method:, dir:, kind:, id:, took:, at:, seq:, size:, text:, is: or text in quotes, found `dür:s2c`".to_owned()),
            ("drop nth:0", "position 10: expected a number such as 2, 2|5 or >3, found `0`".to_owned()),
            ("drop every:x", "position 12: expected a number such as 10, found `x`".to_owned()),
            ("drop dir:s2c p:2", "position 16: expected a probability such as 0.1 or 10%, found `2`".to_owned()),
            ("drop after:soon", "position 12: expected a time such as 5s, or a number of messages, found `soon`".to_owned()),
            ("drop (nth:2)", "position 7: expected nth:, every:, p: and after: outside of groups and without `-`, found `nth:2`".to_owned()),
            ("drop ü nth:2 -p:0.5", "position 15: expected nth:, every:, p: and after: outside of groups and without `-`, found `p:0.5`".to_owned()),
            ("drop is:late", "position 6: expected another term than is: with a state, which is known only later, found `is:late`".to_owned()),
        ];
        for (text, expected) in rows {
            let error = rule(text).expect_err(text);
            assert_eq!(error.to_string(), expected, "{text}");
        }
        assert!(rule("drop is:noise").is_ok());
    }
}
