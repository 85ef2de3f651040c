//! Every script client, with the real server and with a sabotaged one.

use std::io::Write as _;

use super::script::{Runs, Script, notice_what_is_broken};

/// Sabotage that every quick client must notice.
macro_rules! broken {
    ($($more:literal)*) => {
        &["mute", "answer-lost", "wrong-id", "wrong-result", "status", $($more),*]
    };
}

/// Sabotage that a slow client must notice; kinds that look alike to it are left out.
const FEW: &[&str] = &["answer-lost", "wrong-result", "status", "event-lost"];

/// Sabotage that clients of the Model Context Protocol must notice.
const MCP: &[&str] = &[
    "answer-lost",
    "wrong-result",
    "status",
    "error-code",
    "call-lost",
    "event-lost",
    "cancel-lost",
    "cancel-answered",
];

/// A script, and its test with the real server.
macro_rules! script {
    ($name:ident, $succeeds:ident, $script:expr) => {
        const $name: Script = $script;

        #[test]
        fn $succeeds() {
            $name.succeeds();
        }
    };
}

/// All clients except the one that has to be built.
const EVERYONE: [&Script; 9] = [
    &OUR_PYTHON,
    &MCP_PYTHON,
    &JSONRPC_EL,
    &EGLOT,
    &OUR_EMACS,
    &MCP_NODE,
    &ASYNCIO,
    &VSCODE_JSONRPC,
    &LENGTH_PREFIXED,
];

#[test]
fn every_client_notices_a_broken_server() {
    notice_what_is_broken(&EVERYONE);
}

/// Each with all of its checks, as without a tap.
#[test]
fn w1_w4_r0_every_client_works_through_a_tap_and_the_traces_equal_the_streams() {
    super::support::concurrently(EVERYONE, |script| {
        let compared = script.succeeds_through_a_tap();
        let _ = writeln!(std::io::stderr(), "{}: {compared} traces", script.file);
    });
}

/// Each with all of its checks, as with a program for this system.
#[test]
#[ignore = "scripts/windows builds the programs, and runs this"]
fn l1_l9_p3_windows_programs_serve_the_clients_of_editors_desktops_and_agents() {
    let scripts =
        [&VSCODE_JSONRPC, &LENGTH_PREFIXED, &ASYNCIO, &JSONRPC_EL, &EGLOT, &MCP_PYTHON, &MCP_NODE];
    super::support::concurrently(scripts, |script| {
        script.succeeds_on_windows();
        let _ = writeln!(std::io::stderr(), "{}: a Windows program serves it", script.file);
    });
}

script!(
    VSCODE_JSONRPC,
    f1_m2_p3_l2_vscode_jsonrpc_is_served,
    Script {
        client: "`vscode-jsonrpc` for Node",
        runs_in: Runs::Node("vscode-jsonrpc"),
        file: "node/vscode_jsonrpc.mjs",
        server: None,
        notices: broken!("error-code" "error-data" "short-count" "stray-print" "call-lost"
            "event-lost" "cancel-lost" "no-result"),
    }
);

script!(
    LENGTH_PREFIXED,
    f30_m6_p9_node_speaks_lengths_as_a_desktop_shell_does,
    Script {
        client: "Node",
        runs_in: Runs::Node(""),
        file: "node/length_prefixed.mjs",
        server: None,
        notices: broken!("error-code" "error-data" "short-count" "stray-print" "event-lost"
            "event-twice" "no-result"),
    }
);

script!(
    ASYNCIO,
    f20_m2_p3_asyncio_for_python_speaks_lines,
    Script {
        client: "Python",
        runs_in: Runs::Python(None),
        file: "python/asyncio_ndjson.py",
        server: None,
        notices: broken!("error-code" "error-data" "short-count" "stray-print" "call-lost"
            "event-lost" "event-twice" "cancel-lost" "notice-lost" "no-result"),
    }
);

script!(
    JSONRPC_EL,
    f10_m2_l5_t2_jsonrpc_el_of_emacs_is_served,
    Script {
        client: "Emacs with `jsonrpc.el`",
        runs_in: Runs::Emacs("jsonrpc"),
        file: "emacs/jsonrpc.el",
        server: None,
        notices: &[
            "answer-lost",
            "wrong-result",
            "status",
            "error-code",
            "error-data",
            "short-count",
            "call-lost",
            "event-lost",
            "event-twice",
        ],
    }
);

script!(
    EGLOT,
    l2_eglot_of_emacs_drives_the_language_server,
    Script {
        client: "Emacs with `eglot`",
        runs_in: Runs::Emacs("eglot"),
        file: "emacs/eglot.el",
        server: Some("language_server"),
        notices: FEW,
    }
);

script!(
    MCP_PYTHON,
    p3_mcp_for_python_accepts_the_mcp_server,
    Script {
        client: "`mcp` for Python",
        runs_in: Runs::Python(Some("mcp")),
        file: "mcp/python_client.py",
        server: Some("mcp_server"),
        notices: MCP,
    }
);

script!(
    MCP_NODE,
    p3_the_mcp_sdk_for_node_accepts_the_mcp_server,
    Script {
        client: "`@modelcontextprotocol/sdk` for Node",
        runs_in: Runs::Node("@modelcontextprotocol/sdk"),
        file: "mcp/node_client.mjs",
        server: Some("mcp_server"),
        notices: MCP,
    }
);

#[test]
fn p3_the_mcp_sdk_for_node_accepts_the_mcp_server_over_http_and_websocket() {
    MCP_NODE.succeeds_over("http");
    MCP_NODE.succeeds_over("ws");
}

#[test]
fn p3_mcp_for_python_accepts_the_mcp_server_over_http() {
    MCP_PYTHON.succeeds_over("http");
}

script!(
    OUR_EMACS,
    our_client_for_emacs_works_with_the_daemon,
    Script {
        client: "Emacs",
        runs_in: Runs::Alone("emacs", "clients/emacs"),
        file: "clients/emacs/check",
        server: None,
        notices: &["wrong-result", "error-data", "call-lost", "cancel-lost"],
    }
);

script!(
    OUR_PYTHON,
    our_client_for_python_works_with_the_daemon,
    Script {
        client: "the tools for our Python client",
        runs_in: Runs::Alone("python3", "target/clients/python/bin/mypy"),
        file: "clients/python/check",
        server: None,
        notices: &[
            "mute",
            "answer-lost",
            "wrong-id",
            "wrong-result",
            "status",
            "error-code",
            "error-data",
            "call-lost",
            "event-lost",
            "event-twice",
            "cancel-lost",
            "notice-lost",
            "no-result"
        ],
    }
);

const OUR_NODE: Script = Script {
    client: "the tools for our Node client",
    runs_in: Runs::Alone("node", "clients/node/node_modules"),
    file: "clients/node/check",
    server: None,
    notices: &["wrong-result", "error-data", "call-lost", "event-lost", "cancel-lost"],
};

/// One test for both, because the first part builds files that the second part needs.
#[test]
fn our_client_for_node_works_with_the_daemon_and_notices_a_broken_one() {
    OUR_NODE.succeeds();
    notice_what_is_broken(&[&OUR_NODE]);
}
