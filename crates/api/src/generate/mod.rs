//! Clients in other languages, generated from a document.
//!
//! ```text
//! names       identifiers for names of any text
//! text        descriptions of any text as comments
//! shapes      questions about types
//! plan        methods, types and errors with their final names, the same for every language
//! typescript  on vscode-jsonrpc
//! python      on the package duet-rpc
//! elisp       on jsonrpc.el
//! ```
//!
//! Every document that can be read gives code that compiles. A part of a schema that a language cannot express becomes
//! its widest type. The same document gives the same bytes.

mod elisp;
mod names;
mod plan;
mod python;
mod shapes;
mod text;
mod typescript;

use crate::model::Document;

/// A language of generated clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// TypeScript, on `vscode-jsonrpc`.
    TypeScript,
    /// Python 3.11 or newer, on the package `duet-rpc`.
    Python,
    /// Emacs Lisp, on `jsonrpc.el`.
    Elisp,
}

impl Language {
    /// Every language.
    pub const ALL: [Language; 3] = [Language::TypeScript, Language::Python, Language::Elisp];

    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Language::TypeScript => "typescript",
            Language::Python => "python",
            Language::Elisp => "elisp",
        }
    }
}

/// A generated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedFile {
    /// Its name, without a folder. It consists of letters, digits, `-`, `_` and `.`, all in ASCII.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Generates a client. `command` is the command that does so, for the header of the file.
///
/// ```
/// # fn main() -> Result<(), duet_rpc_api::ApiError> {
/// use duet_rpc_api::{Document, Language, generate};
///
/// let document = Document::read(br#"{
///     "openrpc": "1.3.2",
///     "info": {"title": "Math", "version": "1.0.0"},
///     "methods": [{
///         "name": "add",
///         "params": [{"name": "a", "required": true, "schema": {"type": "integer"}}],
///         "result": {"name": "sum", "schema": {"type": "integer"}}
///     }]
/// }"#)?;
/// let file = generate(Language::Python, &document, "duet-rpc api gen python math.json --out .");
/// assert_eq!(file.name, "math_client.py");
/// assert!(file.text.contains("async def add(self, *, a: int"));
/// # Ok(())
/// # }
/// ```
pub fn generate(language: Language, document: &Document, command: &str) -> GeneratedFile {
    match language {
        Language::TypeScript => typescript::generate(document, command),
        Language::Python => python::generate(document, command),
        Language::Elisp => elisp::generate(document, command),
    }
}
