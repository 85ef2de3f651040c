//! Types of params and results: JSON Schema (draft-07 and 2020-12) in a small, regular form.
//!
//! JSON Schema says one thing in many ways. Here `type` arrays, `nullable`, `oneOf` and `anyOf` are all a
//! [`Shape::AnyOf`], `const` is an enum of one value, and keywords beside each other are a [`Shape::AllOf`].

use std::collections::{HashMap, HashSet};

use serde_json::Number;

use crate::json::Json;
use crate::model::Document;

/// Names an entry of [`Document::types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub(crate) usize);

/// A type, with its texts for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// Name for people.
    pub title: Option<String>,
    /// Text for people.
    pub description: Option<String>,
    /// Value that stands for a missing one.
    pub default: Option<Json>,
    /// Example values.
    pub examples: Vec<Json>,
    /// True if new code should not use it.
    pub is_deprecated: bool,
    /// The values that are valid.
    pub shape: Shape,
}

/// The values that are valid.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Every value.
    Any,
    /// No value.
    Never,
    /// `null`
    Null,
    /// `true` and `false`
    Boolean,
    /// Numbers.
    Number(NumberShape),
    /// Strings.
    String(StringShape),
    /// One of these values; never empty.
    Enum(Vec<Json>),
    /// Arrays.
    Array(ArrayShape),
    /// Objects.
    Object(ObjectShape),
    /// The values of a type with a name.
    Ref(TypeId),
    /// Values that one of these allows (`oneOf`, `anyOf`, several `type`s, `nullable`). At least two.
    AnyOf(Vec<Schema>),
    /// Values that all of these allow (`allOf`, or keywords beside each other). At least two.
    AllOf(Vec<Schema>),
    /// Values by a keyword that this model does not read, such as `not`: the keyword and its value.
    Opaque(String, Json),
}

/// Numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NumberShape {
    /// True for whole numbers only.
    pub is_integer: bool,
    /// Such as `int64`.
    pub format: Option<String>,
    /// Least value.
    pub minimum: Option<Bound>,
    /// Largest value.
    pub maximum: Option<Bound>,
    /// Divisor of every value.
    pub multiple_of: Option<Number>,
}

/// End of a range of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The number.
    pub value: Number,
    /// True if the number itself is not valid.
    pub is_exclusive: bool,
}

/// Strings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StringShape {
    /// Such as `date-time`.
    pub format: Option<String>,
    /// Regular expression.
    pub pattern: Option<String>,
    /// Least number of characters.
    pub min_length: Option<u64>,
    /// Largest number of characters.
    pub max_length: Option<u64>,
}

/// Arrays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArrayShape {
    /// Types of the first entries.
    pub prefix: Vec<Schema>,
    /// Type of all further entries; `None` allows any.
    pub items: Option<Box<Schema>>,
    /// Least number of entries.
    pub min_items: Option<u64>,
    /// Largest number of entries.
    pub max_items: Option<u64>,
    /// True if no value may occur twice.
    pub is_unique: bool,
}

/// Objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectShape {
    /// Members with a name.
    pub members: Vec<Member>,
    /// Types of the members whose names match a regular expression.
    pub patterns: Vec<(String, Schema)>,
    /// Type of all other members: `None` says nothing of them, [`Shape::Never`] forbids them.
    pub additional: Option<Box<Schema>>,
    /// Least number of members.
    pub min_members: Option<u64>,
    /// Largest number of members.
    pub max_members: Option<u64>,
}

/// A member of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Name on the wire.
    pub name: String,
    /// False if it may be missing.
    pub is_required: bool,
    /// Its type. A member that is only listed in `required` allows any value.
    pub schema: Schema,
}

impl Schema {
    /// A type without texts.
    pub fn new(shape: Shape) -> Self {
        Schema {
            title: None,
            description: None,
            default: None,
            examples: Vec::new(),
            is_deprecated: false,
            shape,
        }
    }

    /// The types that it is made of, without those of references.
    pub(crate) fn children(&self) -> Vec<&Schema> {
        match &self.shape {
            Shape::AnyOf(types) | Shape::AllOf(types) => types.iter().collect(),
            Shape::Array(array) => array.prefix.iter().chain(array.items.as_deref()).collect(),
            Shape::Object(object) => {
                let members = object.members.iter().map(|member| &member.schema);
                let patterns = object.patterns.iter().map(|(_, schema)| schema);
                members.chain(patterns).chain(object.additional.as_deref()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// About the bytes that it takes in memory, without the types of references.
    pub(crate) fn size(&self) -> usize {
        let texts = [&self.title, &self.description].into_iter().flatten().map(String::len);
        let values = self.default.iter().chain(&self.examples).map(Json::size);
        let own = match &self.shape {
            Shape::Enum(values) => values.iter().map(Json::size).sum(),
            Shape::Opaque(_, value) => value.size(),
            Shape::Object(object) => object.members.iter().map(|it| it.name.len()).sum(),
            _ => 0,
        };
        let children = self.children().into_iter().map(Schema::size).sum::<usize>();
        std::mem::size_of::<Schema>()
            + texts.sum::<usize>()
            + values.sum::<usize>()
            + own
            + children
    }

    /// The type without `null`, and whether `null` is one of its values. A `Ref` is not followed.
    ///
    /// `AnyOf` of one remaining type is still an `AnyOf`: callers join the types that are returned.
    pub fn split_null(&self) -> (Vec<&Schema>, bool) {
        match &self.shape {
            Shape::Null => (Vec::new(), true),
            Shape::AnyOf(types) => {
                let others = types.iter().filter(|it| it.shape != Shape::Null).collect::<Vec<_>>();
                let has_null = others.len() < types.len();
                (others, has_null)
            }
            _ => (vec![self], false),
        }
    }
}

impl Document {
    /// Follows references until there is a type that is not one.
    pub fn resolve<'a>(&'a self, schema: &'a Schema) -> &'a Schema {
        let mut schema = schema;
        // The reader rejects references in a circle.
        while let Shape::Ref(id) = &schema.shape {
            schema = &self.named(*id).schema;
        }
        schema
    }

    /// The type as one object, if it is one: references are followed and the objects of an `allOf` joined. A member that
    /// occurs twice has both types, and is required if one says so.
    pub fn as_object(&self, schema: &Schema) -> Option<ObjectShape> {
        let mut joined = Joined::default();
        self.join(schema, &mut joined).then_some(joined.object)
    }

    /// Adds the objects of a type; returns false if it is not an object.
    fn join(&self, schema: &Schema, joined: &mut Joined) -> bool {
        match &schema.shape {
            // A type that is there twice adds nothing, and could double with every reference.
            Shape::Ref(id) => {
                !joined.types.insert(*id) || self.join(&self.named(*id).schema, joined)
            }
            Shape::Object(object) => {
                joined.add(object);
                true
            }
            Shape::AllOf(parts) => parts.iter().all(|part| self.join(part, joined)),
            _ => false,
        }
    }
}

/// Objects of an `allOf`, as one.
#[derive(Default)]
struct Joined {
    object: ObjectShape,
    /// Positions of the members.
    places: HashMap<String, usize>,
    types: HashSet<TypeId>,
}

impl Joined {
    fn add(&mut self, other: &ObjectShape) {
        let object = &mut self.object;
        for member in &other.members {
            match self.places.get(&member.name).and_then(|&at| object.members.get_mut(at)) {
                None => {
                    self.places.insert(member.name.clone(), object.members.len());
                    object.members.push(member.clone());
                }
                Some(known) => {
                    known.is_required |= member.is_required;
                    known.schema = both(known.schema.clone(), &member.schema);
                }
            }
        }
        object.patterns.extend(other.patterns.iter().cloned());
        object.additional = match (object.additional.take(), &other.additional) {
            (Some(a), Some(b)) => Some(Box::new(both(*a, b))),
            (a, b) => a.or_else(|| b.clone()),
        };
        object.min_members = object.min_members.max(other.min_members);
        object.max_members = [object.max_members, other.max_members].into_iter().flatten().min();
    }
}

/// The values that both types allow.
fn both(a: Schema, b: &Schema) -> Schema {
    match (&a.shape, &b.shape) {
        (_, Shape::Any) => a,
        (Shape::Any, _) => b.clone(),
        (one, other) if one == other => a,
        _ => Schema::new(Shape::AllOf(vec![a, b.clone()])),
    }
}
