//! Tests of receiving.

use std::pin::Pin;
use std::task::{Context, Waker};

use duet_rpc_proto::frame::FramingChoice;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::transport::Stream;
use crate::{Peer, Profile, Router};

/// A new writer does not know the number of digits of the last length, and must move each answer.
#[tokio::test]
async fn f5_auto_framing_is_detected_once_and_keeps_its_writer() {
    let (here, there) = tokio::io::duplex(1024);
    let profile = Profile::agent().with(|it| it.framing = FramingChoice::Auto);
    let (_peer, mut driver) =
        Peer::builder(Stream::from_io(here)).profile(profile).router(Router::new()).build_driver();
    let mut remote = BufReader::new(there);
    let request = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"unknown\"}\n";
    for (row, (bytes, is_open)) in
        [(" \n", true), (request, false), (request, false)].into_iter().enumerate()
    {
        remote.write_all(bytes.as_bytes()).await.expect("there is room");
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut driver).poll(&mut cx).is_pending());
        assert_eq!(driver.connection.receive.framing_is_open, is_open, "row {row}");
        if !is_open {
            let mut answer = String::new();
            remote.read_line(&mut answer).await.expect("the connection is open");
            assert!(answer.starts_with("{\"jsonrpc\":\"2.0\",\"id\":1,"), "{answer}");
        }
    }
}
