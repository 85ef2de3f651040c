//! The parts of a client with their final names.

use std::collections::{HashMap, HashSet};

use super::names::{Names, words};
use crate::model::{Document, ErrorSpec, Method};

/// The words of the client's own name.
pub(super) fn client_words(document: &Document) -> Vec<String> {
    let mut name = words(&document.info.title, "api");
    // Otherwise `Files client` would be a `FilesClientClient`.
    if name.last().is_none_or(|last| last != "client") {
        name.push("client".to_owned());
    }
    if name == ["client"] {
        name.insert(0, "api".to_owned());
    }
    name
}

/// The names of all types of a document, by position.
pub(super) fn type_names(
    document: &Document,
    names: &mut Names,
    style: fn(&[String]) -> String,
) -> Vec<String> {
    document.types.iter().map(|it| names.pick(&style(&words(&it.name, "type")))).collect()
}

/// An error of some methods.
pub(super) struct ErrorClass<'a> {
    pub(super) name: String,
    pub(super) spec: &'a ErrorSpec,
}

/// The errors of all methods, each once, and the positions of the errors of each method.
pub(super) struct ErrorClasses<'a> {
    pub(super) classes: Vec<ErrorClass<'a>>,
    places: HashMap<String, usize>,
}

impl<'a> ErrorClasses<'a> {
    pub(super) fn new(
        document: &'a Document,
        names: &mut Names,
        style: fn(&[String]) -> String,
    ) -> Self {
        let mut found = ErrorClasses { classes: Vec::new(), places: HashMap::new() };
        let methods = document.methods.iter().chain(&document.client_methods);
        for spec in methods.flat_map(|method| &method.errors) {
            let place = found.classes.len();
            if *found.places.entry(key(spec)).or_insert(place) == place {
                let text = spec.name.as_deref().unwrap_or(&spec.message);
                let mut name = words(text, "remote");
                if name.last().is_some_and(|last| last != "error") {
                    name.push("error".to_owned());
                }
                found.classes.push(ErrorClass { name: names.pick(&style(&name)), spec });
            }
        }
        found
    }

    /// The errors of a method, one for each code.
    pub(super) fn of(&self, method: &Method) -> Vec<&ErrorClass<'a>> {
        let (mut found, mut codes) = (Vec::new(), HashSet::new());
        let places = method.errors.iter().filter_map(|spec| self.places.get(&key(spec)));
        for class in places.filter_map(|&place| self.classes.get(place)) {
            if codes.insert(class.spec.code) {
                found.push(class);
            }
        }
        found
    }
}

/// Errors with the same key have the same class.
fn key(spec: &ErrorSpec) -> String {
    format!("{} {:?} {:?} {:?}", spec.code, spec.name, spec.message, spec.data_schema)
}
