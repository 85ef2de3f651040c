//! Who takes part.

use std::fs;
use std::io;
use std::path::Path;

use crate::server::{Contender, Prelude};
use crate::wire::Framing;

/// The name of the loop that parses nothing.
pub const LIMIT: &str = "bare loop";
/// The same on pipes that hold more.
pub const WIDE_LIMIT: &str = "bare loop, wide pipes";
/// Ours, with the params as JSON text.
pub const OURS: &str = "duet-rpc";
/// Ours, with a tree built of the params as the others do.
pub const OURS_AS_TREE: &str = "duet-rpc, as a tree";

/// All that are installed; the bare loops come first.
pub fn find(
    bench: &Path,
    only: &[String],
    skipped: &mut Vec<String>,
) -> io::Result<Vec<Contender>> {
    let bench = bench.canonicalize()?;
    let mut roster = Vec::new();
    let mut add = |name: &str, framing: Framing, program: &str, argument: Option<&str>| {
        roster.push(Contender {
            name: name.to_owned(),
            framing,
            prelude: Prelude::None,
            command: [format!("target/release/{program}"), framing.name().to_owned()]
                .into_iter()
                .chain(argument.map(str::to_owned))
                .collect(),
            folder: bench.clone(),
        });
    };
    for framing in [Framing::Lsp, Framing::Ndjson, Framing::Length] {
        add(LIMIT, framing, "bench-limit", None);
        if framing == Framing::Lsp {
            add(WIDE_LIMIT, framing, "bench-limit", Some("wide"));
        }
        add(OURS, framing, "bench-ours", Some("raw"));
        add(OURS_AS_TREE, framing, "bench-ours", Some("value"));
    }
    let peers = bench.join("peers");
    let listed = fs::read(peers.join("peers.json"))?;
    let listed: Vec<Contender> = serde_json::from_slice(&listed)?;
    roster.extend(listed.into_iter().map(|peer| Contender { folder: peers.clone(), ..peer }));
    skipped.clear();
    roster.retain(|contender| {
        let is_wanted = only.is_empty()
            || contender.name == LIMIT
            || only.iter().any(|name| contender.name.contains(name.as_str()));
        if is_wanted && !contender.is_installed() {
            eprintln!("skipped: {} is not installed; run bench/peers/setup", contender.name);
            skipped.push(contender.name.clone());
        }
        is_wanted && contender.is_installed()
    });
    Ok(roster)
}
