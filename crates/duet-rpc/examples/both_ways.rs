//! Calls in both directions: each side calls the other inside a handler, on one connection, without a deadlock.
//!
//! ```console
//! $ cargo run -q -p duet-rpc --example both_ways
//! cook: 2 × pasta, no cheese
//! ```
//!
//! The guest calls the kitchen. Before the kitchen answers, it calls the guest back, while the guest's own call is
//! pending.

use std::io::Write;

use duet_rpc::transport::memory;
use duet_rpc::{Error, Peer, Profile};

#[duet_rpc::service]
trait Guest {
    fn likes_cheese(&self) -> bool;
}

#[duet_rpc::service(callbacks = Guest)]
trait Kitchen {
    async fn order(&self, dish: String, count: u32, guest: GuestClient) -> Result<String, Error>;
}

struct Cook;

impl Kitchen for Cook {
    async fn order(&self, dish: String, count: u32, guest: GuestClient) -> Result<String, Error> {
        // The guest answers this call while its own call waits.
        let cheese = if guest.likes_cheese().await? { "with cheese" } else { "no cheese" };
        Ok(format!("cook: {count} × {dish}, {cheese}"))
    }
}

struct Ada;

impl Guest for Ada {
    fn likes_cheese(&self) -> bool {
        false
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let (here, there) = memory::pair();
    let kitchen = Peer::builder(there).profile(Profile::agent()).router(Cook.into_router()).spawn();
    let guest = Peer::builder(here).profile(Profile::agent()).router(Ada.into_router()).spawn();

    let cooked = KitchenClient::new(&guest).order("pasta".to_owned(), 2).await?;
    let _ = writeln!(std::io::stdout(), "{cooked}");

    guest.close().await;
    kitchen.closed().await;
    Ok(())
}
