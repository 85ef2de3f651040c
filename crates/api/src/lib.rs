//! OpenRPC documents: the API of a JSON-RPC 2.0 server, as data.
//!
//! [`Document::read`] reads a document of any server into a small model, with its references resolved. This crate does
//! no I/O and starts nothing. The command `duet-rpc api` fetches documents from files and servers.
//!
//! ```text
//! json      JSON values that keep their order
//! model     methods, params, errors, examples
//! schema    types
//! type_text types as a line of text
//! read      OpenRPC and JSON Schema into the model
//! compare   changes between two versions, and whether they break callers
//! generate  clients in TypeScript, Python and Emacs Lisp
//! html      a page for people
//! error     where and why a document cannot be used
//! ```

// Input must not end the process; in tests it may.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod compare;
mod error;
mod generate;
mod html;
mod json;
mod model;
mod read;
mod schema;
mod type_text;

pub use compare::{Change, ChangeRule, Comparison, compare};
pub use error::ApiError;
pub use generate::{GeneratedFile, Language, generate};
pub use json::{Json, Members};
pub use model::{
    Document, ErrorSpec, Example, Info, Method, NamedType, Param, ParamStructure, ResultSpec,
    Server,
};
pub use read::MAX_DOCUMENT;
pub use schema::{
    ArrayShape, Bound, Member, NumberShape, ObjectShape, Schema, Shape, StringShape, TypeId,
};

/// Doc tests for the examples in the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
