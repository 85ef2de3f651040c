//! Compares two versions of an API: what changed, and what breaks its callers.
//!
//! ```text
//! mod        the comparison and its result
//! methods    methods, params, answers, errors
//! types      types, and the ways in which they can differ
//! containers arrays and objects
//! all_of     types with several parts
//! union      types with alternatives, and enums
//! limits     ranges, lengths, formats
//! changelog  the result as a changelog
//! ```
//!
//! A value flows to the server (params) or from it (results). A type that values flow *to* may become wider; one that they
//! come *from* may become narrower; the reverse breaks callers. For the methods that the server calls at its client, both
//! are reversed.

mod all_of;
mod changelog;
mod containers;
mod limits;
mod methods;
mod types;
mod union;

use crate::model::Document;

/// Changes that are kept. Two documents with more have nothing to do with each other.
const MAX_CHANGES: usize = 10_000;

/// The changes between two versions of an API.
///
/// ```
/// # fn main() -> Result<(), duet_rpc_api::ApiError> {
/// # let document = |methods: &str| duet_rpc_api::Document::read(format!(
/// #     r#"{{"openrpc": "1.3.2", "info": {{"title": "", "version": ""}}, "methods": [{methods}]}}"#).as_bytes());
/// let old = document(r#"{"name": "stop", "params": []}"#)?;
/// let new = document("")?;
/// let comparison = duet_rpc_api::compare(&old, &new);
/// assert_eq!(comparison.breaking().next().unwrap().text, "the method was removed");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The changes, by method in the order of the old version.
    pub changes: Vec<Change>,
    /// Changes that are left out because there are too many.
    pub omitted: u64,
}

/// A change of an API.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The rule that classifies the change.
    pub rule: ChangeRule,
    /// The method.
    pub method: String,
    /// True if the server calls the method at its client.
    pub is_client_method: bool,
    /// Place in the method, such as `params.pet.tags[]`; empty for the method itself.
    pub path: String,
    /// True if a caller of the old version can fail.
    pub is_breaking: bool,
    /// A sentence for people.
    pub text: String,
}

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ChangeRule {
    /// A method is new.
    MethodAdded,
    /// A method is gone.
    MethodRemoved,
    /// A method is deprecated now, or no longer.
    Deprecation,
    /// Another name of a method is gone.
    AliasRemoved,
    /// A request became a notification, or the reverse.
    AnswerChanged,
    /// A call may no longer be repeated.
    Idempotence,
    /// A param or a member is new.
    Added,
    /// A param or a member is gone.
    Removed,
    /// A param has another name.
    Renamed,
    /// A param has another position.
    Moved,
    /// A param or a member is required now, or no longer.
    Required,
    /// Params are sent in another form.
    ParamStructure,
    /// Fewer values are allowed.
    Narrowed,
    /// More values are allowed.
    Widened,
    /// Other values are allowed.
    TypeChanged,
    /// A missing value means another one.
    Default,
    /// An error has another code.
    ErrorCode,
    /// An error is new, gone, or has another text.
    Errors,
}

impl ChangeRule {
    /// All rules.
    pub const ALL: [ChangeRule; 18] = [
        ChangeRule::MethodAdded,
        ChangeRule::MethodRemoved,
        ChangeRule::Deprecation,
        ChangeRule::AliasRemoved,
        ChangeRule::AnswerChanged,
        ChangeRule::Idempotence,
        ChangeRule::Added,
        ChangeRule::Removed,
        ChangeRule::Renamed,
        ChangeRule::Moved,
        ChangeRule::Required,
        ChangeRule::ParamStructure,
        ChangeRule::Narrowed,
        ChangeRule::Widened,
        ChangeRule::TypeChanged,
        ChangeRule::Default,
        ChangeRule::ErrorCode,
        ChangeRule::Errors,
    ];

    /// Name of the rule in reports, such as `method-removed`.
    pub fn name(self) -> &'static str {
        match self {
            ChangeRule::MethodAdded => "method-added",
            ChangeRule::MethodRemoved => "method-removed",
            ChangeRule::Deprecation => "deprecation",
            ChangeRule::AliasRemoved => "alias-removed",
            ChangeRule::AnswerChanged => "answer-changed",
            ChangeRule::Idempotence => "idempotence",
            ChangeRule::Added => "added",
            ChangeRule::Removed => "removed",
            ChangeRule::Renamed => "renamed",
            ChangeRule::Moved => "moved",
            ChangeRule::Required => "required",
            ChangeRule::ParamStructure => "param-structure",
            ChangeRule::Narrowed => "narrowed",
            ChangeRule::Widened => "widened",
            ChangeRule::TypeChanged => "type-changed",
            ChangeRule::Default => "default",
            ChangeRule::ErrorCode => "error-code",
            ChangeRule::Errors => "errors",
        }
    }

    /// Advice for a breaking change of this kind.
    pub fn advice(self) -> &'static str {
        match self {
            ChangeRule::MethodAdded => {
                "old clients answer an unknown request with an error: let clients announce it first"
            }
            ChangeRule::MethodRemoved | ChangeRule::AliasRemoved => {
                "keep it for a while, as deprecated or as an alias of its successor"
            }
            ChangeRule::AnswerChanged => "give the method a new name, and keep the old one",
            ChangeRule::Added | ChangeRule::Required => "let it be left out, and give it a default",
            ChangeRule::Removed => "keep it for a while, as deprecated",
            ChangeRule::Renamed | ChangeRule::Moved => {
                "keep the names and positions of params, and add new ones at the end"
            }
            ChangeRule::ParamStructure => "accept what the old version accepted",
            ChangeRule::Narrowed => "accept every value that the old version accepted",
            ChangeRule::Widened => {
                "clients do not know the new values: add a method or a member for them"
            }
            ChangeRule::TypeChanged => {
                "add a method or a member with the new type, and keep the old one"
            }
            ChangeRule::Default => {
                "callers that leave it out get the new value: add a param instead"
            }
            ChangeRule::ErrorCode => "clients tell errors apart by code: keep it",
            ChangeRule::Idempotence => {
                "clients repeat calls of this method after a lost connection"
            }
            ChangeRule::Deprecation | ChangeRule::Errors => "nothing",
        }
    }
}

/// Compares two versions of an API.
pub fn compare(old: &Document, new: &Document) -> Comparison {
    let mut comparison = Comparison::default();
    methods::compare(old, new, &mut comparison);
    comparison
}

impl Comparison {
    /// The changes that can make a caller of the old version fail.
    pub fn breaking(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.is_breaking)
    }

    fn add(&mut self, change: Change) {
        match self.changes.len() < MAX_CHANGES {
            true => self.changes.push(change),
            false => self.omitted += 1,
        }
    }
}
