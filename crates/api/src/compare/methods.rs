//! Compares methods: params, answers, errors.

use std::collections::{HashMap, HashSet};

use super::types::{Difference, Effect, Flow, Types};
use super::{Change, ChangeRule, Comparison};
use crate::model::{Document, ErrorSpec, Method, Param, ParamStructure};
use crate::schema::{ArrayShape, Member, ObjectShape, Schema, Shape};

pub(super) fn compare(old: &Document, new: &Document, to: &mut Comparison) {
    let mut types = Types::new(old, new);
    let server = Side { is_client: false, old: &old.methods, new: &new.methods };
    let client = Side { is_client: true, old: &old.client_methods, new: &new.client_methods };
    for side in [server, client] {
        side.compare(&mut types, to);
    }
}

/// The methods of one side.
struct Side<'a> {
    is_client: bool,
    old: &'a [Method],
    new: &'a [Method],
}

/// Adds the changes of one method to a comparison.
struct Target<'a> {
    is_client: bool,
    method: &'a str,
    to: &'a mut Comparison,
}

impl Target<'_> {
    fn add(&mut self, rule: ChangeRule, is_breaking: bool, path: &str, text: impl Into<String>) {
        self.to.add(Change {
            rule,
            method: self.method.to_owned(),
            is_client_method: self.is_client,
            path: path.to_owned(),
            is_breaking,
            text: text.into(),
        });
    }

    fn extend(&mut self, found: Vec<Difference>) {
        for it in found {
            self.add(it.rule, it.effect.breaks(it.flow), &it.path, it.text);
        }
    }
}

impl Side<'_> {
    /// Direction of the params. Results and errors go the other way.
    fn params_flow(&self) -> Flow {
        if self.is_client { Flow::FromNew } else { Flow::ToNew }
    }

    fn result_flow(&self) -> Flow {
        if self.is_client { Flow::ToNew } else { Flow::FromNew }
    }

    fn compare(&self, types: &mut Types<'_>, to: &mut Comparison) {
        let in_old: HashSet<&str> = names(self.old).collect();
        let in_new: HashMap<&str, &Method> =
            self.new.iter().map(|it| (it.name.as_str(), it)).collect();
        let aliases =
            self.new.iter().flat_map(|it| it.aliases.iter().map(move |alias| (alias.as_str(), it)));
        let aliases: HashMap<&str, &Method> = aliases.collect();
        let added: Vec<&Method> =
            self.new.iter().filter(|it| !in_old.contains(it.name.as_str())).collect();
        for method in self.old {
            let mut target = Target { is_client: self.is_client, method: &method.name, to };
            match (in_new.get(method.name.as_str()), aliases.get(method.name.as_str())) {
                (Some(new), _) => self.method(types, method, new, &mut target),
                (None, Some(new)) => {
                    let text = format!("the method is an alias of `{}` now", new.name);
                    target.add(ChangeRule::Renamed, false, "", text);
                    self.method(types, method, new, &mut target);
                }
                (None, None) => self.removed(types, method, &added, &mut target),
            }
        }
        let old_aliases = self.old.iter().flat_map(|it| &it.aliases).map(String::as_str);
        let old_aliases: HashSet<&str> = old_aliases.collect();
        for method in added {
            let mut target = Target { is_client: self.is_client, method: &method.name, to };
            // Clients ignore notifications that they do not know, and refuse requests.
            let is_breaking = self.is_client && !method.is_notification();
            if !old_aliases.contains(method.name.as_str()) {
                target.add(ChangeRule::MethodAdded, is_breaking, "", "the method is new");
            }
        }
    }

    fn removed(
        &self,
        types: &Types<'_>,
        method: &Method,
        added: &[&Method],
        target: &mut Target<'_>,
    ) {
        let shape = |document: &Document, method: &Method| {
            let params =
                method.params.iter().map(|it| (it.name.clone(), document.type_text(&it.schema)));
            let result = method.result.as_ref().map(|it| document.type_text(&it.schema));
            (params.collect::<Vec<_>>(), result)
        };
        let text = match self.is_client {
            true => "the server no longer calls the method".to_owned(),
            false => {
                let old = shape(types.old, method);
                let is_alike = |new: &&&Method| !old.0.is_empty() && shape(types.new, new) == old;
                // Looking for the new name of every method would take long if all are new.
                let successor = added.iter().take(100).find(is_alike);
                let hint = successor.map(|it| format!("; was it renamed to `{}`?", it.name));
                format!("the method was removed{}", hint.unwrap_or_default())
            }
        };
        target.add(ChangeRule::MethodRemoved, !self.is_client, "", text);
    }

    fn method(&self, types: &mut Types<'_>, old: &Method, new: &Method, target: &mut Target<'_>) {
        match (old.is_deprecated, new.is_deprecated) {
            (false, true) => {
                let reason = new.deprecation.as_ref().map(|it| format!(": {it}"));
                let text = format!("the method is deprecated{}", reason.unwrap_or_default());
                target.add(ChangeRule::Deprecation, false, "", text);
            }
            (true, false) => {
                target.add(
                    ChangeRule::Deprecation,
                    false,
                    "",
                    "the method is no longer deprecated",
                );
            }
            _ => {}
        }
        for alias in old.aliases.iter().filter(|it| !new.aliases.contains(it)) {
            match self.new.iter().find(|it| it.name == *alias || it.aliases.contains(alias)) {
                // A method of its own, which must serve the callers of the alias. It may have been compared already.
                Some(other) if other.name != new.name && other.name != old.name => {
                    let mut target =
                        Target { is_client: self.is_client, method: alias, to: target.to };
                    self.params(types, old, other, &mut target);
                    self.answer(types, old, other, &mut target);
                    self.errors(types, old, other, &mut target);
                }
                Some(_) => {}
                None => {
                    let text = format!("the alias `{alias}` was removed");
                    target.add(ChangeRule::AliasRemoved, !self.is_client, "", text);
                }
            }
        }
        if old.is_idempotent && !new.is_idempotent && !self.is_client {
            let text = "repeating a call is no longer safe (`x-idempotent`)";
            target.add(ChangeRule::Idempotence, true, "", text);
        }
        self.params(types, old, new, target);
        self.answer(types, old, new, target);
        self.errors(types, old, new, target);
    }

    fn params(&self, types: &mut Types<'_>, old: &Method, new: &Method, target: &mut Target<'_>) {
        let flow = self.params_flow();
        self.structure(old, new, target);
        if old.free_params.is_some() || new.free_params.is_some() {
            let (a, b) = (whole_params(old), whole_params(new));
            return target.extend(types.compare(&a, &b, flow, "params"));
        }
        types.set_flow(flow);
        let in_new: HashMap<&str, (usize, &Param)> =
            new.params.iter().enumerate().map(|(at, it)| (it.name.as_str(), (at, it))).collect();
        let in_old: HashSet<&str> = old.params.iter().map(|it| it.name.as_str()).collect();
        let by_position = old.param_structure != ParamStructure::ByName;
        let mut renamed = HashSet::new();
        for (at, a) in old.params.iter().enumerate() {
            let path = format!("params.{}", a.name);
            let Some((place, b)) = in_new.get(a.name.as_str()) else {
                let successor = new.params.get(at).filter(|it| !in_old.contains(it.name.as_str()));
                let is_same =
                    |b: &&Param| types.old.type_text(&a.schema) == types.new.type_text(&b.schema);
                match successor.filter(is_same) {
                    Some(b) => {
                        renamed.insert(b.name.as_str());
                        let text = format!("the param was renamed to `{}`", b.name);
                        let is_breaking = old.param_structure != ParamStructure::ByPosition;
                        target.add(ChangeRule::Renamed, is_breaking, &path, text);
                        self.param(types, a, b, &path, target);
                    }
                    None => {
                        types.removed("param", a.is_required, &path);
                        target.extend(types.take());
                    }
                }
                continue;
            };
            if by_position && *place != at {
                let text = format!("the position changed from {} to {}", at + 1, place + 1);
                target.add(ChangeRule::Moved, true, &path, text);
            }
            self.param(types, a, b, &path, target);
        }
        for b in &new.params {
            if !in_old.contains(b.name.as_str()) && !renamed.contains(b.name.as_str()) {
                // Clients refuse an array that is longer than they know.
                let is_closed = new.param_structure == ParamStructure::ByPosition;
                types.added("param", b.is_required, is_closed, &format!("params.{}", b.name));
                target.extend(types.take());
            }
        }
    }

    fn param(
        &self,
        types: &mut Types<'_>,
        a: &Param,
        b: &Param,
        path: &str,
        target: &mut Target<'_>,
    ) {
        if b.is_deprecated && !a.is_deprecated {
            target.add(ChangeRule::Deprecation, false, path, "the param is deprecated");
        }
        target.extend(types.compare_member(&member(a), &member(b), self.params_flow(), path));
    }

    fn structure(&self, old: &Method, new: &Method, target: &mut Target<'_>) {
        let (a, b) = (old.param_structure, new.param_structure);
        // Without params, both forms are empty.
        let has_params = |it: &Method| !it.params.is_empty() || it.free_params.is_some();
        if a == b || !(has_params(old) && has_params(new)) {
            return;
        }
        let effect = match (a, b) {
            (ParamStructure::Either, _) => Effect::Narrower,
            (_, ParamStructure::Either) => Effect::Wider,
            _ => Effect::Different,
        };
        let text = format!("the params are sent {} now; it was {}", b.name(), a.name());
        target.add(ChangeRule::ParamStructure, effect.breaks(self.params_flow()), "params", text);
    }

    fn answer(&self, types: &mut Types<'_>, old: &Method, new: &Method, target: &mut Target<'_>) {
        match (&old.result, &new.result) {
            (None, None) => {}
            (Some(a), Some(b)) => {
                target.extend(types.compare(&a.schema, &b.schema, self.result_flow(), "result"));
            }
            (Some(_), None) => {
                target.add(
                    ChangeRule::AnswerChanged,
                    true,
                    "result",
                    "the method is a notification now: there is no answer",
                );
            }
            (None, Some(_)) => {
                target.add(
                    ChangeRule::AnswerChanged,
                    true,
                    "result",
                    "the notification is a method with an answer now",
                );
            }
        }
    }

    /// Errors that are new or gone break nobody: a client must expect every code anyway, and misses none.
    fn errors(&self, types: &mut Types<'_>, old: &Method, new: &Method, target: &mut Target<'_>) {
        let mut by_code: HashMap<i64, Vec<&ErrorSpec>> = HashMap::new();
        for it in &new.errors {
            by_code.entry(it.code).or_default().push(it);
        }
        let old_codes: HashSet<i64> = old.errors.iter().map(|it| it.code).collect();
        let mut moved = HashSet::new();
        for a in &old.errors {
            let path = format!("errors.{}", a.code);
            if let Some(others) = by_code.get(&a.code) {
                // Several errors of a method may share a code.
                let same = others.iter().find(|it| it.message == a.message && it.name == a.name);
                let Some(b) = same.or(others.first()) else { continue };
                if a.message != b.message {
                    let text =
                        format!("the message changed from {:?} to {:?}", a.message, b.message);
                    target.add(ChangeRule::Errors, false, &path, text);
                }
                let any = Schema::new(Shape::Any);
                let data = [a, b].map(|it| it.data_schema.as_ref().unwrap_or(&any));
                let path = format!("{path}.data");
                target.extend(types.compare(data[0], data[1], self.result_flow(), &path));
                continue;
            }
            let is_same = |b: &&ErrorSpec| match (&a.name, &b.name) {
                (Some(a), Some(b)) => a == b,
                _ => a.message == b.message,
            };
            // Looking at all would take long if all are new.
            let others = new.errors.iter().take(1_000).filter(|it| !old_codes.contains(&it.code));
            match { others }.find(is_same) {
                Some(b) => {
                    moved.insert(b.code);
                    let text = format!("the code changed from {} to {}", a.code, b.code);
                    target.add(ChangeRule::ErrorCode, true, &path, text);
                }
                None => {
                    let text = format!("the error {:?} was removed", a.message);
                    target.add(ChangeRule::Errors, false, &path, text);
                }
            }
        }
        for b in &new.errors {
            if !old_codes.contains(&b.code) && !moved.contains(&b.code) {
                let text = format!("the error {:?} is new", b.message);
                target.add(ChangeRule::Errors, false, &format!("errors.{}", b.code), text);
            }
        }
    }
}

/// The params as one type.
fn whole_params(method: &Method) -> Schema {
    if let Some(schema) = &method.free_params {
        return schema.clone();
    }
    if method.param_structure == ParamStructure::ByPosition {
        let least = method.params.iter().rposition(|it| it.is_required).map_or(0, |at| at + 1);
        return Schema::new(Shape::Array(ArrayShape {
            prefix: method.params.iter().map(|it| it.schema.clone()).collect(),
            min_items: Some(least as u64),
            ..ArrayShape::default()
        }));
    }
    let members = method.params.iter().map(member).collect();
    Schema::new(Shape::Object(ObjectShape { members, ..ObjectShape::default() }))
}

fn member(param: &Param) -> Member {
    let Param { name, is_required, schema, .. } = param.clone();
    Member { name, is_required, schema }
}

fn names(methods: &[Method]) -> impl Iterator<Item = &str> {
    methods.iter().map(|it| it.name.as_str())
}
