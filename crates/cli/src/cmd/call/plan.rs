//! The calls of a session: the one on the command line, those after `--then`, and those of a script.

use serde_json::value::RawValue;

use super::params::{self, Source};
use super::report::plain;
use crate::args::CallArgs;
use crate::exit::Problem;

/// A message to send.
#[derive(Debug)]
pub(super) struct PlannedCall {
    pub(super) method: String,
    pub(super) params: Option<Box<RawValue>>,
    pub(super) is_notification: bool,
}

/// Reads all calls, so that a mistake in the last one is found before the first one is sent.
pub(super) fn read(args: &CallArgs) -> Result<Vec<PlannedCall>, Problem> {
    let then = &args.session.then.0;
    let words = args.params.iter().chain(then.iter().filter_map(|words| words.get(1)));
    let script = args.session.script.as_deref();
    if words.map(String::as_str).chain(script).filter(|word| *word == "-").count() > 1 {
        return Err(Problem::usage(
            "only one of the calls can read stdin: use @FILE for the others",
        ));
    }
    let mut calls = Vec::new();
    if let Some(method) = &args.method {
        calls.push(PlannedCall {
            method: method.clone(),
            params: params::read(args.params.as_deref())?,
            is_notification: args.notify,
        });
    }
    for words in then {
        let mut words = words.iter();
        calls.push(PlannedCall {
            method: words.next().cloned().unwrap_or_default(),
            params: params::read(words.next().map(String::as_str))?,
            is_notification: false,
        });
    }
    if let Some(script) = script {
        calls.extend(read_script(script)?);
    }
    Ok(calls)
}

fn read_script(name: &str) -> Result<Vec<PlannedCall>, Problem> {
    let source = if name == "-" { Source::Stdin } else { Source::File(name) };
    let bytes = source.bytes().map_err(|error| {
        Problem::failure(format!("cannot read the script from {source}: {error}"))
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        Problem::usage(format!("the script is not UTF-8: byte {place} is not part of a character"))
    })?;
    let calls = parse_script(&text)?;
    match calls.is_empty() {
        true => Err(Problem::usage(format!("the script from {source} has no calls"))),
        false => Ok(calls),
    }
}

fn parse_script(text: &str) -> Result<Vec<PlannedCall>, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(number, line)| parse_line(number, line)).collect()
}

fn parse_line(number: usize, line: &str) -> Result<PlannedCall, Problem> {
    let (first, rest) = split_word(line);
    let is_notification = first == "--notify";
    let (method, params) = if is_notification { split_word(rest) } else { (first, rest) };
    if method.is_empty() || method.starts_with(['{', '[', '-']) {
        let line = plain(&line.chars().take(60).collect::<String>());
        return Err(Problem::usage(format!(
            "line {number} of the script does not begin with a method: {line}"
        )));
    }
    let source = match params.strip_prefix('@') {
        Some(path) => Source::File(path),
        None => Source::Line(number, params),
    };
    let given = (!params.is_empty()).then_some(source);
    Ok(PlannedCall {
        method: method.to_owned(),
        params: given.map(|source| params::read_from(&source)).transpose()?.flatten(),
        is_notification,
    })
}

fn split_word(line: &str) -> (&str, &str) {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (word, rest.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c7_a_script_has_one_call_per_line() {
        let script = "\u{feff}# a comment\n\n  version\r\nsystem.echo  {\"a\": [1, 2]} \n\
                      --notify note [1]\nsystem.ping null\n";
        let calls = parse_script(script).unwrap();
        let calls: Vec<_> = calls
            .iter()
            .map(|it| (&*it.method, it.params.as_deref().map(RawValue::get), it.is_notification))
            .collect();
        let expect = [
            ("version", None, false),
            ("system.echo", Some("{\"a\": [1, 2]}"), false),
            ("note", Some("[1]"), true),
            ("system.ping", None, false),
        ];
        assert_eq!(calls, expect);
    }

    #[test]
    fn c7_a_mistake_in_a_script_is_named_with_its_line() {
        for (script, told) in [
            ("a\nb oops", "line 2 of the script are not JSON: expected value"),
            ("\n\na 7", "line 3 of the script are a number"),
            (
                "{\"method\":\"a\"}",
                "line 1 of the script does not begin with a method: {\"method\"",
            ),
            ("--notify", "line 1 of the script does not begin with a method"),
            ("--then a", "line 1 of the script does not begin with a method"),
            ("a @no/such/file", "`no/such/file`"),
        ] {
            let problem = parse_script(script).unwrap_err();
            assert!(problem.message.contains(told), "{}", problem.message);
        }
    }
}
