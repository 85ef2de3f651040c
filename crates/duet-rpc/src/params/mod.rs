//! Typed parameters, and the error for parameters that do not fit.
//!
//! ```text
//! params ── serde_json ──> T
//!   └─ do not fit ──> read again, with a reader that knows its position ──> -32602
//! ```
//!
//! serde_json's own errors cannot go on the wire: they quote the parameters, and they name Rust types and
//! columns where a remote needs the name of the wrong parameter. So parameters that do not fit are read a
//! second time, to make the error.
//!
//! | file | contents |
//! |---|---|
//! | `reader` | the second reading: a deserializer over the text that knows its position |
//! | `access` | the elements, members and variants that it reads |
//! | `problem` | its error: the problem and its place |
//! | `wording` | the expectation of a type, in JSON's words |
//!
//! Hostile parameters cost no more memory than the type itself and the largest string, because the
//! text is not turned into a tree. The budget of a reading (`MOST_TIMES`) bounds the time: beyond it,
//! the error is about the parameters as a whole. A text over 1 MiB is read again only once.

mod access;
mod problem;
mod reader;
#[cfg(test)]
mod tests;
mod wording;

use duet_rpc_proto::message::{ErrorObject, ParamProblem, Params};
use serde::de::DeserializeOwned;

use access::first_value;
use problem::{PARAMS, Problem, RESULT, Subject};
use reader::{attempt, has_all_names, json_type};

/// The largest text, in bytes, that is copied and read again to complete an error. Beyond it, the
/// error names no type for a missing member, and shows members by position with their index.
const LARGEST_ASKED: usize = 1 << 20;

/// Reads parameters as a type of yours, or returns the error for the remote.
///
/// Absent parameters are read as null. If the type does not take null, they are read as `{}` and then as
/// `[]`: a struct of optional members, a map and a list need no `params`.
///
/// The error is ready to be sent: `Invalid params`, with the path of the first wrong value, the expected value and
/// the received type. The path names the members of a struct even if they came by position; elements of a tuple are
/// `[0]`, `[1]` and so on.
///
/// The error quotes no text of the remote, except a string that is not one of an enum's variants. Member names from a
/// map are a `*` in the path. The messages of your own `Deserialize` implementations are not sent: they are the
/// `detail` of the problem, for this process, and [`Profile::log_details`](crate::Profile::log_details) logs them. The
/// text of a visitor's `expecting` is sent, so it must not quote the remote.
///
/// The error is shorter for hostile or very large parameters. Beyond 1 MiB it names no type for a missing member,
/// and shows members that came by position with their index. Beyond depth 128, or if the search for the wrong value
/// would take too long, it names `params` as a whole.
///
/// ```
/// use duet_rpc::params;
/// use duet_rpc::proto::message::{Id, Params, write_error};
///
/// #[derive(Debug, serde::Deserialize)]
/// struct Add {
///     terms: Vec<i64>,
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let add: Add = params::read(&Params::Object(r#"{"terms": [1, 2]}"#))?;
/// assert_eq!(add.terms, [1, 2]);
///
/// let error = params::read::<Add>(&Params::Object(r#"{"terms": [1, "two"]}"#)).unwrap_err();
/// let mut out = Vec::new();
/// write_error(&mut out, &Id::NULL, &error);
/// let out = String::from_utf8(out)?;
/// assert!(out.contains(r#"{"param":"terms[1]","expected":"integer","received":"string"}"#));
/// # Ok(())
/// # }
/// ```
pub fn read<T: DeserializeOwned>(params: &Params<'_>) -> Result<T, ErrorObject> {
    match params.parse() {
        Ok(value) => Ok(value),
        Err(_) => read_again(params),
    }
}

#[cold]
#[inline(never)]
fn read_again<T: DeserializeOwned>(params: &Params<'_>) -> Result<T, ErrorObject> {
    let mut text = params.as_raw().unwrap_or_default();
    if matches!(params, Params::Absent | Params::Null) {
        for empty in ["{}", "[]"] {
            if let Ok(value) = serde_json::from_str(empty) {
                return Ok(value);
            }
        }
        // For parameters with names, the first missing name helps more than the type of the parameters.
        if attempt::<T>("{}").is_some_and(|problem| problem.missing_member().is_some()) {
            text = "{}";
        }
    }
    Err(ErrorObject::invalid_params(explain::<T>(text, PARAMS)))
}

/// Explains why the result of a call is not of the type that the caller asked for.
#[cold]
#[inline(never)]
pub(crate) fn explain_result<T: DeserializeOwned>(result: &str) -> ParamProblem {
    explain::<T>(result, RESULT)
}

fn explain<T: DeserializeOwned>(text: &str, subject: Subject) -> ParamProblem {
    let text = text.trim_ascii();
    match attempt::<T>(text) {
        Some(problem) if !problem.is_too_much() => {
            ask::<T>(text, problem).into_param_problem(subject)
        }
        // The path is too long to be useful, or the two readings disagree.
        _ => subject.as_a_whole(json_type(text)),
    }
}

/// Completes serde's error: reads changed texts as the type, and uses the errors of these readings.
fn ask<T: DeserializeOwned>(text: &str, mut problem: Problem) -> Problem {
    if text.len() > LARGEST_ASKED {
        return problem;
    }
    if let Some((at, name)) = problem.missing_member() {
        // If the missing member is replaced by a null, the error of its type names the expected value.
        let added = replace(text, at, |container| {
            let (items, end) = container.split_at(container.len().saturating_sub(1));
            let comma = if items.trim_ascii_end().len() > 1 { "," } else { "" };
            match end {
                "]" => format!("{items}{comma}null]"),
                "}" => format!("{items}{comma}{}:null}}", serde_json::Value::from(name)),
                _ => container.to_owned(),
            }
        });
        if let Some(answer) = attempt::<T>(&added) {
            problem = problem.of_missing_type(answer);
        }
    }
    // serde lists the names of a struct together with their aliases, so a name belongs to an element only if the
    // struct has as many members as names. Reading the struct from `[]` shows how many members it has.
    problem.name_positions(|array| {
        has_all_names::<T>(&replace(text, array, |_| "[]".to_owned()), array)
    })
}

/// Replaces the value that begins at this offset.
fn replace(text: &str, at: usize, by: impl FnOnce(&str) -> String) -> String {
    let (before, rest) = text.split_at(at);
    let (value, after) = rest.split_at(first_value(rest).map_or(0, str::len));
    format!("{before}{}{after}", by(value))
}
