//! Foreign clients of NATS: they call the service with plain requests, and find it with `$SRV`.

use std::process::Command;

use super::broker::{Broker, has_nats};
use super::support::once::run;
use super::support::programs::root;
use super::support::{has, skip};
use super::worker;

const PYTHON: &str = r#"
import asyncio, json, sys
import nats

async def main():
    nc = await nats.connect(sys.argv[1])
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "system.ping"}).encode()
    for _ in range(100):
        answer = await nc.request("rpc.math.system=2Eping", call, timeout=10)
        assert json.loads(answer.data) == {"jsonrpc": "2.0", "id": 1, "result": "pong"}, answer
    wrong = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "nothing"}).encode()
    answer = await nc.request("rpc.math.nothing", wrong, timeout=10)
    assert answer.headers["Nats-Service-Error-Code"] == "-32601", answer
    info = json.loads((await nc.request("$SRV.INFO.math", b"", timeout=10)).data)
    assert info["type"] == "io.nats.micro.v1.info_response", info
    assert "rpc.math.system=2Eping" in [it["subject"] for it in info["endpoints"]], info
    stats = json.loads((await nc.request("$SRV.STATS.math." + info["id"], b"", timeout=10)).data)
    pings = [it for it in stats["endpoints"] if it["subject"] == "rpc.math.system=2Eping"]
    assert pings[0]["num_requests"] == 100 and pings[0]["num_errors"] == 0, stats
    await nc.close()

asyncio.run(main())
"#;

const NODE: &str = r#"
const { connect } = await import(process.argv[1]);
const assert = (await import("node:assert")).strict;
const nc = await connect({ servers: process.argv[2] });
const call = JSON.stringify({ jsonrpc: "2.0", id: "a", method: "system.echo", params: [1, "ü"] });
for (let n = 0; n < 100; n++) {
  const answer = await nc.request("rpc.math.system=2Eecho", call, { timeout: 10000 });
  assert.deepEqual(answer.json(), { jsonrpc: "2.0", id: "a", result: [1, "ü"] });
}
const ping = (await nc.request("$SRV.PING.math", "", { timeout: 10000 })).json();
assert.equal(ping.type, "io.nats.micro.v1.ping_response");
const stats = (await nc.request("$SRV.STATS.math", "", { timeout: 10000 })).json();
const echo = stats.endpoints.find((it) => it.subject === "rpc.math.system=2Eecho");
assert.equal(echo.num_requests, 100);
await nc.close();
"#;

/// Runs a script against a worker.
fn check(script: impl Fn(&str) -> Command) {
    let broker = Broker::start();
    let worker = worker(&broker);
    let output = run(script(&broker.url()), b"");
    assert!(output.status.success(), "{output:?}");
    worker.stop();
}

#[test]
fn n2_n10_nats_py_calls_the_service_and_discovers_it() {
    let python = root().join("target/clients/python/bin/python");
    let mut import = Command::new(&python);
    import.args(["-c", "import nats"]);
    if !has_nats() {
        return;
    }
    if !import.output().is_ok_and(|output| output.status.success()) {
        return skip("nats-py", "`scripts/clients` fetches it");
    }
    check(|url| {
        let mut command = Command::new(&python);
        command.args(["-c", PYTHON, url]);
        command
    });
}

#[test]
fn n2_n10_transport_node_calls_the_service_and_discovers_it() {
    let package = root().join("target/clients/node_modules/@nats-io/transport-node/index.js");
    let package = match package.exists() {
        true => package,
        false => root().join("target/clients/node_modules/@nats-io/transport-node/lib/mod.js"),
    };
    if !has_nats() {
        return;
    }
    if !has("node") || !package.exists() {
        return skip("@nats-io/transport-node", "`scripts/clients` fetches it, and it needs Node");
    }
    check(|url| {
        let mut command = Command::new("node");
        command.args(["--input-type=module", "--eval", NODE, "--"]).arg(&package).arg(url);
        command
    });
}
