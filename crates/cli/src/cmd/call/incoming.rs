//! Messages of the server: notifications are shown on stderr, requests are answered and shown there.

use duet_rpc::{Failure, Request, Router, quick};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::params;
use super::report::plain;
use crate::args::{ProtocolName, SessionArgs};
use crate::cmd::handshake;
use crate::cmd::stderr::Stderr;
use crate::exit::Problem;
use crate::json;

/// Maximum number of characters that are shown of params or of a result.
const MAX_SHOWN: usize = 200;

/// Results for requests of the server.
pub(super) struct Answers {
    given: Vec<(String, Box<RawValue>)>,
    protocol: Option<ProtocolName>,
}

impl Answers {
    pub(super) fn read(args: &SessionArgs) -> Result<Answers, Problem> {
        let read = |word: &String| {
            let Some((method, json)) = word.split_once('=').filter(|(name, _)| !name.is_empty())
            else {
                let word = plain(word);
                let message = format!("`--answer {word}` has no method: write METHOD=JSON");
                return Err(Problem::usage(message));
            };
            let option = format!("the answer to `{}`", plain(method));
            Ok((method.to_owned(), params::read_value(&option, json)?))
        };
        let given = args.answer.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Answers { given, protocol: args.handshake })
    }

    fn find(&self, method: &str, params: Option<&RawValue>) -> Option<Box<RawValue>> {
        if let Some((_, answer)) = self.given.iter().find(|(name, _)| name == method) {
            return Some(answer.clone());
        }
        let params = params.and_then(|params| serde_json::from_str(params.get()).ok());
        let answer = handshake::answer(self.protocol?, method, &params.unwrap_or_default())?;
        to_raw_value(&answer).ok()
    }

    /// The router that handles all messages of the server. `has_option` tells whether the user can give answers.
    pub(super) fn into_router(self, stderr: Stderr, has_option: bool) -> Router {
        let handle = move |request: Request| self.handle(&request, &stderr, has_option);
        Router::new().fallback(quick(handle))
    }

    fn handle(
        &self,
        request: &Request,
        stderr: &Stderr,
        has_option: bool,
    ) -> Result<Box<RawValue>, Failure> {
        let (method, params) = (request.method(), request.raw_params());
        if request.id().is_none() {
            stderr.note(&notification(method, params));
            return Ok(RawValue::NULL.to_owned());
        }
        let asked = format!("request {}", with_params(method, params));
        match self.find(method, params) {
            Some(answer) => {
                stderr.note(&format!("{asked}: answered {}", shown(answer.get())));
                Ok(answer)
            }
            None => {
                let method = plain(method);
                let advice = match has_option {
                    true => format!("; `--answer '{method}=JSON'` answers with a result"),
                    false => String::new(),
                };
                stderr.note(&format!("{asked}: answered with Method not found{advice}"));
                Err(Failure::method_not_found(request.method()))
            }
        }
    }
}

/// Severities of `window/logMessage` and `window/showMessage`.
const LSP_LEVELS: [&str; 5] = ["error", "warning", "info", "log", "debug"];

/// One line about a notification. Log messages of LSP and MCP are shown as text.
fn notification(method: &str, params: Option<&RawValue>) -> String {
    let value = || params.and_then(|params| serde_json::from_str::<Value>(params.get()).ok());
    let logged = match method {
        "window/logMessage" | "window/showMessage" => value().and_then(|it| {
            let level = it.get("type")?.as_u64()?.checked_sub(1)?;
            let level = LSP_LEVELS.get(usize::try_from(level).ok()?)?;
            Some(format!("{level}: {}", line(it.get("message")?.as_str()?)))
        }),
        "notifications/message" => value().and_then(|it| {
            let (level, data) = (it.get("level")?.as_str()?, it.get("data")?);
            let data = data.as_str().map_or_else(|| shown(&data.to_string()), line);
            Some(format!("{}: {data}", plain(level)))
        }),
        _ => None,
    };
    match logged {
        Some(logged) => format!("server log: {logged}"),
        None => format!("notification {}", with_params(method, params)),
    }
}

fn with_params(method: &str, params: Option<&RawValue>) -> String {
    let params = params.map(|params| format!(" {}", shown(params.get()))).unwrap_or_default();
    format!("{}{params}", plain(method))
}

/// JSON of the server on one line.
pub(super) fn shown(json: &str) -> String {
    cut(&json::escape_for_terminal(&json::compact(json)))
}

/// Text of the server on one line.
fn line(text: &str) -> String {
    cut(&plain(text.trim_end()))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c8_a_notification_is_one_readable_line() {
        #[rustfmt::skip]
        let rows = [
            ("a/b", "", "notification a/b"),
            ("a/b", r#"{"x": [1, 2.0]}"#, r#"notification a/b {"x":[1,2.0]}"#),
            ("window/logMessage", r#"{"type":3,"message":"one\ntwo\n"}"#, r"server log: info: one\ntwo"),
            ("window/showMessage", r#"{"type":1,"message":"x"}"#, "server log: error: x"),
            ("window/logMessage", r#"{"type":9,"message":"x"}"#, r#"notification window/logMessage {"type":9,"message":"x"}"#),
            ("notifications/message", r#"{"level":"warning","data":"x"}"#, "server log: warning: x"),
            ("notifications/message", r#"{"level":"info","data":{"a":1}}"#, r#"server log: info: {"a":1}"#),
            ("\u{1b}[31m", "", r"notification \u{1b}[31m"),
        ];
        for (method, params, told) in rows {
            let params = (!params.is_empty()).then(|| RawValue::from_string(params.to_owned()));
            let params = params.transpose().expect("JSON");
            assert_eq!(notification(method, params.as_deref()), told);
        }
        let long = RawValue::from_string(format!("[\"{}\"]", "é".repeat(300))).expect("JSON");
        let told = notification("m", Some(&long));
        assert!(told.ends_with("é… (604 bytes)") && told.chars().count() < 240, "{told}");
    }
}
