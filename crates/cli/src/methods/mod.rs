//! The methods of the daemon (section 4 of docs/specification.md). They are services: their descriptions come from doc
//! comments and types.

mod basics;
mod catalog;
mod discovery;
mod events;
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

/// The method that OpenRPC defines for servers: it describes all methods.
pub(crate) const DISCOVER: &str = "rpc.discover";

/// Messages that the daemon can send to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Requests, notifications and responses.
    All,
    /// Responses only, over HTTP.
    AnswersOnly,
}

/// Access of clients to the log, which holds the records of all connections.
#[derive(Clone, Copy)]
pub(crate) enum LogAccess {
    /// Clients may read the log and set its level: the only client on stdio, or all clients with
    /// `--share-log`.
    Shared(&'static Log),
    /// Clients may do neither, because clients of a listener must not see each other's records.
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

/// The methods of a profile. A client that can only receive responses gets no method that calls it or sends
/// it events.
pub(crate) fn router(profile: ProfileName, delivery: Delivery, log: LogAccess) -> Router {
    let catalog = Catalog::default();
    let mut served = Served::default();
    let mut document = Basics::document(log);
    served.add(&Basics::methods(log), Basics::new(catalog.clone(), log).into_router());
    if profile != ProfileName::Editor {
        served.add(System::METHODS, System.into_router());
        document = document.merge(System::openrpc());
        if delivery == Delivery::All {
            served.add(Events::METHODS, Events { log }.into_router());
            document = document.merge(Events::openrpc());
        }
        served.add(&Discovery::methods(), Discovery::new(catalog.clone()).router());
        document = Discovery::add_to(document);
    }
    if profile == ProfileName::Agent && delivery == Delivery::All {
        served.add(Callback::METHODS, Callback.into_router());
        document = document.merge(Callback::openrpc());
    }
    catalog.fill(served.methods, document);
    served.router
}

/// Services, with their descriptions in the same order.
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
