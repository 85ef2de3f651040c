//! A map that keeps the newest entries.

use std::collections::{BTreeMap, HashMap};

use crate::record::Dir;

type Key = (Dir, String);

/// A map with a limit: an insertion above it removes the oldest entry.
#[derive(Debug)]
pub(crate) struct Recent<V> {
    entries: HashMap<Key, (u64, V)>,
    /// The keys by age.
    order: BTreeMap<u64, Key>,
    limit: usize,
    next: u64,
    forgotten: u64,
}

impl<V> Recent<V> {
    pub(crate) fn new(limit: usize) -> Self {
        Recent {
            entries: HashMap::new(),
            order: BTreeMap::new(),
            limit: limit.max(1),
            next: 0,
            forgotten: 0,
        }
    }

    pub(crate) fn insert(&mut self, key: Key, value: V) {
        self.remove(&key);
        while self.entries.len() >= self.limit {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.entries.remove(&oldest);
            self.forgotten += 1;
        }
        self.order.insert(self.next, key.clone());
        self.entries.insert(key, (self.next, value));
        self.next += 1;
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<V> {
        let (number, value) = self.entries.remove(key)?;
        self.order.remove(&number);
        Some(value)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// The values, oldest first.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.order.values().filter_map(|key| self.get(key))
    }

    /// The entry that was inserted first.
    pub(crate) fn oldest_mut(&mut self) -> Option<(&Key, &mut V)> {
        let (_, key) = self.order.first_key_value()?;
        self.entries.get_mut(key).map(|(_, value)| (key, value))
    }

    /// Counts a removal that the limit of the user made necessary.
    pub(crate) fn count_forgotten(&mut self) {
        self.forgotten += 1;
    }

    /// The number of entries that were removed because of the limit.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }
}
