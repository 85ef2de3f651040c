//! A first server: one typed method on stdin and stdout, and its test.

use duet_rpc::{Failure, Profile, Router};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Speech {
    text: String,
}

async fn shout(said: Speech) -> Result<Speech, Failure> {
    Ok(Speech { text: said.text.to_uppercase() })
}

fn main() -> std::process::ExitCode {
    duet_rpc::serve(Profile::agent(), Router::new().method("shout", shout))
}

#[cfg(test)]
#[tokio::test]
async fn it_shouts() -> Result<(), duet_rpc::Error> {
    use duet_rpc::{Peer, transport::memory};
    let (here, there) = memory::pair();
    let _server = Peer::builder(there).router(Router::new().method("shout", shout)).spawn();
    let client = Peer::builder(here).spawn();
    let heard: Speech = client.call("shout", Speech { text: "hello".to_owned() }).await?;
    assert_eq!(heard.text, "HELLO");
    Ok(())
}
