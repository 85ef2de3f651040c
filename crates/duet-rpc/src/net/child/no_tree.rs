//! Where there are no process groups, a program is ended alone.

use std::time::Instant;

use tokio::process::Command;

pub(super) struct Marker;

impl Marker {
    pub(super) fn put_on(_: &mut Command) -> Marker {
        Marker
    }
}

pub(super) struct Tree;

pub(super) struct Entry {
    pub(super) program: String,
}

impl Entry {
    pub(super) fn id(&self) -> u32 {
        0
    }
}

impl Tree {
    pub(super) fn new(_: u32, _: Marker) -> Self {
        Tree
    }

    pub(super) fn members(&self) -> Option<Vec<Entry>> {
        None
    }

    pub(super) fn terminate(&self, _: &[Entry]) -> bool {
        false
    }

    pub(super) fn kill_group(&self) {}

    pub(super) fn kill(&self, _: Instant) -> Vec<Entry> {
        Vec::new()
    }

    pub(super) fn forget_group(&self) {}
}
