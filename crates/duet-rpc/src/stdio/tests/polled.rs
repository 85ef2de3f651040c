//! Pipes and sockets.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::pin;

use super::*;

/// More than any pipe or socket here holds.
const LARGE: usize = 4 * 1024 * 1024;

#[tokio::test]
async fn frames_come_whole_and_then_the_end() {
    for (input, remote) in links() {
        let mut stdio = Stdio::from_fds(input, nothing()).unwrap();
        let mut remote = File::from(remote);
        let mut receiving = pin!(receive_all(&mut stdio));
        assert!(once(|cx| receiving.as_mut().poll(cx)).is_pending());
        remote.write_all(b"[1]\n[2").unwrap();
        // The runtime has a turn to notice these bytes before the rest arrives.
        tokio::task::yield_now().await;
        assert!(once(|cx| receiving.as_mut().poll(cx)).is_pending());
        remote.write_all(b"]\n[3]").unwrap();
        drop(remote);
        assert_eq!(receiving.await.unwrap(), ["[1]", "[2]", "[3]"]);
    }
}

#[tokio::test]
async fn bytes_that_arrived_earlier_are_received_at_the_first_poll() {
    for (input, remote) in links() {
        File::from(remote.try_clone().unwrap()).write_all(b"[1]\n").unwrap();
        let mut stdio = Stdio::from_fds(input, nothing()).unwrap();
        let mut inbox = inbox();
        assert!(matches!(
            once(|cx| stdio.poll_receive(cx, &mut inbox)),
            Poll::Ready(Ok(Received::Drained))
        ));
        assert!(once(|cx| stdio.poll_receive(cx, &mut inbox)).is_pending());
    }
}

#[tokio::test]
async fn end_of_input_directly_after_a_short_read_is_noticed() {
    for (input, remote) in links() {
        let mut stdio = Stdio::from_fds(input, nothing()).unwrap();
        let mut remote = File::from(remote);
        remote.write_all(b"[1]\n").unwrap();
        drop(remote);
        assert_eq!(receive_all(&mut stdio).await.unwrap(), ["[1]"]);
        // Further reads also return the end.
        assert!(receive_all(&mut stdio).await.unwrap().is_empty());
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn all_packets_of_a_packet_pipe_are_received() {
    let (input, remote) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::DIRECT).unwrap();
    let mut stdio = Stdio::from_fds(input, nothing()).unwrap();
    let mut remote = File::from(remote);
    for _ in 0..3 {
        remote.write_all(b"[1]\n").unwrap();
    }
    drop(remote);
    assert_eq!(receive_all(&mut stdio).await.unwrap(), ["[1]", "[1]", "[1]"]);
}

#[tokio::test]
async fn a_closed_end_is_noticed_while_reading_is_paused() {
    for (input, remote) in links() {
        let mut stdio = Stdio::from_fds(input, nothing()).unwrap();
        let mut remote = File::from(remote);
        remote.write_all(b"[1]\n").unwrap();
        let mut gone = Box::pin(poll_fn(|cx| stdio.poll_remote_closed(cx)));
        for _ in 0..10 {
            tokio::task::yield_now().await;
            assert!(once(|cx| gone.as_mut().poll(cx)).is_pending());
        }
        drop(remote);
        gone.await;
        // Earlier bytes are not lost.
        assert_eq!(receive_all(&mut stdio).await.unwrap(), ["[1]"]);
    }
}

#[tokio::test]
async fn bytes_that_arrive_during_a_pause_are_received_after_it() {
    for (input, remote) in links() {
        let mut stdio = Stdio::from_fds(input, nothing()).unwrap();
        let mut remote = File::from(remote);
        let large = format!("[\"{}\"]\n", "x".repeat(30_000));
        for _ in 0..2 {
            remote.write_all(large.as_bytes()).unwrap();
            for _ in 0..10 {
                tokio::task::yield_now().await;
                assert!(once(|cx| stdio.poll_remote_closed(cx)).is_pending());
            }
            // The runtime will not report these bytes again, so the transport must look for them.
            let (mut inbox, mut found) = (inbox(), Vec::new());
            while found.is_empty() {
                poll_fn(|cx| stdio.poll_receive(cx, &mut inbox)).await.unwrap();
                frames(&mut inbox, &mut found);
            }
            assert_eq!(found, [large.trim_end()]);
        }
    }
}

#[tokio::test]
async fn a_full_link_is_pending_and_counts_the_sent_bytes() {
    for (remote, output) in links() {
        let mut stdio = Stdio::from_fds(nothing(), output).unwrap();
        let message = vec![b'x'; LARGE];
        let mut outbox = outbox(&message);
        assert!(once(|cx| stdio.poll_send(cx, &mut outbox)).is_pending());
        let left = outbox.len();
        assert!(0 < left && left < LARGE, "{left}");
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            File::from(remote).read_to_end(&mut got).unwrap();
            got
        });
        send(&mut stdio, &mut outbox).await.unwrap();
        assert!(outbox.is_empty());
        assert!(matches!(once(|cx| stdio.poll_close(cx)), Poll::Ready(_)));
        // The close ends the input of the reader, although the transport still exists.
        let got = reader.join().unwrap();
        assert_eq!(got.len(), LARGE + 1);
        assert_eq!(got.last(), Some(&b'\n'));
        drop(stdio);
    }
}

/// The system reports room only when much of the buffer is free.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[tokio::test(start_paused = true)]
async fn l5_progress_of_a_slow_reader_is_noticed() {
    for ((remote, output), enough) in links().into_iter().zip([4_000, 110_000]) {
        let mut stdio = Stdio::from_fds(nothing(), output).unwrap();
        let mut outbox = outbox(&vec![b'x'; LARGE]);
        let mut remote = File::from(remote);
        let (mut signs, mut taken) = (None, 0);
        loop {
            assert!(once(|cx| stdio.poll_send(cx, &mut outbox)).is_pending());
            if signs.is_some_and(|signs| signs < outbox.signs()) {
                break;
            }
            // The first check only records the number of bytes.
            signs.get_or_insert(outbox.signs());
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            assert!(once(|cx| stdio.poll_send(cx, &mut outbox)).is_pending());
            remote.read_exact(&mut [0; 500]).unwrap();
            taken += 500;
            assert!(taken <= enough, "nothing shows after {taken} bytes");
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    }
}

#[tokio::test]
async fn a_reader_that_leaves_is_an_error() {
    for (remote, output) in links() {
        let mut stdio = Stdio::from_fds(nothing(), output).unwrap();
        let mut full = outbox(&vec![b'x'; LARGE]);
        assert!(once(|cx| stdio.poll_send(cx, &mut full)).is_pending());
        drop(remote);
        for _ in 0..2 {
            let error = send(&mut stdio, &mut full).await.unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn a_reader_that_was_never_there_is_an_error() {
    for (remote, output) in links() {
        drop(remote);
        let mut stdio = Stdio::from_fds(nothing(), output).unwrap();
        let error = send(&mut stdio, &mut outbox(b"[]")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}

#[tokio::test]
async fn a_socket_that_was_reset_is_an_error() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut stdio = Stdio::from_fds(ours.try_clone().unwrap().into(), nothing()).unwrap();
    // Closing with bytes unread resets the other end.
    (&ours).write_all(b"unread").unwrap();
    drop(theirs);
    let error = receive_all(&mut stdio).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_named_pipe_that_is_opened_again_has_still_ended() {
    let (path, input, remote) = named_pipe("reopened");
    let mut stdio = Stdio::from_fds(input, nothing()).unwrap();
    File::from(remote).write_all(b"[1]\n").unwrap();
    poll_fn(|cx| stdio.poll_remote_closed(cx)).await;
    let _another = File::options().write(true).open(&path).unwrap();
    assert_eq!(receive_all(&mut stdio).await.unwrap(), ["[1]"]);
    std::fs::remove_file(path).unwrap();
}
