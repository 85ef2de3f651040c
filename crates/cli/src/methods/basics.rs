//! The six methods of every profile, and the document of them all.

use duet_rpc::{Failure, quick};
use serde::{Deserialize, Serialize};

use super::LogAccess;
use super::catalog::{About, Catalog, Page, Param, Params};
use super::shape::Shape;
use crate::logging::Level;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Of JSON-RPC, which has no other.
const PROTOCOL: &str = "2.0";

pub(super) fn add(catalog: &mut Catalog, log: LogAccess) {
    catalog.add(
        About {
            name: "initialize",
            description: "Says who serves here, and which protocol. No other method waits for it.",
            params: Params::Named(&[]),
            result: Shape::Object(&[
                (
                    "serverInfo",
                    Shape::Object(&[("name", Shape::String), ("version", Shape::String)]),
                ),
                ("protocolVersion", Shape::String),
            ]),
        },
        |router, name| router.method(name, quick(initialize)),
    );
    catalog.add_page(
        About {
            name: "listMethods",
            description: "Lists the methods that are served here.",
            params: Params::Named(&[]),
            result: Shape::Array(&Shape::Object(&[
                ("name", Shape::String),
                ("description", Shape::String),
            ])),
        },
        Page::List,
    );
    catalog.add_page(
        About {
            name: "describeMethods",
            description: "Says what each method takes and returns.",
            params: Params::Named(&[]),
            result: Shape::Array(&Shape::Object(&[
                ("name", Shape::String),
                ("params", Shape::Array(&Shape::String)),
                ("returns", Shape::String),
            ])),
        },
        Page::Description,
    );
    catalog.add(
        About {
            name: "version",
            description: "Says which version this is.",
            params: Params::Named(&[]),
            result: Shape::Object(&[("version", Shape::String)]),
        },
        |router, name| router.method(name, quick(version)),
    );
    catalog.add(
        About {
            name: "setLogLevel",
            description: match log {
                LogAccess::Shared(_) => "Logs records of this level and worse from here on.",
                LogAccess::Withheld => {
                    "Is refused here: the log belongs to all connections, and is not shared."
                }
            },
            params: Params::Named(&[Param {
                name: "level",
                description: "The least level that is logged, in any case.",
                shape: Shape::OneOf(&Level::NAMES),
                is_required: true,
            }]),
            result: Shape::Object(&[
                ("level", Shape::OneOf(&Level::NAMES)),
                ("success", Shape::Boolean),
            ]),
        },
        |router, name| {
            let set_level = move |wanted: Wanted| -> Result<Done, Failure> {
                log.log()?.set_level(wanted.level);
                Ok(Done { level: wanted.level, success: true })
            };
            router.method(name, quick(set_level))
        },
    );
    catalog.add(
        About {
            name: "shutdown",
            description: "Ends the daemon: what runs is finished and answered first.",
            params: Params::Named(&[]),
            result: Shape::Object(&[("message", Shape::String)]),
        },
        |router, name| router.shutdown_method(name, quick(shutdown)),
    );
}

/// Adds the method that describes all methods to programs.
pub(super) fn add_discovery(catalog: &mut Catalog) {
    catalog.add_page(
        About {
            name: "rpc.discover",
            description: "Describes all methods in an OpenRPC document.",
            params: Params::Named(&[]),
            result: Shape::Object(&[
                ("openrpc", Shape::String),
                ("info", Shape::Object(&[("title", Shape::String), ("version", Shape::String)])),
                (
                    "methods",
                    Shape::Array(&Shape::Object(&[
                        ("name", Shape::String),
                        ("summary", Shape::String),
                        ("params", Shape::Array(&Shape::Any)),
                        ("result", Shape::Any),
                    ])),
                ),
            ]),
        },
        Page::Discovery,
    );
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Introduction {
    server_info: ServerInfo,
    protocol_version: &'static str,
}

#[derive(Serialize)]
struct ServerInfo {
    name: &'static str,
    version: &'static str,
}

fn initialize() -> Introduction {
    let server_info = ServerInfo { name: "duet-rpc", version: VERSION };
    Introduction { server_info, protocol_version: PROTOCOL }
}

#[derive(Serialize)]
struct Version {
    version: &'static str,
}

fn version() -> Version {
    Version { version: VERSION }
}

#[derive(Deserialize)]
struct Wanted {
    level: Level,
}

#[derive(Serialize)]
struct Done {
    level: Level,
    success: bool,
}

#[derive(Serialize)]
struct Farewell {
    message: &'static str,
}

fn shutdown() -> Farewell {
    Farewell { message: "Shutting down gracefully" }
}
