//! Reads an OpenRPC document into the model.
//!
//! ```text
//! mod        the document and its types
//! method     methods, params, errors, examples
//! schema     JSON Schema
//! reference  `$ref`
//! unfold     types that unfold without end, or to too much
//! place      a value with its pointer
//! ```
//!
//! A `$ref` to a schema is not followed in place: its target becomes a named type, which waits in a queue. So types may
//! contain themselves, and no chain of references is too long for the stack.

mod method;
mod place;
mod reference;
mod schema;
mod unfold;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use self::place::Place;
use self::reference::Copies;
use crate::error::ApiError;
use crate::json::Json;
use crate::model::{Document, Info, NamedType, Server};
use crate::schema::{Schema, Shape, TypeId};

/// Maximum size of a document.
pub const MAX_DOCUMENT: usize = 64 * 1024 * 1024;

impl Document {
    /// Reads an OpenRPC document of version 1.
    ///
    /// Fails if the text is not JSON, is larger than [`MAX_DOCUMENT`], nests deeper than 127 levels, or is not OpenRPC.
    /// References to other documents are not followed, they are errors.
    pub fn read(text: &[u8]) -> Result<Self, ApiError> {
        if text.len() > MAX_DOCUMENT {
            let (size, limit) = (text.len(), MAX_DOCUMENT);
            return Err(ApiError::new(
                "",
                format!("the document has {size} bytes; the limit is {limit}"),
            ));
        }
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let root: Json = serde_json::from_slice(text)
            .map_err(|error| ApiError::new("", format!("the document is not JSON: {error}")))?;
        Document::from_json(&root)
    }

    /// Reads an OpenRPC document that is JSON already.
    pub fn from_json(root: &Json) -> Result<Self, ApiError> {
        let place = Place::root(root);
        let openrpc = version(&place)?;
        let mut reader = Reader {
            root,
            types: Vec::new(),
            ids: HashMap::new(),
            names: HashMap::new(),
            copies: Copies::default(),
        };
        let components = place.member("components");
        components.as_ref().map(Place::object).transpose()?;
        if let Some(schemas) = components.and_then(|it| it.member("schemas")) {
            for (name, value) in schemas.object()?.iter() {
                reader.name(schemas.child(name, value));
            }
        }
        let info = info(&place.required("info")?)?;
        let servers = servers(&place)?;
        let methods = reader.methods(&place.required("methods")?)?;
        let client_methods = match place.member("x-client-methods") {
            Some(list) => reader.methods(&list)?,
            None => Vec::new(),
        };
        let types = reader.into_types()?;
        let document = Document { openrpc, info, servers, methods, client_methods, types };
        unfold::check(&document)?;
        Ok(document)
    }
}

struct Reader<'a> {
    root: &'a Json,
    /// Types with a name; those at the end have not been read yet.
    types: Vec<(Place<'a>, String)>,
    ids: HashMap<String, TypeId>,
    /// Names in use, with the next number to try for each.
    names: HashMap<String, u64>,
    copies: Copies,
}

impl<'a> Reader<'a> {
    /// The id of the schema at a place, which gets a name if it has none.
    fn name(&mut self, place: Place<'a>) -> TypeId {
        if let Some(id) = self.ids.get(&place.pointer) {
            return *id;
        }
        let id = TypeId(self.types.len());
        self.ids.insert(place.pointer.clone(), id);
        let name = self.free_name(reference::last_name(&place.pointer));
        self.types.push((place, name));
        id
    }

    /// The name, with a number if another type has it.
    fn free_name(&mut self, name: String) -> String {
        if let Entry::Vacant(entry) = self.names.entry(name.clone()) {
            entry.insert(2);
            return name;
        }
        loop {
            let number = self.names.entry(name.clone()).or_insert(2);
            let numbered = format!("{name}{number}");
            *number += 1;
            if let Entry::Vacant(entry) = self.names.entry(numbered.clone()) {
                entry.insert(2);
                return numbered;
            }
        }
    }

    fn reference(&mut self, from: &Place<'a>, reference: &Place<'a>) -> Result<TypeId, ApiError> {
        reference::find(self.root, from, reference).map(|target| self.name(target))
    }

    /// Reads the types with a name. Each may name further ones.
    fn into_types(mut self) -> Result<Vec<NamedType>, ApiError> {
        let mut read: Vec<NamedType> = Vec::new();
        while let Some((place, name)) = self.types.get(read.len()).cloned() {
            let schema = self.schema(&place)?;
            read.push(NamedType { name, pointer: place.pointer, schema });
        }
        Ok(read)
    }

    /// The schema at a member, or any value.
    fn schema_or_any(&mut self, place: &Place<'a>, name: &str) -> Result<Schema, ApiError> {
        match place.member(name) {
            Some(schema) => self.schema(&schema),
            None => Ok(Schema::new(Shape::Any)),
        }
    }
}

/// The version of OpenRPC. What else a document may be gets a hint.
fn version(place: &Place<'_>) -> Result<String, ApiError> {
    let members = place.object().map_err(|error| {
        ApiError::new("", format!("this is not an OpenRPC document: {}", error.problem()))
    })?;
    let Some(version) = place.member("openrpc") else {
        let hint = match () {
            () if members.get("openapi").or(members.get("swagger")).is_some() => {
                ": it describes HTTP requests (OpenAPI)"
            }
            () if members.get("asyncapi").is_some() => ": it describes messages (AsyncAPI)",
            () if members.get("jsonrpc").is_some() && members.get("result").is_some() => {
                ": it is a response of a server; its `result` may be the document"
            }
            () => "",
        };
        return Err(place.error(format!(
            "this is not an OpenRPC document: the member `openrpc` is missing{hint}"
        )));
    };
    let text = version.text()?;
    match text.starts_with("1.") {
        true => Ok(text),
        false => Err(version
            .error(format!("OpenRPC {text:?} is unknown: expected version 1, such as \"1.3.2\""))),
    }
}

fn info(place: &Place<'_>) -> Result<Info, ApiError> {
    place.object()?;
    let license = place.member("license");
    Ok(Info {
        title: place.required("title")?.text()?,
        version: place.required("version")?.text()?,
        description: place.member_text("description")?,
        license: license.map(|it| it.member_text("name")).transpose()?.flatten(),
    })
}

/// The servers. A document may have one object instead of a list.
fn servers(place: &Place<'_>) -> Result<Vec<Server>, ApiError> {
    let servers = match place.member("servers") {
        Some(one) if one.value.as_object().is_some() => vec![one],
        Some(list) => list.entries()?,
        None => Vec::new(),
    };
    let read = |it: &Place<'_>| {
        Ok(Server {
            name: it.member_text("name")?,
            url: it.required("url")?.text()?,
            description: it.member_text("description")?,
        })
    };
    servers.iter().map(read).collect()
}
