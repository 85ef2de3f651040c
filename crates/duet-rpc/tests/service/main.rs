//! The macros: services from `#[service]`, and errors from `#[derive(RpcError)]`.

mod both_ways;
mod costs;
mod descriptions;
mod errors;
mod impl_blocks;
mod misuse;
mod names;
#[cfg(feature = "openrpc")]
mod openrpc;
mod params;
mod props;

use duet_rpc::transport::memory;
use duet_rpc::{Peer, Profile, Router};

/// Two connected peers in memory: the server and the client.
fn connect(server: Router, client: Router) -> (Peer, Peer) {
    let (here, there) = memory::pair();
    let server = Peer::builder(there).profile(Profile::agent()).router(server).spawn();
    (server, Peer::builder(here).profile(Profile::agent()).router(client).spawn())
}
