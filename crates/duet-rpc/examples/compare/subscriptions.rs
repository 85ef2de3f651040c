//! The server and client of jsonrpsee's example `proc_macro`, on duet-rpc. docs/migrating.md compares the two.

use duet_rpc::transport::{Connector, Listener};
use duet_rpc::{Error, Hub, Peer, Profile};

type Hash = [u8; 32];
type Key = Vec<u8>;

/// Notifications that the server sends to its subscribers.
#[duet_rpc::service(prefix = "state_")]
trait Subscriber {
    #[rpc(notification)]
    async fn storage(&self, #[rpc(whole)] hashes: Vec<Hash>);

    #[rpc(notification)]
    async fn sync(&self, #[rpc(whole)] hashes: Vec<Hash>);
}

#[duet_rpc::service(callbacks = Subscriber, prefix = "state_", rename_all = "camelCase")]
trait State {
    #[rpc(name = "state_getKeys")]
    async fn storage_keys(&self, storage_key: Key, hash: Option<Hash>) -> Vec<Key>;

    async fn subscribe_storage(
        &self,
        keys: Option<Vec<Key>>,
        subscriber: SubscriberClient,
    ) -> Result<(), Error>;

    async fn subscribe_sync(
        &self,
        keys: Option<Vec<Key>>,
        subscriber: SubscriberClient,
    ) -> Result<(), Error>;
}

struct Storage;

impl State for Storage {
    async fn storage_keys(&self, storage_key: Key, _: Option<Hash>) -> Vec<Key> {
        vec![storage_key]
    }

    async fn subscribe_storage(
        &self,
        _: Option<Vec<Key>>,
        subscriber: SubscriberClient,
    ) -> Result<(), Error> {
        subscriber.storage(vec![[0; 32]]).await
    }

    async fn subscribe_sync(
        &self,
        _: Option<Vec<Key>>,
        subscriber: SubscriberClient,
    ) -> Result<(), Error> {
        subscriber.sync(vec![[0; 32]]).await
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = Listener::bind("ws://127.0.0.1:0/")?;
    let connector = Connector::new(listener.address())?;
    tokio::spawn(Hub::builder().router(Storage.into_router()).build().serve(listener));

    let peer = Peer::builder(connector.connect(&Profile::agent()).await?).spawn();
    let client = StateClient::new(&peer);
    assert_eq!(client.storage_keys(vec![1, 2, 3, 4], None).await?, [[1, 2, 3, 4]]);

    let mut hashes = peer.subscribe::<Vec<Hash>>("state_storage");
    client.subscribe_storage(None).await?;
    assert_eq!(hashes.next().await.transpose()?, Some(vec![[0; 32]]));
    Ok(())
}

#[cfg(test)]
#[test]
fn p7_it_calls_and_subscribes_over_websocket() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
