//! The six methods of every profile.

use duet_rpc::Failure;
use duet_rpc::proto::message::ErrorObject;
use duet_rpc::service::MethodInfo;
use serde_json::Value;

use super::LogAccess;
use super::catalog::{Cached, CachedJson, Catalog, Described, Listed};
use super::schema::{Schema, one_of, result, schema_of};
use crate::logging::Level;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Version of JSON-RPC; there is no other.
const PROTOCOL: &str = "2.0";

pub(super) struct Basics {
    catalog: Catalog,
    description: CachedJson,
    log: LogAccess,
}

#[duet_rpc::service(rename_all = "camelCase", schema = schema_of)]
impl Basics {
    /// Says who serves here, and which protocol. No other method waits for it.
    #[rpc(quick)]
    fn initialize(&self) -> InitializeResult {
        let server_info = ServerInfo { name: "duet-rpc", version: VERSION };
        InitializeResult { server_info, protocol_version: PROTOCOL }
    }

    /// Lists the methods that are served here.
    #[rpc(quick)]
    fn list_methods(&self) -> Vec<Listed> {
        self.catalog.list()
    }

    /// Says what each method takes and returns.
    #[rpc(quick)]
    fn describe_methods(&self) -> Result<Cached<Vec<Described>>, Failure> {
        Cached::new(&self.description, || self.catalog.describe())
    }

    /// Says which version this is.
    #[rpc(quick)]
    fn version(&self) -> Version {
        Version { version: VERSION }
    }

    /// Logs records of this level and worse from here on.
    #[rpc(quick)]
    fn set_log_level(
        &self,
        /// The least level that is logged, in any case.
        level: Level,
    ) -> Result<SetLogLevelResult, ErrorObject> {
        self.log.log()?.set_level(level);
        Ok(SetLogLevelResult { level, success: true })
    }

    /// Ends the daemon: what runs is finished and answered first.
    #[rpc(quick, shutdown)]
    fn shutdown(&self) -> ShutdownResult {
        ShutdownResult { message: "Shutting down gracefully" }
    }
}

impl Basics {
    pub(super) fn new(catalog: Catalog, log: LogAccess) -> Self {
        Basics { catalog, description: CachedJson::new(), log }
    }

    /// The methods, described for this access to the log.
    pub(super) fn methods(log: LogAccess) -> Vec<MethodInfo> {
        let mut methods = Basics::METHODS.to_vec();
        if let LogAccess::Withheld = log {
            for method in methods.iter_mut().filter(|method| method.name == "setLogLevel") {
                method.docs =
                    "Is refused here: the log belongs to all connections, and is not shared.";
            }
        }
        methods
    }
}

result! {
    struct InitializeResult {
        "serverInfo" => server_info: ServerInfo,
        "protocolVersion" => protocol_version: &'static str,
    }
}

result! {
    struct ServerInfo { "name" => name: &'static str, "version" => version: &'static str }
}

result! {
    struct Version { "version" => version: &'static str }
}

result! {
    struct SetLogLevelResult { "level" => level: Level, "success" => success: bool }
}

result! {
    struct ShutdownResult { "message" => message: &'static str }
}

impl Schema for Level {
    fn schema() -> Value {
        one_of(&Level::NAMES)
    }
}
