//! The model of an API: an OpenRPC document with its references resolved.
//!
//! It is the same for every output: pages, comparison, clients in any language. Everything keeps the order of the
//! document.

use crate::json::Json;
use crate::schema::{Schema, TypeId};

/// The API of a server.
///
/// ```
/// # fn main() -> Result<(), duet_rpc_api::ApiError> {
/// let document = duet_rpc_api::Document::read(br##"{
///     "openrpc": "1.3.2",
///     "info": {"title": "Pets", "version": "1.0.0"},
///     "methods": [{
///         "name": "get_pet",
///         "params": [{"name": "id", "required": true, "schema": {"type": "integer"}}],
///         "result": {"name": "pet", "schema": {"$ref": "#/components/schemas/Pet"}}
///     }],
///     "components": {"schemas": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}}}}
/// }"##)?;
/// assert_eq!(document.methods[0].name, "get_pet");
/// assert_eq!(document.types[0].name, "Pet");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Version of the OpenRPC specification, such as `1.3.2`.
    pub openrpc: String,
    /// Name and version of the API.
    pub info: Info,
    /// Addresses at which the API is served.
    pub servers: Vec<Server>,
    /// Methods that clients call.
    pub methods: Vec<Method>,
    /// Methods that the server calls at its client (`x-client-methods`).
    pub client_methods: Vec<Method>,
    /// Types with a name: all of `components/schemas`, and every other schema that a `$ref` names. A schema refers to
    /// them with [`Shape::Ref`](crate::Shape::Ref), so that a type may contain itself.
    pub types: Vec<NamedType>,
}

/// Name and version of an API.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info {
    /// Name of the API.
    pub title: String,
    /// Version of the API, not of OpenRPC.
    pub version: String,
    /// Text for people, in Markdown.
    pub description: Option<String>,
    /// Name or SPDX identifier of the licence.
    pub license: Option<String>,
}

/// An address at which the API is served.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Name for people.
    pub name: Option<String>,
    /// The address.
    pub url: String,
    /// Text for people.
    pub description: Option<String>,
}

/// A method or a notification.
#[derive(Clone, Debug, PartialEq)]
pub struct Method {
    /// Name on the wire.
    pub name: String,
    /// One line for people.
    pub summary: Option<String>,
    /// Text for people, in Markdown.
    pub description: Option<String>,
    /// True if new code should not use it.
    pub is_deprecated: bool,
    /// Why, and what to use instead (`x-deprecated`).
    pub deprecation: Option<String>,
    /// First version of the API with this method (`x-since`).
    pub since: Option<String>,
    /// True if calling it twice does the same as calling it once (`x-idempotent`).
    pub is_idempotent: bool,
    /// Other names on the wire (`x-aliases`).
    pub aliases: Vec<String>,
    /// Names of groups.
    pub tags: Vec<String>,
    /// Params, in order.
    pub params: Vec<Param>,
    /// Type of the whole params, if they are one value (`x-params`). Then [`Method::params`] has its members, or is empty
    /// if it is not an object.
    pub free_params: Option<Schema>,
    /// The form of the params: by name, by position, or either.
    pub param_structure: ParamStructure,
    /// The result; `None` for a notification, which has no answer.
    pub result: Option<ResultSpec>,
    /// Errors that the method answers, in order.
    pub errors: Vec<ErrorSpec>,
    /// Calls with their results.
    pub examples: Vec<Example>,
}

impl Method {
    /// True if there is no answer.
    pub fn is_notification(&self) -> bool {
        self.result.is_none()
    }
}

/// The form of the params of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParamStructure {
    /// As an object.
    ByName,
    /// As an array.
    ByPosition,
    /// As an object or an array.
    #[default]
    Either,
}

impl ParamStructure {
    /// The word of OpenRPC: `by-name`, `by-position` or `either`.
    pub fn name(self) -> &'static str {
        match self {
            ParamStructure::ByName => "by-name",
            ParamStructure::ByPosition => "by-position",
            ParamStructure::Either => "either",
        }
    }
}

/// A param of a method.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Name on the wire.
    pub name: String,
    /// One line for people.
    pub summary: Option<String>,
    /// Text for people.
    pub description: Option<String>,
    /// False if it may be left out.
    pub is_required: bool,
    /// True if new code should not send it.
    pub is_deprecated: bool,
    /// Its type. The default of the param is the default of this schema.
    pub schema: Schema,
}

/// The result of a method.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultSpec {
    /// Name for people; it is not sent.
    pub name: String,
    /// One line for people.
    pub summary: Option<String>,
    /// Text for people.
    pub description: Option<String>,
    /// Its type.
    pub schema: Schema,
}

/// An error that a method answers.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorSpec {
    /// Name in `x-errors`, or its key in `components/errors` if the method refers to it.
    pub name: Option<String>,
    /// Code on the wire.
    pub code: i64,
    /// Message on the wire.
    pub message: String,
    /// The `data` of the document, an example.
    pub data: Option<Json>,
    /// Type of `data` on the wire (`x-errors`).
    pub data_schema: Option<Schema>,
    /// One line for people (`x-errors`).
    pub summary: Option<String>,
    /// Text for people (`x-errors`).
    pub description: Option<String>,
}

/// A call with its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// Name for people.
    pub name: String,
    /// Text for people.
    pub description: Option<String>,
    /// Params with their names, in order.
    pub params: Vec<(String, Json)>,
    /// The result; `None` for a notification.
    pub result: Option<Json>,
}

/// A type with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedType {
    /// Last part of its pointer, such as `Pet`. A second type of the same name gets a number. It may be any text.
    pub name: String,
    /// Its JSON pointer in the document, such as `/components/schemas/Pet`.
    pub pointer: String,
    /// The type.
    pub schema: Schema,
}

impl Document {
    /// The type that a reference names.
    pub fn named(&self, id: TypeId) -> &NamedType {
        // Every id was given out with its entry, and a document never loses one.
        &self.types[id.0]
    }

    /// The method that clients call by this name.
    pub fn method(&self, name: &str) -> Option<&Method> {
        self.methods.iter().find(|method| method.name == name)
    }
}
