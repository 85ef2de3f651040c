//! Cancellation and progress (P2, P3): reads both dialects, writes the profile's.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Sink;
use crate::message::{Id, Params, write_notification};
use crate::policy::Dialect;

const DOLLAR_CANCEL: &str = "$/cancelRequest";
const NOTIFICATIONS_CANCEL: &str = "notifications/cancelled";

/// Meaning of a notification that the session handles itself.
pub(super) enum Meaning {
    /// Cancels this request.
    Cancel(Id),
    /// Reports progress with this token.
    Progress(Id),
    /// A cancellation that names no request.
    Malformed,
}

/// Parses a notification in the words of either dialect, because a client's cancellation counts
/// whichever dialect we send. `None` if it is neither a cancellation nor progress. Malformed
/// progress is `None` too, because the application may define it.
pub(super) fn parse(method: &str, params: &Params<'_>) -> Option<Meaning> {
    let cancels = |id: &str| Some(member(params, id).map_or(Meaning::Malformed, Meaning::Cancel));
    let progresses = |token: &str| member(params, token).map(Meaning::Progress);
    match method {
        DOLLAR_CANCEL => cancels("id"),
        NOTIFICATIONS_CANCEL => cancels("requestId"),
        "$/progress" => progresses("token"),
        "notifications/progress" => progresses("progressToken"),
        _ => None,
    }
}

impl Dialect {
    /// Writes the cancellation of one of our calls.
    pub(super) fn write_cancellation(self, id: &Id, out: &mut impl Sink) {
        let (method, member) = match self {
            Dialect::Dollar => (DOLLAR_CANCEL, "id"),
            Dialect::Notifications => (NOTIFICATIONS_CANCEL, "requestId"),
            Dialect::None => return,
        };
        // A map of a string and a raw value always serialises; if not, nothing is sent.
        let _ = out.send(|out| {
            let id: &RawValue = serde_json::from_str(id.as_raw())?;
            write_notification(out, method, Some(&BTreeMap::from([(member, id)])))
        });
    }
}

/// A member of the params that is an id.
fn member(params: &Params<'_>, name: &str) -> Option<Id> {
    let Params::Object(raw) = params else { return None };
    let value = Pick(name).deserialize(&mut serde_json::Deserializer::from_str(raw)).ok()?;
    value.and_then(|value| Id::from_raw(value.get()))
}

/// Picks one member out of an object. Fails if the member appears twice, because that is ambiguous.
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
