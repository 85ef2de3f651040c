//! Each side calls the other inside a handler, on one connection, and nothing waits in vain.
//!
//! ```console
//! $ cargo run -q -p duet-rpc --example both_ways
//! cook: 2 × pasta, no cheese
//! ```
//!
//! The guest orders; before it can cook, the kitchen asks the guest back, while the guest's own
//! call is still open.

use std::io::Write;

use duet_rpc::transport::memory;
use duet_rpc::{Context, Error, Peer, Profile, Router};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    dish: String,
    count: u32,
}

fn kitchen() -> Router {
    Router::new().method("order", async |order: Order, cx: Context| {
        // The guest answers this although it waits for us.
        let cheese: bool = cx.peer().call("likesCheese", ()).await?;
        let cheese = if cheese { "with cheese" } else { "no cheese" };
        Ok::<_, Error>(format!("cook: {} × {}, {cheese}", order.count, order.dish))
    })
}

fn guest() -> Router {
    Router::new().method("likesCheese", async || false)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let (here, there) = memory::pair();
    let kitchen = Peer::builder(there).profile(Profile::agent()).router(kitchen()).spawn();
    let guest = Peer::builder(here).profile(Profile::agent()).router(guest()).spawn();

    let order = Order { dish: "pasta".to_owned(), count: 2 };
    let cooked: String = guest.call("order", order).await?;
    let _ = writeln!(std::io::stdout(), "{cooked}");

    guest.close().await;
    kitchen.closed().await;
    Ok(())
}
