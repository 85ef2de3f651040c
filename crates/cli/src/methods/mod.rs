//! What the daemon serves (section 4 of the contract): each method is registered once, with what it
//! does and what it is about, and all that is told of the methods is made of that.

mod basics;
mod catalog;
mod events;
mod shape;
mod system;

use duet_rpc::Router;
use duet_rpc::proto::message::{Code, ErrorObject};
use serde_json::value::RawValue;

use crate::args::ProfileName;
use crate::logging::Log;
use catalog::Catalog;

/// What can be sent to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Anything.
    Both,
    /// Answers alone, as over HTTP.
    AnswersOnly,
}

/// The log, and whether clients may read it and set its level. It has the records of all connections.
#[derive(Clone, Copy)]
pub(crate) enum LogAccess {
    /// They may: the client on stdio is alone, and `--share-log` allows all others.
    Shared(&'static Log),
    /// They may not: clients on listeners know nothing of each other.
    Withheld,
}

impl LogAccess {
    fn log(self) -> Result<&'static Log, ErrorObject> {
        match self {
            LogAccess::Shared(log) => Ok(log),
            LogAccess::Withheld => {
                let reason = RawValue::from_string(LOG_NOT_SHARED.to_owned()).ok();
                Err(ErrorObject::application(Code(-32001), "Log not shared", reason))
            }
        }
    }
}

const LOG_NOT_SHARED: &str = r#"{"reason":"log-not-shared","option":"--share-log"}"#;

/// The methods of a profile. Where a client can only be answered, there is none that calls it or sends
/// it events.
pub(crate) fn router(profile: ProfileName, way: Way, log: LogAccess) -> Router {
    let mut catalog = Catalog::default();
    basics::add(&mut catalog, log);
    if profile != ProfileName::Editor {
        system::add(&mut catalog);
        if way == Way::Both {
            events::add(&mut catalog, log);
        }
        basics::add_discovery(&mut catalog);
    }
    if profile == ProfileName::Agent && way == Way::Both {
        system::add_callback(&mut catalog);
    }
    catalog.into_router()
}
