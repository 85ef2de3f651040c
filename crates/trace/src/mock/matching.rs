//! Finds the message of the recorded client that a message stands for.
//!
//! | order | message of the recording with the same method |
//! |---|---|
//! | 1 | the same values, not used yet |
//! | 2 | another progress token, not used yet |
//! | 3 | the same values, used before: a request that is repeated |
//! | 4 | the fewest other values; of several, the first that is not used |

use std::collections::{HashMap, HashSet};

use crate::diff::{Change, Pointer, compare_messages};
use crate::message::Message;
use crate::record::{Dir, Kind};
use crate::redact::REDACTED;
use crate::script::{Item, Place, Script};
use crate::variables::{Variables, is_progress_token};

/// Messages of a method that are compared.
const WINDOW: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Matching {
    by_method: HashMap<(Kind, String), Vec<Place>>,
    used: HashSet<Place>,
}

/// A message of the recording. It differs, if there are changes.
#[derive(Debug)]
pub(super) struct BestMatch {
    pub(super) place: Place,
    pub(super) changes: Vec<Change>,
}

impl Matching {
    pub(super) fn new(script: &Script) -> Self {
        let mut matching = Matching::default();
        for (number, step) in
            script.steps.iter().enumerate().filter(|(_, step)| step.dir == Dir::C2s)
        {
            for (at, item) in step.items.iter().enumerate() {
                if matches!(item.kind, Kind::Request | Kind::Notification) {
                    let key = (item.kind, item.method.clone());
                    matching.by_method.entry(key).or_default().push((number, at));
                }
            }
        }
        matching
    }

    /// The message, which is used from now on. `json` has the values of the recording where they are known.
    pub(super) fn find(
        &mut self,
        script: &Script,
        variables: &Variables,
        json: &str,
        item: &Item,
        ignore: &[Pointer],
    ) -> Option<BestMatch> {
        let places = self.by_method.get(&(item.kind, item.method.clone()))?;
        let mut best: Option<(usize, bool, BestMatch)> = None;
        let mut with_tokens = None;
        for &place in places.iter().filter(|place| !self.used.contains(*place)).take(WINDOW) {
            let found = changes(script, place, json, ignore);
            if found.is_empty() {
                self.used.insert(place);
                return Some(BestMatch { place, changes: found });
            }
            if are_progress_tokens(variables, place, &found) {
                with_tokens.get_or_insert(place);
            }
            let count = found.len();
            if best.as_ref().is_none_or(|(least, is_used, _)| *is_used || count < *least) {
                best = Some((count, false, BestMatch { place, changes: found }));
            }
        }
        if let Some(place) = with_tokens {
            self.used.insert(place);
            return Some(BestMatch { place, changes: Vec::new() });
        }
        for &place in places.iter().rev().filter(|place| self.used.contains(*place)).take(WINDOW) {
            let found = changes(script, place, json, ignore);
            if found.is_empty() {
                return Some(BestMatch { place, changes: found });
            }
            let count = found.len();
            if best.as_ref().is_none_or(|(least, ..)| count < *least) {
                best = Some((count, true, BestMatch { place, changes: found }));
            }
        }
        let (_, _, found) = best?;
        self.used.insert(found.place);
        Some(found)
    }
}

/// The differences of a message from one of the recording. A redacted value may be any.
pub(super) fn changes(
    script: &Script,
    place: Place,
    json: &str,
    ignore: &[Pointer],
) -> Vec<Change> {
    let step = &script.steps[place.0];
    if step.is_cut {
        return Vec::new();
    }
    let old = Message::from_json(step.item_json(place.1));
    let mut changes = compare_messages(&old, &Message::from_json(json), ignore);
    if step.is_redacted {
        let is_hidden = |change: &Change| {
            change
                .old
                .as_ref()
                .and_then(|old| old.as_str())
                .is_some_and(|text| text.contains(REDACTED))
        };
        changes.retain(|change| !is_hidden(change));
    }
    changes
}

/// Returns `true` if every difference is a progress token that the server repeats.
pub(super) fn are_progress_tokens(variables: &Variables, place: Place, changes: &[Change]) -> bool {
    let Some(made) = variables.made.get(&place) else { return changes.is_empty() };
    let step = |step: &String| step.replace('~', "~0").replace('/', "~1");
    let paths: HashSet<String> = made
        .iter()
        .map(|number| &variables.all[*number].path)
        .filter(|path| path.last().is_some_and(|name| is_progress_token(name)))
        .map(|path| format!("/{}", path.iter().map(step).collect::<Vec<_>>().join("/")))
        .collect();
    changes.iter().all(|change| paths.contains(&change.path) && change.new.is_some())
}
