//! Compares types, member by member.
//!
//! A pair of named types is compared once for each direction, from a queue: types may contain themselves, and a chain of
//! types may be longer than the stack.

use std::collections::{HashSet, VecDeque};

use super::{ChangeRule, all_of, containers, limits, union};
use crate::model::Document;
use crate::schema::{Member, Schema, Shape, TypeId};

/// The direction of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Flow {
    /// The old side sends it, the new version receives it.
    ToNew,
    /// The new version sends it, the old side receives it.
    FromNew,
}

/// Effect of a change on the set of valid values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing that a caller notices.
    None,
    Narrower,
    Wider,
    /// Neither contains the other.
    Different,
}

impl Effect {
    pub(super) fn breaks(self, flow: Flow) -> bool {
        match self {
            Effect::None => false,
            Effect::Different => true,
            Effect::Narrower => flow == Flow::ToNew,
            Effect::Wider => flow == Flow::FromNew,
        }
    }

    pub(super) fn rule(self) -> ChangeRule {
        match self {
            Effect::Narrower => ChangeRule::Narrowed,
            Effect::Wider => ChangeRule::Widened,
            Effect::None | Effect::Different => ChangeRule::TypeChanged,
        }
    }
}

/// A difference between two types.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    pub(super) rule: ChangeRule,
    pub(super) effect: Effect,
    pub(super) flow: Flow,
    pub(super) path: String,
    pub(super) text: String,
}

/// Steps for the question whether one type contains another, and for all such questions. Then the answer is no.
const MAX_TRIAL_STEPS: u32 = 100_000;
const MAX_STEPS: u32 = 20_000_000;
/// Named types inside each other that such a question unfolds.
const MAX_TRIAL_LEVELS: usize = 8;

/// Length of a path, in bytes, after which its beginning is cut off.
const MAX_PATH: usize = 300;

/// Compares the types of two documents.
pub(super) struct Types<'a> {
    pub(super) old: &'a Document,
    pub(super) new: &'a Document,
    flow: Flow,
    found: Vec<Difference>,
    queue: VecDeque<(TypeId, TypeId, String)>,
    compared: HashSet<(TypeId, TypeId, Flow)>,
    /// Set while the question is only whether there are differences.
    trial: Option<Trial>,
    steps_left: u32,
}

struct Trial {
    levels: usize,
    steps_left: u32,
    open: HashSet<(TypeId, TypeId)>,
}

impl<'a> Types<'a> {
    pub(super) fn new(old: &'a Document, new: &'a Document) -> Self {
        let (found, queue, compared) = (Vec::new(), VecDeque::new(), HashSet::new());
        let steps_left = MAX_STEPS;
        Types { old, new, flow: Flow::ToNew, found, queue, compared, trial: None, steps_left }
    }

    /// Compares two types, and all named types in them that have not been compared yet.
    pub(super) fn compare(
        &mut self,
        old: &Schema,
        new: &Schema,
        flow: Flow,
        path: &str,
    ) -> Vec<Difference> {
        self.flow = flow;
        self.walk(old, new, path);
        self.finish()
    }

    /// The same for a param, which may be left out.
    pub(super) fn compare_member(
        &mut self,
        old: &Member,
        new: &Member,
        flow: Flow,
        path: &str,
    ) -> Vec<Difference> {
        self.flow = flow;
        self.member(old, new, path);
        self.finish()
    }

    fn finish(&mut self) -> Vec<Difference> {
        while let Some((old, new, path)) = self.queue.pop_front() {
            let (old, new) = (&self.old.named(old).schema, &self.new.named(new).schema);
            self.walk(old, new, &shortened(path));
        }
        std::mem::take(&mut self.found)
    }

    /// True if the old type can be replaced by the new one, in the present direction.
    pub(super) fn can_replace(&mut self, old: &Schema, new: &Schema) -> bool {
        // A question inside of another one has the rest of its steps.
        let steps = match &self.trial {
            Some(trial) => trial.steps_left,
            None => MAX_TRIAL_STEPS.min(self.steps_left),
        };
        let levels = self.trial.as_ref().map_or(0, |trial| trial.levels);
        let trial = Trial { levels, steps_left: steps, open: HashSet::new() };
        let outer = self.trial.replace(trial);
        let found = std::mem::take(&mut self.found);
        self.walk(old, new, "");
        let steps_left = self.trial.as_ref().map_or(0, |trial| trial.steps_left);
        let is_fine = steps_left > 0 && !self.found.iter().any(|it| it.effect.breaks(self.flow));
        (self.found, self.trial) = (found, outer);
        match &mut self.trial {
            Some(outer) => outer.steps_left = steps_left,
            None => self.steps_left -= steps - steps_left,
        }
        is_fine
    }

    pub(super) fn report(&mut self, rule: ChangeRule, effect: Effect, path: &str, text: String) {
        let (flow, path) = (self.flow, path.to_owned());
        self.found.push(Difference { rule, effect, flow, path, text });
    }

    pub(super) fn values(&mut self, effect: Effect, path: &str, text: String) {
        self.report(effect.rule(), effect, path, text);
    }

    /// Compares types, and the values that stand for a missing one.
    pub(super) fn walk(&mut self, old: &Schema, new: &Schema, path: &str) {
        if !self.is_over() {
            self.defaults(old, new, path);
            self.shapes(old, new, path);
        }
    }

    /// Compares the types of a param or a member. What is always sent needs no default.
    pub(super) fn member(&mut self, old: &Member, new: &Member, path: &str) {
        self.required(old.is_required, new.is_required, path);
        match old.is_required && new.is_required {
            true => self.shapes(&old.schema, &new.schema, path),
            false => self.walk(&old.schema, &new.schema, path),
        }
    }

    /// True if a trial has its answer, or gets none.
    fn is_over(&mut self) -> bool {
        let is_known = self.found.last().is_some_and(|it| it.effect.breaks(self.flow));
        self.trial.as_mut().is_some_and(|trial| {
            trial.steps_left = trial.steps_left.saturating_sub(1);
            trial.steps_left == 0 || is_known
        })
    }

    pub(super) fn shapes(&mut self, old: &Schema, new: &Schema, path: &str) {
        if let (Shape::Ref(a), Shape::Ref(b)) = (&old.shape, &new.shape) {
            return self.named(*a, *b, path);
        }
        let (old, new) = (self.old.resolve(old), self.new.resolve(new));
        match (&old.shape, &new.shape) {
            (Shape::Any, Shape::Any) | (Shape::Never, Shape::Never) => {}
            (Shape::Any, _) | (_, Shape::Never) => self.changed(Effect::Narrower, old, new, path),
            (_, Shape::Any) | (Shape::Never, _) => self.changed(Effect::Wider, old, new, path),
            (Shape::AnyOf(_) | Shape::Enum(_), _) | (_, Shape::AnyOf(_) | Shape::Enum(_)) => {
                union::walk(self, old, new, path);
            }
            (Shape::AllOf(_), _) | (_, Shape::AllOf(_)) => all_of::walk(self, old, new, path),
            (Shape::Number(a), Shape::Number(b)) => limits::number(self, a, b, path),
            (Shape::String(a), Shape::String(b)) => limits::string(self, a, b, path),
            (Shape::Boolean, Shape::Boolean) | (Shape::Null, Shape::Null) => {}
            (Shape::Array(a), Shape::Array(b)) => containers::array(self, a, b, path),
            (Shape::Object(a), Shape::Object(b)) => containers::object(self, a, b, path),
            (Shape::Opaque(a, x), Shape::Opaque(b, y)) if a == b => {
                if x != y {
                    let text = format!("the keyword `{a}` changed from {x} to {y}");
                    self.values(Effect::Different, path, text);
                }
            }
            _ => union::walk(self, old, new, path),
        }
    }

    fn named(&mut self, a: TypeId, b: TypeId, path: &str) {
        let (old, new) = (&self.old.named(a).schema, &self.new.named(b).schema);
        match &mut self.trial {
            None => {
                if self.compared.insert((a, b, self.flow)) {
                    self.queue.push_back((a, b, path.to_owned()));
                }
            }
            Some(trial) => {
                if trial.levels == MAX_TRIAL_LEVELS {
                    return self.changed(Effect::Different, old, new, path);
                }
                if trial.open.insert((a, b)) {
                    trial.levels += 1;
                    self.walk(old, new, path);
                    if let Some(trial) = &mut self.trial {
                        trial.levels -= 1;
                    }
                }
            }
        }
    }

    pub(super) fn changed(&mut self, effect: Effect, old: &Schema, new: &Schema, path: &str) {
        // The text takes time, and a trial needs none.
        let text = match self.trial {
            Some(_) => String::new(),
            None => {
                let (old, new) = (self.old.type_text(old), self.new.type_text(new));
                format!("the type changed from `{old}` to `{new}`")
            }
        };
        self.values(effect, path, text);
    }

    fn defaults(&mut self, old: &Schema, new: &Schema, path: &str) {
        let (a, b) = (&old.default, &new.default);
        let text = match (a, b) {
            (Some(a), Some(b)) if a != b => format!("the default changed from {a} to {b}"),
            (Some(a), None) => format!("the default {a} was removed"),
            _ => return,
        };
        if self.flow == Flow::ToNew {
            self.report(ChangeRule::Default, Effect::Different, path, text);
        }
    }

    /// Reports a param or a member that is gone.
    pub(super) fn removed(&mut self, what: &str, was_required: bool, path: &str) {
        // A sender that still sends it is refused, or not understood. A receiver misses it only if it relies on it.
        let effect = match (self.flow, was_required) {
            (Flow::ToNew, _) => Effect::Narrower,
            (Flow::FromNew, true) => Effect::Wider,
            (Flow::FromNew, false) => Effect::None,
        };
        self.report(ChangeRule::Removed, effect, path, format!("the {what} was removed"));
    }

    /// Reports a param or a member that is new. `is_closed`: the old type has no others.
    pub(super) fn added(&mut self, what: &str, is_required: bool, is_closed: bool, path: &str) {
        let (effect, text) = match (self.flow, is_required) {
            (Flow::ToNew, true) => (Effect::Narrower, format!("the {what} is new and required")),
            (Flow::FromNew, _) if is_closed => {
                (Effect::Wider, format!("the {what} is new, where there were no others"))
            }
            _ => (Effect::None, format!("the {what} is new")),
        };
        self.report(ChangeRule::Added, effect, path, text);
    }

    /// Compares whether a param or a member may be left out.
    pub(super) fn required(&mut self, was: bool, is: bool, path: &str) {
        let (effect, text) = match (was, is) {
            (false, true) => (Effect::Narrower, "required now"),
            (true, false) => (Effect::Wider, "may be missing now"),
            _ => return,
        };
        self.report(ChangeRule::Required, effect, path, text.to_owned());
    }

    pub(super) fn flow(&self) -> Flow {
        self.flow
    }

    pub(super) fn set_flow(&mut self, flow: Flow) {
        self.flow = flow;
    }

    pub(super) fn take(&mut self) -> Vec<Difference> {
        std::mem::take(&mut self.found)
    }
}

/// The end of a path that is too long.
fn shortened(path: String) -> String {
    match path.char_indices().rev().nth(MAX_PATH) {
        Some((start, _)) => format!("…{}", &path[start..]),
        None => path,
    }
}
