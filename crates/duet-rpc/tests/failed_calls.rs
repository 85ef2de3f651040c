//! What a caller sees of its connection when its call fails (P5).

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use duet_rpc::transport::memory;
use duet_rpc::{Peer, Profile, Router};

/// Notes whether the connection seems open at the moment when its caller is woken.
struct Look(Peer, Mutex<Vec<bool>>);

impl Wake for Look {
    fn wake(self: Arc<Self>) {
        self.1.lock().expect("no panic").push(self.0.state().is_open());
    }
}

#[tokio::test]
async fn p5_a_connection_is_not_open_any_more_when_its_calls_fail() {
    let (here, there) = memory::pair();
    let peer = Peer::spawn(here, &Profile::agent(), Router::new());
    let mut call = pin!(peer.call::<()>("any", ()));
    let look = Arc::new(Look(peer.clone(), Mutex::default()));
    let waker = Waker::from(Arc::clone(&look));
    assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    tokio::task::yield_now().await;
    drop(there);
    peer.closed().await;
    assert_eq!(*look.1.lock().expect("no panic"), [false]);
}
