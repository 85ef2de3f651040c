//! soon
use super::Kind;
pub(super) const KINDS: &[Kind] = &[];
