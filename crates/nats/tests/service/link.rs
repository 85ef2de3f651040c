//! A link between a client and the broker that can hold what the broker sends.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::support::Broker;
use super::within;

/// A link for one client.
pub(super) struct Link {
    pub(super) url: String,
    /// `true` while the link keeps what the broker sends.
    is_held: Arc<watch::Sender<bool>>,
    up: watch::Receiver<Vec<u8>>,
    down: watch::Receiver<Vec<u8>>,
    task: JoinHandle<()>,
}

impl Link {
    pub(super) async fn start(broker: &Broker) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("nats://{}", listener.local_addr().expect("an address"));
        let place = broker.url().replace("nats://", "");
        let (see_up, up) = watch::channel(Vec::new());
        let (see_down, down) = watch::channel(Vec::new());
        let is_held = Arc::new(watch::channel(false).0);
        let hold = Arc::clone(&is_held);
        let task = tokio::spawn(async move {
            let (client, _) = listener.accept().await.expect("a client");
            let broker = TcpStream::connect(place).await.expect("a broker");
            let (from_client, to_client) = client.into_split();
            let (from_broker, to_broker) = broker.into_split();
            let never = watch::channel(false).0;
            let upward = pass(from_client, to_broker, &see_up, &never);
            tokio::join!(upward, pass(from_broker, to_client, &see_down, &hold));
        });
        Link { url, is_held, up, down, task }
    }

    /// Holds what the broker sends, or lets it pass.
    pub(super) fn hold(&self, is_held: bool) {
        self.is_held.send_replace(is_held);
    }

    /// Waits until the client has sent this text.
    pub(super) async fn client_sends(&mut self, text: &str) {
        contains(&mut self.up, text, 1).await;
    }

    /// Waits until the broker has sent this text this often, including texts that the link holds.
    pub(super) async fn broker_sends(&mut self, text: &str, times: usize) {
        contains(&mut self.down, text, times).await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Passes bytes on, and shows all of them.
async fn pass(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    seen: &watch::Sender<Vec<u8>>,
    is_held: &watch::Sender<bool>,
) {
    let (mut buffer, mut held) = (vec![0; 65_536], Vec::new());
    let mut hold = is_held.subscribe();
    loop {
        tokio::select! {
            _ = hold.changed() => {}
            read = from.read(&mut buffer) => {
                let Ok(length @ 1..) = read else { return };
                let bytes = buffer.get(..length).expect("it was read");
                held.extend_from_slice(bytes);
                seen.send_modify(|all| all.extend_from_slice(bytes));
            }
        }
        if !*is_held.borrow() && to.write_all(&std::mem::take(&mut held)).await.is_err() {
            return;
        }
    }
}

async fn contains(seen: &mut watch::Receiver<Vec<u8>>, text: &str, times: usize) {
    let found = seen.wait_for(|all| String::from_utf8_lossy(all).matches(text).count() >= times);
    within(20, found).await.expect("the link is open");
}
