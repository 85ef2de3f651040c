//! Documents against the schema of OpenRPC, with Ajv.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use super::support::programs::{DUET_RPC, root};
use super::{fetched, has, skip};

const SCRIPT: &str = "crates/cli/tests/clients/node/openrpc.mjs";
/// The document of a service with every feature, and with recursive types.
const FULL: &str = "crates/duet-rpc/tests/service/openrpc/full.json";

/// Validates a document; `None` if the packages are missing.
fn validate(document: &str) -> Option<Output> {
    if !has("node") {
        skip("documents against the schema of OpenRPC", "Node is missing");
        return None;
    }
    let Some(folder) = fetched("node_modules/@open-rpc/meta-schema") else {
        skip("documents against the schema of OpenRPC", "`scripts/clients` did not run");
        return None;
    };
    let packages = folder.ancestors().nth(3).expect("the folder of the clients");
    let mut node = Command::new("node");
    node.arg(root().join(SCRIPT)).arg(packages);
    node.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut node = node.spawn().expect("node starts");
    let mut stdin = node.stdin.take().expect("a pipe");
    stdin.write_all(document.as_bytes()).expect("node reads its input");
    drop(stdin);
    Some(node.wait_with_output().expect("node ends"))
}

fn check(name: &str, document: &str) {
    if let Some(output) = validate(document) {
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The daemon's document in a profile.
fn daemon(profile: &str) -> String {
    let mut call = Command::new(DUET_RPC);
    call.args(["call", "--profile", profile, "--log-level", "error", "rpc.discover"]);
    let output = call.output().expect("the command runs");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn d1_c4_documents_match_the_schema_of_openrpc() {
    for profile in ["desktop", "agent"] {
        check(profile, &daemon(profile));
    }
    check(FULL, &std::fs::read_to_string(root().join(FULL)).expect("the file is there"));
}

/// Otherwise the test above could accept anything.
#[test]
fn d1_invalid_documents_are_noticed() {
    let document = daemon("agent");
    for (from, to) in [
        (r#""openrpc":"1.3.2""#, r#""openrpc":"7""#),
        (r#""params":[]"#, r#""params":{}"#),
        ("#/components/schemas/Level", "#/components/schemas/Nowhere"),
        (r#""type":"boolean""#, r#""type":"bool""#),
        (r#""required":true"#, r#""required":"yes""#),
        (r#""summary""#, r#""sumary""#),
    ] {
        assert!(document.contains(from), "{from} is in {document}");
        if let Some(output) = validate(&document.replace(from, to)) {
            assert!(!output.status.success(), "{to} is accepted");
        }
    }
}
