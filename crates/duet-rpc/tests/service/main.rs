//! Services that `#[service]` makes of traits and `impl` blocks, and errors that `#[derive(RpcError)]` makes.

mod both_ways;
mod costs;
mod descriptions;
mod errors;
mod impl_blocks;
mod misuse;
mod names;
mod params;
mod props;

use duet_rpc::transport::memory;
use duet_rpc::{Peer, Profile, Router};

/// Two peers in memory: one that serves, one that calls.
fn connect(server: Router, client: Router) -> (Peer, Peer) {
    let (here, there) = memory::pair();
    let server = Peer::builder(there).profile(Profile::agent()).router(server).spawn();
    (server, Peer::builder(here).profile(Profile::agent()).router(client).spawn())
}
