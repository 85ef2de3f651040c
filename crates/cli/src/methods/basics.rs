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
/// The only supported version of JSON-RPC.
const PROTOCOL: &str = "2.0";

pub(super) struct Basics {
    catalog: Catalog,
    description: CachedJson,
    log: LogAccess,
}

#[duet_rpc::service(rename_all = "camelCase", schema = schema_of)]
impl Basics {
    /// Returns the name and version of the server, and the protocol version. Other methods work without it.
    #[rpc(quick)]
    fn initialize(&self) -> InitializeResult {
        let server_info = ServerInfo { name: "duet-rpc", version: VERSION };
        InitializeResult { server_info, protocol_version: PROTOCOL }
    }

    /// Lists the methods.
    #[rpc(quick)]
    fn list_methods(&self) -> Vec<Listed> {
        self.catalog.list()
    }

    /// Describes the params and the result of each method.
    #[rpc(quick)]
    fn describe_methods(&self) -> Result<Cached<Vec<Described>>, Failure> {
        Cached::new(&self.description, || self.catalog.describe())
    }

    /// Returns the version of the server.
    #[rpc(quick)]
    fn version(&self) -> Version {
        Version { version: VERSION }
    }

    /// Sets the minimum level of log records, from the next record on.
    #[rpc(quick)]
    fn set_log_level(
        &self,
        /// The minimum level, in upper or lower case.
        level: Level,
    ) -> Result<SetLogLevelResult, ErrorObject> {
        self.log.log()?.set_level(level);
        Ok(SetLogLevelResult { level, success: true })
    }

    /// Ends the daemon, after running requests have been answered.
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
