//! Protocols with a handshake: the first messages of a client, and its answers to requests of the server.
//!
//! | | LSP | MCP until 2025-11-25 | MCP from 2026-07-28 on |
//! |---|---|---|---|
//! | first request | `initialize` | `initialize` | `server/discover` |
//! | then | `initialized` | `notifications/initialized` | nothing, but `_meta` in each request |
//! | at the end | `shutdown`, `exit` | nothing | nothing |
//!
//! `call` and `doctor` share it, so they look the same to a server.

use std::fmt::Write;
use std::path::Path;

use duet_rpc::proto::frame::Framing;
use serde_json::{Map, Value, json};

use crate::args::ProtocolName;
use crate::sys::files;

/// The request for an MCP server that has no `initialize`.
pub(super) const DISCOVER: &str = "server/discover";

/// The last version of MCP with a handshake, and the first one without.
const MCP_WITH_HANDSHAKE: &str = "2025-11-25";
const MCP_WITHOUT_HANDSHAKE: &str = "2026-07-28";

/// The framing of a protocol on stdio.
pub(super) fn framing(protocol: ProtocolName) -> Framing {
    match protocol {
        ProtocolName::Lsp => Framing::Lsp,
        ProtocolName::Mcp => Framing::Ndjson,
    }
}

/// The params of `initialize`. A language server gets the current folder as its workspace, and this process as the one
/// that it should not outlive.
pub(super) fn initialize(protocol: ProtocolName) -> Map<String, Value> {
    let params = match protocol {
        ProtocolName::Lsp => {
            let folders = workspace_folders();
            json!({
                "processId": std::process::id(),
                "clientInfo": client_info(),
                "rootUri": folders.pointer("/0/uri"),
                "workspaceFolders": folders,
                "capabilities": lsp_capabilities(),
            })
        }
        ProtocolName::Mcp => json!({
            "protocolVersion": MCP_WITH_HANDSHAKE,
            // A server that may ask for roots asks later, and some wait for the answer after the end of stdin.
            "capabilities": {},
            "clientInfo": client_info(),
        }),
    };
    match params {
        Value::Object(params) => params,
        _ => Map::new(),
    }
}

/// The notification that ends the handshake, with its params.
pub(super) fn initialized(protocol: ProtocolName) -> (&'static str, Value) {
    match protocol {
        ProtocolName::Lsp => ("initialized", json!({})),
        ProtocolName::Mcp => ("notifications/initialized", json!({})),
    }
}

/// The value of `_meta` in the params of each request, for an MCP server without a handshake.
pub(super) fn stateless_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MCP_WITHOUT_HANDSHAKE,
        "io.modelcontextprotocol/clientInfo": client_info(),
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// The result for a request of the server; `None` if the protocol has no neutral one.
pub(super) fn answer(protocol: ProtocolName, method: &str, params: &Value) -> Option<Value> {
    let is_refresh = method.starts_with("workspace/") && method.ends_with("/refresh");
    Some(match (protocol, method) {
        (ProtocolName::Lsp, "workspace/configuration") => {
            let items = params.get("items").and_then(Value::as_array).map_or(0, Vec::len);
            Value::from(vec![Value::Null; items])
        }
        (ProtocolName::Lsp, "workspace/workspaceFolders") => workspace_folders(),
        (ProtocolName::Lsp, "workspace/applyEdit") => json!({"applied": false}),
        (ProtocolName::Lsp, "window/showDocument") => json!({"success": false}),
        (
            ProtocolName::Lsp,
            "client/registerCapability"
            | "client/unregisterCapability"
            | "window/workDoneProgress/create"
            | "window/showMessageRequest",
        ) => Value::Null,
        (ProtocolName::Lsp, _) if is_refresh => Value::Null,
        (ProtocolName::Mcp, "ping") => json!({}),
        (ProtocolName::Mcp, "roots/list") => json!({"roots": []}),
        _ => return None,
    })
}

/// The URI of a file or folder. The path is absolute.
pub(super) fn file_uri(path: &Path) -> String {
    let mut uri = String::from("file://");
    for byte in files::uri_path(path) {
        match byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            true => uri.push(char::from(byte)),
            // Writing to a string does not fail.
            false => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri
}

fn client_info() -> Value {
    json!({"name": "duet-rpc", "version": env!("CARGO_PKG_VERSION")})
}

/// The current folder; `null` if it is gone.
fn workspace_folders() -> Value {
    let Ok(folder) = std::env::current_dir() else { return Value::Null };
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    json!([{"uri": file_uri(&folder), "name": name}])
}

/// Everything whose result a person can read, and nothing that this client would have to do.
fn lsp_capabilities() -> Value {
    let markup = json!(["markdown", "plaintext"]);
    json!({
        "general": {"positionEncodings": ["utf-16"]},
        "window": {"workDoneProgress": true, "showMessage": {}},
        "workspace": {
            "configuration": true,
            "workspaceFolders": true,
            "didChangeConfiguration": {"dynamicRegistration": true},
            "symbol": {},
            "executeCommand": {},
        },
        "textDocument": {
            "synchronization": {"didSave": true},
            "publishDiagnostics": {"relatedInformation": true},
            "diagnostic": {},
            "hover": {"contentFormat": markup},
            "completion": {"completionItem": {"documentationFormat": markup}, "contextSupport": true},
            "signatureHelp": {"signatureInformation": {"documentationFormat": markup}},
            "declaration": {"linkSupport": true},
            "definition": {"linkSupport": true},
            "typeDefinition": {"linkSupport": true},
            "implementation": {"linkSupport": true},
            "references": {},
            "documentHighlight": {},
            "documentSymbol": {"hierarchicalDocumentSymbolSupport": true},
            "codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": []}}},
            "codeLens": {},
            "documentLink": {},
            "formatting": {},
            "rangeFormatting": {},
            "rename": {"prepareSupport": true},
            "foldingRange": {},
            "selectionRange": {},
            "callHierarchy": {},
            "inlayHint": {},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c6_requests_of_a_server_have_neutral_answers() {
        let lsp = |method, params| answer(ProtocolName::Lsp, method, &params);
        let items = json!({"items": [{"section": "a"}, {"section": "b"}]});
        assert_eq!(lsp("workspace/configuration", items), Some(json!([null, null])));
        assert_eq!(lsp("workspace/configuration", Value::Null), Some(json!([])));
        assert_eq!(lsp("client/registerCapability", json!({})), Some(Value::Null));
        assert_eq!(lsp("workspace/inlayHint/refresh", Value::Null), Some(Value::Null));
        assert_eq!(lsp("ping", Value::Null), None);
        let mcp = |method| answer(ProtocolName::Mcp, method, &Value::Null);
        assert_eq!(mcp("ping"), Some(json!({})));
        assert_eq!(mcp("roots/list"), Some(json!({"roots": []})));
        // Only a person, or a model, can answer these.
        assert_eq!((mcp("sampling/createMessage"), mcp("elicitation/create")), (None, None));
    }

    #[test]
    fn a_file_uri_has_only_plain_characters() {
        for (path, uri) in [
            ("/home/me/a-b_c.~1/x.rs", "file:///home/me/a-b_c.~1/x.rs"),
            ("/my files/ä#?%.c", "file:///my%20files/%C3%A4%23%3F%25.c"),
        ] {
            assert_eq!(file_uri(Path::new(path)), uri);
        }
    }
}
