//! Cancellation and progress (P2, P3): both dialects are understood, the profile's is spoken.

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

/// The meaning of a notification that the session itself understands.
pub(super) enum Meaning {
    /// This request is cancelled.
    Cancel(Id),
    /// There is progress, marked with this token.
    Progress(Id),
    /// It is about cancelling, and cannot be understood.
    Malformed,
}

/// Parses a notification, in the words of either dialect: a client that cancels means it, whatever words we
/// send ourselves. `None` if it is not about cancelling or progress. Malformed progress is `None` too,
/// because it may be the application's own.
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
    /// Tells the remote that one of our calls is cancelled.
    pub(super) fn say_cancelled(self, id: &Id, out: &mut impl Sink) {
        let (method, member) = match self {
            Dialect::Dollar => (DOLLAR_CANCEL, "id"),
            Dialect::Notifications => (NOTIFICATIONS_CANCEL, "requestId"),
            Dialect::None => return,
        };
        // A map of one text and one raw value can always be written; if not, nothing is sent.
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
