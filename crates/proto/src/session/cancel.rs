//! Cancellation and progress, in their dialects (P2, P3).

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Outlet;
use crate::message::{Id, Params, write_notification};
use crate::policy::Dialect;

/// What a notification says about a request, if it is one of those that the session itself
/// understands.
pub(super) enum Word {
    /// This request is called off.
    Cancel(Id),
    /// There is progress, marked with this token.
    Progress(Id),
    /// It is about cancelling, and cannot be understood.
    Malformed,
}

impl Dialect {
    /// The method that cancels, the one that tells of progress, and what each names the id.
    fn words(self) -> Option<[&'static str; 4]> {
        match self {
            Dialect::Dollar => Some(["$/cancelRequest", "id", "$/progress", "token"]),
            Dialect::Notifications => Some([
                "notifications/cancelled",
                "requestId",
                "notifications/progress",
                "progressToken",
            ]),
            Dialect::None => None,
        }
    }

    /// Understands a notification. `None` if it is not about cancelling or progress; progress that
    /// cannot be understood is the application's business too, and so is none either.
    pub(super) fn hear(self, method: &str, params: &Params<'_>) -> Option<Word> {
        let [cancel, id, progress, token] = self.words()?;
        if method == cancel {
            return Some(member(params, id).map_or(Word::Malformed, Word::Cancel));
        }
        if method == progress {
            return member(params, token).map(Word::Progress);
        }
        None
    }

    /// Tells the remote that one of our calls is called off.
    pub(super) fn say_cancelled(self, id: &Id, out: &mut impl Outlet) {
        let Some([cancel, member, ..]) = self.words() else { return };
        // A map of one text and one raw value can always be written; if not, nothing is sent.
        let _ = out.send(|out| {
            let id: &RawValue = serde_json::from_str(id.as_raw())?;
            write_notification(out, cancel, Some(&BTreeMap::from([(member, id)])))
        });
    }
}

/// A member of the params that is an id.
fn member(params: &Params<'_>, name: &str) -> Option<Id> {
    let Params::Object(raw) = params else { return None };
    let value = Pick(name).deserialize(&mut serde_json::Deserializer::from_str(raw)).ok()?;
    value.and_then(|value| Id::from_raw(value.get()))
}

/// Picks one member out of an object, and fails if it is given twice, as it could mean either.
struct Pick<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Pick<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Pick<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut picked = None;
        while let Some(name) = members.next_key::<String>()? {
            if name != self.0 {
                members.next_value::<IgnoredAny>()?;
            } else if picked.replace(members.next_value()?).is_some() {
                return Err(A::Error::custom("given twice"));
            }
        }
        Ok(picked)
    }
}
