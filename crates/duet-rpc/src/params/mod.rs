//! Parameters as a type of yours, and what the remote is told when they do not fit.
//!
//! ```text
//! params ── serde_json ──> T
//!   └─ it does not fit ──> once more, with a reader that notes where and why ──> -32602
//! ```
//!
//! serde_json's own errors cannot go on the wire: they quote what was sent, and they name Rust
//! types and columns where a remote wants to know which parameter is meant. So the parameters that
//! do not fit, and only these, are read a second time, and that reading is for the error alone.
//!
//! | file | what it holds |
//! |---|---|
//! | `reader` | the second reading: a deserializer over the text, which knows where it is |
//! | `access` | the elements, members and variants that it walks through |
//! | `name` | the names of members and variants, as values |
//! | `number` | numbers, visited as serde_json visits them |
//! | `problem` | what went wrong and where, and the parameter problem that is made of it |
//! | `wording` | what a type expects, said in JSON's words |

mod access;
mod name;
mod number;
mod problem;
mod reader;
#[cfg(test)]
mod tests;
mod wording;

use duet_rpc_proto::message::{ErrorObject, ParamProblem, Params};
use serde::de::DeserializeOwned;

use problem::{Problem, Subject};
use reader::{Probe, Reader, Reads};

/// Reads parameters as a type of yours, or says what is wrong with them.
///
/// Absent parameters are read as null, and where the type does not take null, as `{}` and then as
/// `[]`: a struct of optional members, a map and a list need no `params`.
///
/// The error is ready to be sent: `Invalid params`, with the path of the first culprit, what was
/// expected there and which type was received. The members of a struct have their names in the path even
/// if they came by position; elements of a tuple are `[0]`, `[1]` and so on. It shows nothing of what was
/// sent, but for a string that is not one of an enum's variants: member names from a map are a `*` in the path, and
/// the messages of your own `Deserialize` implementations stay out. They are the `detail` of the problem,
/// for this process, and for its log where [`Profile::log_details`](crate::Profile::log_details) says so.
/// What their visitors are `expecting` goes on the wire, so it should be your text and not the remote's.
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
/// let add: Add = params::read(&Params::Object(r#"{"terms": [1, 2]}"#))?;
/// assert_eq!(add.terms, [1, 2]);
///
/// let error = params::read::<Add>(&Params::Object(r#"{"terms": [1, "two"]}"#)).unwrap_err();
/// let mut out = Vec::new();
/// write_error(&mut out, &Id::NULL, &error);
/// let out = String::from_utf8(out)?;
/// assert!(out.contains(r#"{"param":"terms[1]","expected":"integer","received":"string"}"#));
/// # Ok::<_, Box<dyn std::error::Error>>(())
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
    let problem = match *params {
        Params::Array(text) | Params::Object(text) => explain::<T>(text, Subject::Params),
        Params::Absent | Params::Null => {
            for empty in ["{}", "[]"] {
                if let Ok(value) = serde_json::from_str(empty) {
                    return Ok(value);
                }
            }
            explain_nothing::<T>(matches!(params, Params::Absent))
        }
    };
    Err(ErrorObject::invalid_params(problem))
}

/// What is wrong with the result of a call that is not of the type that the caller asked for.
#[cold]
#[inline(never)]
pub(crate) fn explain_result<T: DeserializeOwned>(result: &str) -> ParamProblem {
    explain::<T>(result, Subject::Result)
}

/// What is wrong with a text that does not fit.
fn explain<T: DeserializeOwned>(text: &str, subject: Subject) -> ParamProblem {
    match attempt::<T>(text, None) {
        Some(problem) => into_param_problem::<T>(text, problem, subject),
        // The two readers disagree, so there is no culprit that we could name.
        None => problem::of_the_whole(subject, reader::json_type(text)),
    }
}

/// What is wrong with no parameters at all: the first one that is missing, where they have names.
fn explain_nothing<T: DeserializeOwned>(absent: bool) -> ParamProblem {
    // One text for both, as an object is known again by where it stands.
    let (empty, subject) = ("{}", Subject::Params);
    if let Some(problem) = attempt::<T>(empty, None)
        && problem.missing_member().is_some()
    {
        return into_param_problem::<T>(empty, problem, subject);
    }
    match attempt::<T>("null", None) {
        Some(problem) if absent => problem.of_absent().into_param_problem(subject),
        Some(problem) => problem.into_param_problem(subject),
        None => problem::of_the_whole(subject, if absent { "missing" } else { "null" }),
    }
}

fn into_param_problem<T: DeserializeOwned>(
    text: &str,
    mut problem: Problem,
    subject: Subject,
) -> ParamProblem {
    if let Some((at, name)) = problem.missing_member() {
        // Who misses a member does not say of which type. A null in its place makes them say so.
        let probe = Probe { at, reads: Reads::OneMore(name) };
        if let Some(answer) = attempt::<T>(text, Some(probe)) {
            problem = problem.of_missing_type(answer);
        }
    }
    // serde lists the names of a struct with their aliases, so that a place in the list is one in the array
    // only if there are as many members as names. A struct that is read from nothing tells how many it has.
    for at in problem.struct_arrays() {
        let answer = attempt::<T>(text, Some(Probe { at, reads: Reads::Nothing }));
        if answer.and_then(|answer| answer.missing_member()).is_some_and(|(of, _)| of == at) {
            problem.name_elements_of(at);
        }
    }
    problem.into_param_problem(subject)
}

/// Reads for the error's sake.
fn attempt<T: DeserializeOwned>(text: &str, probe: Option<Probe>) -> Option<Problem> {
    let budget = reader::budget(text);
    let reader = Reader::new(text, probe, &budget);
    T::deserialize(reader).err().map(|problem| problem.found_in(&reader))
}
