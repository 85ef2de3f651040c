//! What went wrong in the second reading, and where.
//!
//! A problem is made where serde finds it, which knows what was expected but not where it is. On
//! the way out, each element and member that it passes through adds its step to the path, and the
//! innermost value is taken for the place.

use std::borrow::Cow;
use std::fmt::{self, Write};

use duet_rpc_proto::message::ParamProblem;
use serde::de::{Error, Expected, Unexpected};

use super::reader::Reader;
use super::wording::{Mismatch, in_json, length_of};

/// The error of the second reading. It is boxed, as it comes back through every level.
#[derive(Debug)]
pub(super) struct Problem(Box<Inner>);

#[derive(Debug)]
struct Inner {
    wrong: Wrong,
    place: Option<Place>,
    /// From the place outwards.
    path: Vec<Step>,
}

#[derive(Debug)]
enum Wrong {
    /// Not what was expected. `received` is a JSON type, as serde saw it.
    Unexpected {
        mismatch: Mismatch,
        received: Option<&'static str>,
        expected: String,
        accepted: Accepted,
    },
    /// A string that is not in a closed list.
    Variant {
        received: String,
        accepted: Accepted,
    },
    /// A member's name that is not what names have to be here.
    Name {
        expected: Cow<'static, str>,
        accepted: Accepted,
    },
    /// Not as many elements as expected: this one is missing, or there are too many.
    Length {
        missing: usize,
        expected: String,
    },
    MissingMember {
        name: &'static str,
        expected: Cow<'static, str>,
        accepted: Accepted,
    },
    UnknownMember,
    DuplicateMember(&'static str),
    /// The application says so, in words that may quote the value: they stay in this process.
    Application(Option<String>),
    /// It cannot be read at all, and would have been put aside whole.
    Buffered,
    /// It goes on deeper than we read, or for longer.
    TooDeep,
}

/// A closed list of values; empty where there is none.
type Accepted = &'static [&'static str];

/// The innermost value that the problem went through.
#[derive(Clone, Copy, Debug)]
struct Place {
    json_type: &'static str,
    address: usize,
}

/// One step of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Element(usize),
    /// An element of the array, by its address, that a struct is read from. The name is right if the
    /// struct has as many members as names.
    Position {
        index: usize,
        name: &'static str,
        array: usize,
    },
    Member(Cow<'static, str>),
}

/// For so many structs of a path that stand in arrays it is found out whether their names are right: each
/// of them takes another reading.
const MOST_NAMED: usize = 8;

/// Where no culprit can be named.
pub(super) fn of_the_whole(subject: Subject, received: &'static str) -> ParamProblem {
    let expected = match subject {
        Subject::Params => "valid parameters",
        Subject::Result => "a valid result",
    };
    ParamProblem::wrong_type(subject.name(), expected, received)
}

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Params,
    Result,
}

impl Subject {
    /// What stands for the whole of it in the place of a path.
    pub(super) fn name(self) -> &'static str {
        match self {
            Subject::Params => "params",
            Subject::Result => "result",
        }
    }
}

/// How many characters of what an application says are kept.
const LONGEST_DETAIL: usize = 500;

impl Problem {
    pub(super) fn too_deep() -> Self {
        Self::new(Wrong::TooDeep)
    }

    /// A number beyond all numbers, or half of a character.
    pub(super) fn unreadable() -> Self {
        Self::new(Wrong::Application(None))
    }

    /// The same, in a value that is put aside whole, perhaps as its name is none that the type knows.
    pub(super) fn in_buffer() -> Self {
        Self::new(Wrong::Buffered)
    }

    /// Whether it is about a value that is put aside whole, and this is that value.
    pub(super) fn is_in_buffer(&self) -> bool {
        matches!(self.0.wrong, Wrong::Buffered) && self.0.path.is_empty()
    }

    /// A value where an enum with these variants was expected.
    pub(super) fn not_a_variant(
        unexpected: Unexpected<'_>,
        expected: &dyn Expected,
        variants: Accepted,
    ) -> Self {
        Self::invalid_type(unexpected, expected).among(variants)
    }

    /// What was expected at this very place is one of these.
    pub(super) fn among(mut self, variants: Accepted) -> Self {
        if let Wrong::Unexpected { accepted, .. } = &mut self.0.wrong
            && self.0.path.is_empty()
        {
            *accepted = variants;
        }
        self
    }

    /// It was found in a struct with these names that is read from an array: says which one is missing.
    pub(super) fn of_struct(mut self, names: Accepted) -> Self {
        if let Wrong::Length { missing, expected } = &self.0.wrong
            && self.0.path.is_empty()
            && length_of(expected) == Some(names.len())
            && let Some(name) = names.get(*missing)
        {
            self.0.wrong = Self::missing(name);
        }
        self
    }

    /// The arrays on the path that structs are read from, from the outermost on.
    pub(super) fn struct_arrays(&self) -> Vec<usize> {
        let arrays = self.0.path.iter().rev().filter_map(|step| match step {
            Step::Position { array, .. } => Some(*array),
            _ => None,
        });
        arrays.take(MOST_NAMED).collect()
    }

    /// The elements of this array are the members of a struct whose names are known.
    pub(super) fn name_elements_of(&mut self, named: usize) {
        for step in &mut self.0.path {
            if let Step::Position { name, array, .. } = step
                && *array == named
            {
                *step = Step::Member((*name).into());
            }
        }
    }

    /// It was found in this value, if not in one further in.
    pub(super) fn found_in(mut self, reader: &Reader<'_>) -> Self {
        let place = Place { json_type: reader.json_type(), address: reader.address() };
        self.0.place.get_or_insert(place);
        self
    }

    /// The value is reached by this step.
    pub(super) fn under(mut self, step: Step) -> Self {
        self.0.path.push(step);
        self
    }

    /// It was not in a value, but in the name of a member.
    pub(super) fn found_in_name(mut self) -> Self {
        let (expected, accepted): (_, Accepted) = match &self.0.wrong {
            Wrong::Unexpected { mismatch, expected, accepted, .. } => {
                (format!("{} as member name", in_json(expected, *mismatch)).into(), accepted)
            }
            Wrong::Variant { accepted, .. } => {
                ("an accepted value as member name".into(), accepted)
            }
            _ => return self,
        };
        self.0.wrong = Wrong::Name { expected, accepted };
        self
    }

    /// The number is an integer, so that if it is not taken, it is too large or too small.
    pub(super) fn out_of_range(mut self) -> Self {
        if let Wrong::Unexpected { mismatch, .. } = &mut self.0.wrong {
            *mismatch = Mismatch::Value;
        }
        self
    }

    /// There were no parameters, which was read as null.
    pub(super) fn of_absent(mut self) -> Self {
        if self.0.path.is_empty() {
            if let Wrong::Unexpected { received, .. } = &mut self.0.wrong {
                *received = Some("missing");
            }
            if let Some(place) = &mut self.0.place {
                place.json_type = "missing";
            }
        }
        self
    }

    /// The object that misses a member, and the member's name.
    pub(super) fn missing_member(&self) -> Option<(usize, &'static str)> {
        match (&self.0.wrong, self.0.place) {
            (Wrong::MissingMember { name, .. }, Some(place)) => Some((place.address, name)),
            _ => None,
        }
    }

    /// Takes the type of the missing member from what was said about a null in its place.
    pub(super) fn of_missing_type(mut self, answer: Problem) -> Self {
        // The answer must be about that null, and not about one that stands further on.
        let more = answer.0.path.len().checked_sub(self.0.path.len());
        let same_place = answer.0.path.ends_with(&self.0.path) && matches!(more, Some(0 | 1));
        // By position it may be about one before.
        let other = match answer.0.path.first() {
            Some(Step::Position { name, .. }) if more == Some(1) => Some(*name),
            _ => None,
        };
        if let Wrong::MissingMember { expected, accepted, name } = &mut self.0.wrong
            && let Wrong::Unexpected {
                received: Some("null"),
                mismatch,
                expected: text,
                accepted: list,
            } = &answer.0.wrong
            && same_place
            && other.is_none_or(|other| other == *name)
        {
            (*expected, *accepted) = (in_json(text, *mismatch), list);
        }
        self
    }

    /// What the remote is told.
    pub(super) fn into_param_problem(self, subject: Subject) -> ParamProblem {
        let Inner { wrong, place, path } = *self.0;
        let show = |path, last| show(path, last, subject);
        let here = place.map_or("missing", |place| place.json_type);
        match wrong {
            Wrong::Unexpected { mismatch, received, expected, accepted } => {
                let words = in_json(&expected, mismatch);
                let received = received.unwrap_or(here);
                // serde reads some types from a buffer of its own, such as a flattened struct, and
                // we hear only that something inside is wrong.
                let inside = received != here && matches!(here, "object" | "array");
                let words = if inside { format!("a valid member ({words})").into() } else { words };
                ParamProblem::wrong_type(show(path, None), words, received).accepting(accepted)
            }
            Wrong::Length { expected, .. } => {
                let words = in_json(&expected, Mismatch::Length);
                ParamProblem::wrong_type(show(path, None), words, here)
            }
            Wrong::Variant { received, accepted } if !accepted.is_empty() => {
                ParamProblem::not_accepted(show(path, None), &received, accepted)
            }
            Wrong::Name { expected, accepted } => {
                ParamProblem::wrong_type(show(path, None), expected, here).accepting(accepted)
            }
            Wrong::MissingMember { name, expected, accepted } => {
                ParamProblem::wrong_type(show(path, Some(name)), expected, "missing")
                    .accepting(accepted)
            }
            // Its name is the remote's, so that it cannot be named.
            Wrong::UnknownMember => {
                let expected = "object without other members";
                ParamProblem::wrong_type(show(path, None), expected, "object")
            }
            Wrong::DuplicateMember(name) => {
                let expected = format!("object with one member {name}");
                ParamProblem::wrong_type(show(path, None), expected, "object")
            }
            Wrong::Application(detail) => {
                let problem = ParamProblem::wrong_type(show(path, None), "a valid value", here);
                match detail {
                    Some(detail) => problem.with_detail(detail),
                    None => problem,
                }
            }
            Wrong::Buffered | Wrong::Variant { .. } => {
                ParamProblem::wrong_type(show(path, None), "a valid value", here)
            }
            // A path as long as this one would help nobody.
            Wrong::TooDeep => {
                let received = match path.last() {
                    Some(Step::Element(_) | Step::Position { .. }) => "array",
                    Some(Step::Member(_)) => "object",
                    None => here,
                };
                of_the_whole(subject, received)
            }
        }
    }

    fn new(wrong: Wrong) -> Self {
        Problem(Box::new(Inner { wrong, place: None, path: Vec::new() }))
    }

    fn unexpected(
        mismatch: Mismatch,
        received: Option<&'static str>,
        expected: &dyn Expected,
    ) -> Self {
        let expected = text_of(expected);
        Self::new(Wrong::Unexpected { mismatch, received, expected, accepted: &[] })
    }

    fn missing(name: &'static str) -> Wrong {
        Wrong::MissingMember { name, expected: "value".into(), accepted: &[] }
    }
}

impl Error for Problem {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let text = message.to_string().chars().take(LONGEST_DETAIL).collect();
        Self::new(Wrong::Application(Some(text)))
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::unexpected(Mismatch::Type, json_type(&unexpected), expected)
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::unexpected(Mismatch::Value, json_type(&unexpected), expected)
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::new(Wrong::Length { missing: length, expected: text_of(expected) })
    }

    fn unknown_variant(variant: &str, accepted: Accepted) -> Self {
        Self::new(Wrong::Variant { received: variant.to_owned(), accepted })
    }

    fn unknown_field(_: &str, _: Accepted) -> Self {
        Self::new(Wrong::UnknownMember)
    }

    fn missing_field(name: &'static str) -> Self {
        Self::new(Self::missing(name))
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self::new(Wrong::DuplicateMember(name))
    }
}

impl fmt::Display for Problem {
    /// An application's `Deserialize` may show this anywhere, so that it says nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the parameters do not fit")
    }
}

impl std::error::Error for Problem {}

fn text_of(expected: &dyn Expected) -> String {
    let mut text = String::new();
    // An application's `expecting` may fail, and what it wrote until then is as good.
    let _ = write!(text, "{expected}");
    text
}

/// `None` where serde does not say, or quotes the value in words.
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

fn show(path: Vec<Step>, last: Option<&'static str>, subject: Subject) -> Cow<'static, str> {
    // A result has no names of its own, so that its path begins with a word for it.
    let mut shown = match subject {
        Subject::Params => String::new(),
        Subject::Result => subject.name().to_owned(),
    };
    let last = last.map(|name| Step::Member(name.into()));
    for step in path.into_iter().rev().chain(last) {
        match step {
            Step::Element(index) | Step::Position { index, .. } => {
                // Writing to a string does not fail.
                let _ = write!(shown, "[{index}]");
            }
            Step::Member(name) => {
                if !shown.is_empty() {
                    shown.push('.');
                }
                shown.push_str(&name);
            }
        }
    }
    if shown.is_empty() { subject.name().into() } else { shown.into() }
}
