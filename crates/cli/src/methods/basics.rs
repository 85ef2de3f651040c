//! The six methods of every profile.

use duet_rpc::Failure;
use duet_rpc::openrpc::Document;
use duet_rpc::proto::message::ErrorObject;
use duet_rpc::service::MethodInfo;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::LogAccess;
use super::catalog::{Cached, CachedJson, Catalog, Described, Listed};
use crate::logging::Level;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The only supported version of JSON-RPC.
const PROTOCOL: &str = "2.0";
/// The description of `setLogLevel` without access to the log.
const LOG_WITHHELD: &str =
    "Is refused here: the log belongs to all connections, and is not shared.";

pub(super) struct Basics {
    catalog: Catalog,
    description: CachedJson,
    log: LogAccess,
}

#[duet_rpc::service(rename_all = "camelCase", openrpc)]
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
                method.docs = LOG_WITHHELD;
            }
        }
        methods
    }

    /// The document of the methods, with the data of the whole program.
    pub(super) fn document(log: LogAccess) -> Document {
        Basics::openrpc().title("duet-rpc").description("").edit(move |document| {
            document["info"]["license"] = json!({"name": env!("CARGO_PKG_LICENSE")});
            for method in document["methods"].as_array_mut().into_iter().flatten() {
                if matches!(log, LogAccess::Withheld) && method["name"] == "setLogLevel" {
                    method["summary"] = json!(LOG_WITHHELD);
                }
            }
        })
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct InitializeResult {
    server_info: ServerInfo,
    protocol_version: &'static str,
}

#[derive(Serialize, JsonSchema)]
struct ServerInfo {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize, JsonSchema)]
struct Version {
    version: &'static str,
}

#[derive(Serialize, JsonSchema)]
struct SetLogLevelResult {
    level: Level,
    success: bool,
}

#[derive(Serialize, JsonSchema)]
struct ShutdownResult {
    message: &'static str,
}
