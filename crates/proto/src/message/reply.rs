//! Error answers that need no handler.

use super::{ErrorObject, Id, Reason, write_error};
use crate::fault::{Fault, FaultKind};
use crate::text::{Member, Text};

/// An error answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The id to answer with; null if the message has no usable id.
    pub id: Id,
    /// The error.
    pub error: ErrorObject,
}

impl Reply {
    /// The answer to a fault.
    pub fn to_fault(fault: &Fault<'_>) -> Reply {
        let reason = match fault.kind {
            FaultKind::Malformed(_) | FaultKind::NotJson(_) | FaultKind::CutShort => None,
            FaultKind::Oversize => Some(Reason::Oversize),
            FaultKind::HeaderTooLarge => Some(Reason::HeaderTooLarge),
            FaultKind::UnsupportedContentType => Some(Reason::UnsupportedContentType),
            FaultKind::BadCharset => Some(Reason::BadCharset),
        };
        let error = match reason {
            None => ErrorObject::parse_error(),
            Some(reason) => ErrorObject::invalid_request_because(reason),
        };
        Reply { id: fault.body.as_ref().and_then(valid_id).unwrap_or(Id::NULL), error }
    }

    /// Appends the answer as JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_error(out, &self.id, &self.error);
    }
}

/// The id of a text, even if the text is not a valid message.
pub(super) fn valid_id(text: &Text<'_>) -> Option<Id> {
    let raw = text.member(Member::Id).filter(|_| !text.given_twice(Member::Id));
    raw.and_then(Id::from_checked)
}
