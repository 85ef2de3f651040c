//! The methods of the daemon (section 4 of the contract). They are services: what they tell of themselves
//! comes from their doc comments and types.

mod basics;
mod catalog;
mod discovery;
mod events;
mod schema;
mod system;

use duet_rpc::Router;
use duet_rpc::proto::message::{Code, ErrorObject};
use duet_rpc::service::MethodInfo;
use serde_json::value::RawValue;

use crate::args::ProfileName;
use crate::logging::Log;
use basics::Basics;
use catalog::Catalog;
use discovery::Discovery;
use events::Events;
use system::{Callback, System};

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
    let catalog = Catalog::default();
    let mut served = Served::default();
    served.add(&Basics::methods(log), Basics::new(catalog.clone(), log).into_router());
    if profile != ProfileName::Editor {
        served.add(System::METHODS, System.into_router());
        if way == Way::Both {
            served.add(Events::METHODS, Events { log }.into_router());
        }
        served.add(&Discovery::methods(), Discovery::new(catalog.clone()).router());
    }
    if profile == ProfileName::Agent && way == Way::Both {
        served.add(Callback::METHODS, Callback.into_router());
    }
    catalog.fill(served.methods);
    served.router
}

/// Services that are served together, with their descriptions in the same order.
#[derive(Default)]
struct Served {
    router: Router,
    methods: Vec<MethodInfo>,
}

impl Served {
    fn add(&mut self, methods: &[MethodInfo], router: Router) {
        self.methods.extend_from_slice(methods);
        self.router = std::mem::take(&mut self.router).merge(router);
    }
}
