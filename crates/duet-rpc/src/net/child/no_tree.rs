//! Systems without process groups: only the program itself is ended.

use std::time::Instant;

use tokio::process::Command;

// Same name: the interface of `tree.rs`, for systems without process groups.
pub(super) struct Marker;

impl Marker {
    pub(super) fn put_on(_: &mut Command) -> Marker {
        Marker
    }
}

// Same name: the interface of `tree.rs`, for systems without process groups.
pub(super) struct Tree;

// Same name: the interface of `procfs.rs`, for systems without process groups.
pub(super) struct ProcessEntry {
    pub(super) program: String,
}

impl ProcessEntry {
    pub(super) fn id(&self) -> u32 {
        0
    }
}

impl Tree {
    pub(super) fn new(_: u32, _: Marker) -> Self {
        Tree
    }

    pub(super) fn members(&self) -> Option<Vec<ProcessEntry>> {
        None
    }

    pub(super) fn terminate(&self, _: &[ProcessEntry]) -> bool {
        false
    }

    pub(super) fn kill_group(&self) {}

    pub(super) fn kill(&self, _: Instant) -> Vec<ProcessEntry> {
        Vec::new()
    }

    pub(super) fn forget_group(&self) {}
}
