//! The contenders: all servers that take part.

use std::fs;
use std::io;
use std::path::Path;

use crate::server::{Contender, Prelude};
use crate::wire::Framing;

/// Name of the loop that parses nothing.
pub const LIMIT: &str = "bare loop";
/// The same with larger pipes.
pub const WIDE_LIMIT: &str = "bare loop, wide pipes";
/// The same for many connections on one thread, which waits until one of them is ready.
pub const READY_LIMIT: &str = "bare loop, by readiness";
/// Ours, with the params as JSON text.
pub const OURS: &str = "duet-rpc";
/// Ours, with typed params.
pub const OURS_TYPED: &str = "duet-rpc, typed";
/// Ours, with the params parsed into a tree, as the others do.
pub const OURS_AS_TREE: &str = "duet-rpc, as a tree";

/// Installed servers on stdin and stdout; the bare loops come first.
pub fn find(
    bench: &Path,
    only: &[String],
    skipped: &mut Vec<String>,
) -> io::Result<Vec<Contender>> {
    let bench = bench.canonicalize()?;
    let mut contenders = Vec::new();
    let mut add = |name: &str, framing: Framing, program: &str, argument: Option<&str>| {
        let arguments = [framing.name()].into_iter().chain(argument);
        contenders.push(own(&bench, name, framing, program, arguments));
    };
    for framing in [Framing::Lsp, Framing::Ndjson, Framing::Length] {
        add(LIMIT, framing, "bench-limit", None);
        if framing == Framing::Lsp {
            add(WIDE_LIMIT, framing, "bench-limit", Some("wide"));
        }
        add(OURS, framing, "bench-ours", Some("raw"));
        add(OURS_TYPED, framing, "bench-ours", Some("typed"));
        add(OURS_AS_TREE, framing, "bench-ours", Some("value"));
    }
    contenders.extend(peers(&bench)?.into_iter().filter(|peer| !is_for_sockets(peer.framing)));
    Ok(installed(contenders, only, skipped))
}

/// Installed servers on sockets, with one thread each; the bare loops come first. Servers over
/// plain TCP send lines.
pub fn find_listening(
    bench: &Path,
    only: &[String],
    skipped: &mut Vec<String>,
) -> io::Result<Vec<Contender>> {
    let bench = bench.canonicalize()?;
    let limit = |name, argument| own(&bench, name, Framing::Ndjson, "bench-limit", [argument]);
    let mut contenders = vec![limit(LIMIT, "tcp"), limit(READY_LIMIT, "ready")];
    let on_one_thread = |contender| Contender { threads: Some(1), ..contender };
    for (framing, scheme) in
        [(Framing::Ndjson, "tcp"), (Framing::WebSocket, "ws"), (Framing::Http, "http")]
    {
        for (name, params) in [(OURS, "raw"), (OURS_TYPED, "typed"), (OURS_AS_TREE, "value")] {
            let ours = own(&bench, name, framing, "bench-ours", [scheme, params]);
            contenders.push(on_one_thread(ours));
        }
    }
    let peers = peers(&bench)?.into_iter().filter(|peer| is_for_sockets(peer.framing));
    contenders.extend(peers.map(on_one_thread));
    contenders.iter_mut().for_each(|contender| contender.listens = true);
    Ok(installed(contenders, only, skipped))
}

fn is_for_sockets(framing: Framing) -> bool {
    matches!(framing, Framing::WebSocket | Framing::Http)
}

fn own<'a>(
    bench: &Path,
    name: &str,
    framing: Framing,
    program: &str,
    arguments: impl IntoIterator<Item = &'a str>,
) -> Contender {
    let program = format!("target/release/{program}");
    Contender {
        name: name.to_owned(),
        framing,
        prelude: Prelude::None,
        command: [program].into_iter().chain(arguments.into_iter().map(str::to_owned)).collect(),
        folder: bench.to_owned(),
        listens: false,
        threads: None,
    }
}

fn peers(bench: &Path) -> io::Result<Vec<Contender>> {
    let peers = bench.join("peers");
    let listed: Vec<Contender> = serde_json::from_slice(&fs::read(peers.join("peers.json"))?)?;
    Ok(listed.into_iter().map(|peer| Contender { folder: peers.clone(), ..peer }).collect())
}

fn installed(
    mut contenders: Vec<Contender>,
    only: &[String],
    skipped: &mut Vec<String>,
) -> Vec<Contender> {
    skipped.clear();
    contenders.retain(|contender| {
        let is_wanted = only.is_empty()
            || contender.name == LIMIT
            || only.iter().any(|name| contender.name.contains(name.as_str()));
        if is_wanted && !contender.is_installed() {
            eprintln!("skipped: {} is not installed; run bench/peers/setup", contender.name);
            if !skipped.contains(&contender.name) {
                skipped.push(contender.name.clone());
            }
        }
        is_wanted && contender.is_installed()
    });
    contenders
}
