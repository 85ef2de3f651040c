//! Cancellation as a remote sees it, with the messages of each dialect (P3).

#[path = "support/remote.rs"]
mod remote;

use std::time::Duration;

use duet_rpc::proto::policy::{Dialect, Order};
use duet_rpc::{Failure, Peer, Profile, Router};
use remote::serve;
use serde_json::{Value, json};

fn methods() -> Router {
    Router::new()
        .method("never", async || -> Result<(), Failure> { std::future::pending().await })
        .method("ping", async || Ok::<_, Failure>("pong"))
}

fn request(id: u8, method: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method}).to_string()
}

fn cancelled(id: u8) -> Value {
    let error = json!({"code": -32800, "message": "Request cancelled"});
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

/// Waits until this many requests run or wait.
async fn until_in_flight(peer: &Peer, count: usize) {
    let has_come = async {
        while peer.stats().running + peer.stats().waiting != count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), has_come)
        .await
        .expect("the requests run or wait");
}

#[tokio::test]
async fn p3_cancellations_of_both_dialects_stop_requests_and_mcp_leaves_them_unanswered() {
    let words = [("$/cancelRequest", "id"), ("notifications/cancelled", "requestId")];
    for profile in [Profile::agent(), Profile::mcp()] {
        // Under sequential order, the second and third requests wait.
        for (order, (method, member)) in [Order::Barrier, Order::Sequential]
            .into_iter()
            .flat_map(|order| words.map(|words| (order, words)))
        {
            let (peer, mut remote) = serve(&profile.with(|it| it.order = order), methods());
            let batch = format!("[{},{}]", request(2, "never"), request(3, "never"));
            remote.send(&request(1, "never")).await;
            remote.send(&batch).await;
            until_in_flight(&peer, 3).await;
            for id in [3, 1, 2] {
                let cancellation =
                    json!({"jsonrpc": "2.0", "method": method, "params": {member: id}});
                remote.send(&cancellation.to_string()).await;
            }
            until_in_flight(&peer, 0).await;
            remote.send(&request(9, "ping")).await;
            if profile.dialect == Dialect::Dollar {
                assert_eq!(remote.next().await, cancelled(1), "{method}");
                assert_eq!(remote.next().await, json!([cancelled(3), cancelled(2)]), "{method}");
            }
            let pong = json!({"jsonrpc": "2.0", "id": 9, "result": "pong"});
            assert_eq!(remote.next().await, pong, "{method} {order:?}");
        }
    }
}
