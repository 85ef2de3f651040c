//! Tests of outgoing messages.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::io::AsyncReadExt;

use crate::connection::memory::Budget;
use crate::transport::Stream;
use crate::{PeerBuilder, Profile};

/// A driver that is never idle would stop the test clock, and keep other tasks from running.
#[tokio::test(start_paused = true)]
async fn p9_messages_that_wait_while_a_shared_budget_is_spent_do_not_keep_the_driver_busy() {
    let budget = Budget::shared(1000);
    budget.add(1000);
    let profile = Profile::agent().with(|it| it.limits.outgoing_bytes = 100);
    let (here, mut there) = tokio::io::duplex(10);
    let transport = Box::new(Stream::from_io(here));
    let (peer, mut driver) =
        PeerBuilder { profile, budget: Some(budget.clone()), ..PeerBuilder::boxed(transport) }
            .build_driver();
    peer.notify("fill", ["x".repeat(500)]).await.expect("there is room");
    let mut waiting = pin!(peer.notify("next", ()));
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("there is no room"),
        () = std::future::ready(()) => {}
    }
    let mut polls = 0;
    let driver = poll_fn(|cx| {
        polls += 1;
        assert!(polls < 1000, "the driver is never idle");
        Pin::new(&mut driver).poll(cx)
    });
    let remote = async {
        // Less than the bound is left of the first message; the second one waits for the budget.
        let mut text = vec![0; 500];
        there.read_exact(&mut text).await.expect("bytes arrive");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut rest = vec![0; 100];
        while !text.ends_with(b"\"next\"}\n") {
            let count = there.read(&mut rest).await.expect("bytes arrive");
            text.extend_from_slice(&rest[..count]);
        }
    };
    tokio::select! {
        end = driver => panic!("the connection ended: {end}"),
        () = remote => {}
    }
    waiting.await.expect("the notification is sent");
}
