//! Finds types that unfold without end, or to too much.
//!
//! A type may contain itself inside an array or an object. A type that *is* itself (`A` is `B`, `B` is `A`) has no
//! values, and code that unfolds it would not end. A long chain of such types would need a deep stack, so its length is
//! limited too.
//!
//! Every `allOf` of objects is shown as one object, with the members of all its parts. A small document can have many
//! that refer to one large type, so the sum of their sizes is limited.

use std::collections::HashSet;

use super::MAX_DOCUMENT;
use crate::error::ApiError;
use crate::model::Document;
use crate::schema::{Schema, Shape, TypeId};

/// Levels of references, `anyOf` and `allOf` between a type and its parts.
const MAX_LEVELS: usize = 256;

/// Size of all types that an `allOf` joins, summed up over all `allOf`s.
const MAX_JOINED: usize = 4 * MAX_DOCUMENT;

#[derive(Clone, Copy)]
enum State {
    New,
    Open,
    Done { levels: usize },
}

/// Fails if a type of the document unfolds without end. Works without recursion over references.
pub(super) fn check(document: &Document) -> Result<(), ApiError> {
    let mut states = vec![State::New; document.types.len()];
    let edges: Vec<Vec<(TypeId, usize)>> = document
        .types
        .iter()
        .map(|named| {
            let mut edges = Vec::new();
            collect(&named.schema, 1, &mut edges);
            edges
        })
        .collect();
    for start in 0..states.len() {
        // Each entry: a type, and the number of its edges that are done.
        let mut open = vec![(start, 0)];
        while let Some((at, next)) = open.pop() {
            if next == 0 && !matches!(states[at], State::New) {
                continue;
            }
            states[at] = State::Open;
            match edges[at].get(next) {
                Some((TypeId(to), _)) => {
                    open.push((at, next + 1));
                    match states[*to] {
                        State::Open => return Err(endless(document, *to)),
                        State::New => open.push((*to, 0)),
                        State::Done { .. } => {}
                    }
                }
                None => {
                    let below = |(TypeId(to), levels): &(TypeId, usize)| match states[*to] {
                        State::Done { levels: below } => levels + below,
                        _ => *levels,
                    };
                    let levels = edges[at].iter().map(below).max().unwrap_or(0);
                    if levels > MAX_LEVELS {
                        return Err(too_deep(document, at));
                    }
                    states[at] = State::Done { levels };
                }
            }
        }
    }
    Joins::new(document).check()
}

/// Sums up the sizes of types that are joined.
struct Joins<'a> {
    document: &'a Document,
    /// Sizes of the types with a name.
    sizes: Vec<usize>,
    sum: usize,
}

impl<'a> Joins<'a> {
    fn new(document: &'a Document) -> Self {
        let sizes = document.types.iter().map(|named| named.schema.size()).collect();
        Joins { document, sizes, sum: 0 }
    }

    fn check(mut self) -> Result<(), ApiError> {
        let document = self.document;
        for named in &document.types {
            self.schema(&named.schema, &named.pointer)?;
        }
        for method in document.methods.iter().chain(&document.client_methods) {
            let params = method.params.iter().map(|it| &it.schema);
            let results = method.result.iter().map(|it| &it.schema);
            let errors = method.errors.iter().filter_map(|it| it.data_schema.as_ref());
            for schema in params.chain(&method.free_params).chain(results).chain(errors) {
                self.schema(schema, &format!("method {:?}", method.name))?;
            }
        }
        Ok(())
    }

    fn schema(&mut self, schema: &Schema, place: &str) -> Result<(), ApiError> {
        if let Shape::AllOf(_) = &schema.shape {
            self.join(schema, &mut HashSet::new());
            if self.sum > MAX_JOINED {
                let limit = MAX_JOINED >> 20;
                let problem =
                    format!("the types that `allOf` joins up to here have more than {limit} MiB");
                return Err(ApiError::new(place, problem));
            }
        }
        schema.children().into_iter().try_for_each(|it| self.schema(it, place))
    }

    fn join(&mut self, schema: &Schema, seen: &mut HashSet<TypeId>) {
        match &schema.shape {
            Shape::Ref(id) if seen.insert(*id) => {
                let named = &self.document.named(*id).schema;
                match &named.shape {
                    Shape::AllOf(_) | Shape::Ref(_) => self.join(named, seen),
                    _ => self.sum = self.sum.saturating_add(self.sizes[id.0]),
                }
            }
            Shape::AllOf(parts) => parts.iter().for_each(|it| self.join(it, seen)),
            _ => {}
        }
    }
}

/// References that are not inside an array or an object, with their depth.
fn collect(schema: &Schema, level: usize, edges: &mut Vec<(TypeId, usize)>) {
    match &schema.shape {
        Shape::Ref(id) => edges.push((*id, level)),
        Shape::AnyOf(types) | Shape::AllOf(types) => {
            types.iter().for_each(|it| collect(it, level + 1, edges));
        }
        _ => {}
    }
}

fn endless(document: &Document, at: usize) -> ApiError {
    let named = &document.types[at];
    ApiError::new(
        named.pointer.clone(),
        format!(
            "the type {:?} is defined as itself: expected an array or an object in between",
            named.name
        ),
    )
}

fn too_deep(document: &Document, at: usize) -> ApiError {
    let named = &document.types[at];
    ApiError::new(
        named.pointer.clone(),
        format!("the type {:?} leads through more than {MAX_LEVELS} references", named.name),
    )
}
