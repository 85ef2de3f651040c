//! The error of the second reading: the problem and its place.
//!
//! serde reports a problem where it finds it, and knows the expectation but not the path. On the way out,
//! each enclosing element and member adds its step to the path, and the innermost value becomes the place.

use std::borrow::Cow;
use std::fmt::{self, Write};

use duet_rpc_proto::message::ParamProblem;
use serde::de::{Error, Expected, Unexpected};

use super::access::Names;
use super::reader::ParamsReader;
use super::wording::{Mismatch, in_json, length_of};

/// Maximum number of structs in a path that were read from arrays and get member names. Each of them costs
/// one more reading.
const MOST_NAMED: usize = 8;

/// Maximum number of characters to keep of an application's message, or of a received string.
const LONGEST_TEXT: usize = 500;

pub(super) type Result<T> = std::result::Result<T, Problem>;

/// Boxed, because every level returns it.
#[derive(Debug)]
pub(super) struct Problem(Box<ProblemDetails>);

#[derive(Debug)]
struct ProblemDetails {
    cause: ParamsCause,
    /// The expectation: in serde's terms for a mismatch and a length, otherwise in JSON's terms.
    expected: Cow<'static, str>,
    /// A JSON type; `None` means the type of the value at the path.
    received: Option<&'static str>,
    /// A closed list of values; empty if there is none.
    accepted: Names,
    /// The innermost value around the problem: its JSON type and its start.
    place: Option<(&'static str, usize)>,
    /// The path, from the place outwards.
    path: Vec<PathStep>,
}

#[derive(Debug)]
enum ParamsCause {
    /// The value has another type, or is out of range.
    Mismatch(Mismatch),
    /// There are too many or too few elements; the element at this index is missing.
    Length(usize),
    /// The member with this name is missing.
    Missing(&'static str),
    /// A string that is not in the closed list.
    NotAccepted(String),
    /// The application's message may quote the value, so it stays in this process.
    Application(String),
    /// The value cannot be read, and the type would have buffered it as a whole.
    Buffered,
    /// Too deep, or beyond the budget.
    TooMuch,
    /// `expected` says everything.
    Stated,
}

/// One step of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PathStep {
    Element(usize),
    /// An element of an array that is read as a struct. The array begins at this offset. The name is right if
    /// the struct has as many members as names.
    Position {
        index: usize,
        name: &'static str,
        array: usize,
    },
    Member(Cow<'static, str>),
}

/// The value under test: its name, its expectation as a whole, and the start of its paths.
#[derive(Clone, Copy)]
pub(super) struct Subject {
    name: &'static str,
    expected: &'static str,
    prefix: &'static str,
}

pub(super) const PARAMS: Subject =
    Subject { name: "params", expected: "valid parameters", prefix: "" };
/// A result has no names of its own, so its paths begin with a word for it.
pub(super) const RESULT: Subject =
    Subject { name: "result", expected: "a valid result", prefix: "result" };

impl Subject {
    /// The problem of the value as a whole, if no part of it is the culprit.
    pub(super) fn as_a_whole(self, received: &'static str) -> ParamProblem {
        ParamProblem::wrong_type(self.name, self.expected, received)
    }

    fn path(self, steps: impl Iterator<Item = PathStep>) -> Cow<'static, str> {
        let mut path = self.prefix.to_owned();
        for step in steps {
            // Writing to a string does not fail.
            let _ = match step {
                PathStep::Element(index) | PathStep::Position { index, .. } => {
                    write!(path, "[{index}]")
                }
                PathStep::Member(name) if path.is_empty() => write!(path, "{name}"),
                PathStep::Member(name) => write!(path, ".{name}"),
            };
        }
        if path.is_empty() { self.name.into() } else { path.into() }
    }
}

impl Problem {
    fn new(cause: ParamsCause, expected: impl Into<Cow<'static, str>>) -> Self {
        let (expected, accepted, path) = (expected.into(), &[][..], Vec::new());
        Problem(Box::new(ProblemDetails {
            cause,
            expected,
            received: None,
            accepted,
            place: None,
            path,
        }))
    }

    pub(super) fn wrong_type(received: Option<&'static str>, expected: &dyn Expected) -> Self {
        let cause = ParamsCause::Mismatch(Mismatch::Type);
        Self::new(cause, text_of(expected)).but_received(received)
    }

    pub(super) fn stated(expected: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ParamsCause::Stated, expected)
    }

    /// A number that is too large for any type, or half of a surrogate pair.
    pub(super) fn unreadable() -> Self {
        Self::stated("a valid value")
    }

    /// The same problem in a buffered value, which may belong to an unknown member.
    pub(super) fn in_buffer() -> Self {
        Self::new(ParamsCause::Buffered, "a valid value")
    }

    pub(super) fn too_much() -> Self {
        Self::new(ParamsCause::TooMuch, "")
    }

    fn but_received(mut self, received: Option<&'static str>) -> Self {
        self.0.received = received;
        self
    }

    /// The value at this place should be one of these.
    pub(super) fn among(mut self, variants: Names) -> Self {
        if matches!(self.0.cause, ParamsCause::Mismatch(_)) && self.0.path.is_empty() {
            self.0.accepted = variants;
        }
        self
    }

    /// The number is an integer, so the type refuses it because it is too large or too small.
    pub(super) fn out_of_range(mut self) -> Self {
        if let ParamsCause::Mismatch(mismatch) = &mut self.0.cause {
            *mismatch = Mismatch::Value;
        }
        self
    }

    /// The key of a member is wrong, not its value.
    pub(super) fn found_in_key(mut self) -> Self {
        let expected = match self.0.cause {
            ParamsCause::Mismatch(_) => self.words(),
            ParamsCause::NotAccepted(_) => "an accepted value".into(),
            _ => return self,
        };
        self.0.expected = format!("{expected} as member name").into();
        (self.0.cause, self.0.received) = (ParamsCause::Stated, None);
        self
    }

    /// The type is a struct with these names, so this names the member that is missing in an array.
    pub(super) fn of_struct(self, names: Names) -> Self {
        match self.0.cause {
            ParamsCause::Length(missing)
                if self.0.path.is_empty() && length_of(&self.0.expected) == Some(names.len()) =>
            {
                names.get(missing).map_or(self, |name| Self::missing_field(name))
            }
            _ => self,
        }
    }

    /// Makes this value the place of the problem, unless an inner value is the place already.
    pub(super) fn found_in(mut self, reader: &ParamsReader<'_>) -> Self {
        self.0.place.get_or_insert((reader.json_type, reader.offset()));
        self
    }

    /// Adds the step that leads to the value.
    pub(super) fn under(mut self, step: PathStep) -> Self {
        self.0.path.push(step);
        self
    }

    pub(super) fn is_too_much(&self) -> bool {
        matches!(self.0.cause, ParamsCause::TooMuch)
    }

    /// Returns `true` if the problem is this value, and the type would have buffered it.
    pub(super) fn is_in_buffer(&self) -> bool {
        matches!(self.0.cause, ParamsCause::Buffered) && self.0.path.is_empty()
    }

    /// The start of the container that lacks a member, and the member's name.
    pub(super) fn missing_member(&self) -> Option<(usize, &'static str)> {
        match (&self.0.cause, self.0.place) {
            (ParamsCause::Missing(name), Some((_, offset))) => Some((offset, name)),
            _ => None,
        }
    }

    /// Takes the type of the missing member from the error of a reading with null in its place.
    pub(super) fn of_missing_type(mut self, answer: Problem) -> Self {
        let ParamsCause::Missing(name) = self.0.cause else { return self };
        // That error must refer to this null, and not to a later one.
        let is_about_it = match answer.0.path.strip_suffix(&*self.0.path) {
            Some([PathStep::Position { name: other, .. }]) => *other == name,
            Some([] | [_]) => true,
            _ => false,
        };
        let is_mismatch = matches!(answer.0.cause, ParamsCause::Mismatch(_));
        if is_about_it && is_mismatch && answer.0.received == Some("null") {
            (self.0.expected, self.0.accepted) = (answer.words(), answer.0.accepted);
        }
        self
    }

    /// Adds member names to elements of arrays that are read as structs, if the names are right.
    pub(super) fn name_positions(mut self, are_right: impl Fn(usize) -> bool) -> Self {
        let steps = self.0.path.iter_mut().rev();
        let positions = steps.filter(|step| matches!(step, PathStep::Position { .. }));
        for step in positions.take(MOST_NAMED) {
            if let PathStep::Position { name, array, .. } = *step
                && are_right(array)
            {
                *step = PathStep::Member(name.into());
            }
        }
        self
    }

    fn words(&self) -> Cow<'static, str> {
        match self.0.cause {
            ParamsCause::Mismatch(mismatch) => in_json(&self.0.expected, mismatch),
            ParamsCause::Length(_) => in_json(&self.0.expected, Mismatch::Length),
            _ => self.0.expected.clone(),
        }
    }

    pub(super) fn into_param_problem(self, subject: Subject) -> ParamProblem {
        let here = self.0.place.map_or("missing", |(json_type, _)| json_type);
        // Absent parameters are visited as null, but they are not null.
        let received = self.0.received.filter(|_| here != "missing").unwrap_or(here);
        let mut words = self.words();
        let ProblemDetails { cause, accepted, path, .. } = *self.0;
        let missing = match cause {
            ParamsCause::Missing(name) => Some(PathStep::Member(name.into())),
            _ => None,
        };
        let param = subject.path(path.into_iter().rev().chain(missing));
        match cause {
            ParamsCause::NotAccepted(sent) if !accepted.is_empty() => {
                return ParamProblem::not_accepted(param, &sent, accepted);
            }
            ParamsCause::Application(detail) => {
                return ParamProblem::wrong_type(param, words, received).with_detail(detail);
            }
            // serde reads some types from a buffer of its own, such as a flattened struct, and says only
            // that something inside is wrong.
            ParamsCause::Mismatch(_) if received != here && matches!(here, "object" | "array") => {
                words = format!("a valid member ({words})").into();
            }
            _ => {}
        }
        ParamProblem::wrong_type(param, words, received).accepting(accepted)
    }
}

impl Error for Problem {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(ParamsCause::Application(cut(&message.to_string())), "a valid value")
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::wrong_type(json_type(&unexpected), expected)
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(unexpected, expected).out_of_range()
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::new(ParamsCause::Length(length), text_of(expected))
    }

    fn unknown_variant(variant: &str, accepted: Names) -> Self {
        let mut problem = Self::new(ParamsCause::NotAccepted(cut(variant)), "a valid value");
        problem.0.accepted = accepted;
        problem
    }

    fn unknown_field(_: &str, _: Names) -> Self {
        // The remote chose the name, so it is not shown.
        Self::stated("object without other members").but_received(Some("object"))
    }

    fn missing_field(name: &'static str) -> Self {
        Self::new(ParamsCause::Missing(name), "value").but_received(Some("missing"))
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self::stated(format!("object with one member {name}")).but_received(Some("object"))
    }
}

impl fmt::Display for Problem {
    /// An application's `Deserialize` may show this text anywhere, so the text does not describe the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the parameters do not fit")
    }
}

impl std::error::Error for Problem {}

pub(super) fn text_of(expected: &dyn Expected) -> String {
    let mut text = String::new();
    // An application's `expecting` may fail. Then the text that it wrote before the failure is used.
    let _ = write!(text, "{expected}");
    text
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}

/// `None` if serde does not name the type, or quotes the value.
fn json_type(unexpected: &Unexpected<'_>) -> Option<&'static str> {
    Some(match unexpected {
        Unexpected::Bool(_) => "boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "number",
        Unexpected::Char(_) | Unexpected::Str(_) | Unexpected::Bytes(_) => "string",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Seq => "array",
        Unexpected::Map => "object",
        _ => return None,
    })
}
