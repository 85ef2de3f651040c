//! A client whose server is a program: its end, and the reasons why it cannot be started.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duet_rpc::transport::Child;
use duet_rpc::{Backoff, Client, ClientBuilder, CloseReason, ErrorKind, Peer, Profile, Router};
use tokio::process::Command;

/// The first lines of a server in `sh`, which answer its first request. A test adds the rest.
const ANSWERS: &str = r#"read r; echo '{"jsonrpc":"2.0","id":1,"result":1}';"#;

/// A client of a program, and the number of times that the program was started.
fn client_of(program: &str, words: &[&str]) -> (ClientBuilder, Arc<AtomicUsize>) {
    let starts = Arc::new(AtomicUsize::new(0));
    let (count, program) = (Arc::clone(&starts), program.to_owned());
    let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
    let connector = move || {
        count.fetch_add(1, Ordering::SeqCst);
        let mut command = Command::new(&program);
        command.args(&words);
        async move { Child::spawn(command) }
    };
    let brief = Duration::from_millis(1);
    let backoff = Backoff { first: brief, most: brief, ..Backoff::default() };
    (
        Client::builder(connector).profile(Profile::agent()).router(Router::new()).backoff(backoff),
        starts,
    )
}

#[tokio::test]
async fn p6_program_that_cannot_be_started_is_named_and_not_tried_again() {
    let rows = [
        ("/no/such/program", "cannot start \"/no/such/program\": No such file or directory"),
        ("no-such-program-anywhere", "cannot start \"no-such-program-anywhere\": No such file"),
        ("/etc/passwd", "cannot start \"/etc/passwd\": Permission denied"),
        ("/etc/passwd/more", "cannot start \"/etc/passwd/more\": Not a directory"),
    ];
    for (program, told) in rows {
        let (builder, starts) = client_of(program, &[]);
        let error = builder.connect().await.expect_err("there is no such program");
        assert_eq!(error.kind(), ErrorKind::Connect);
        let text = format!("{error:#}");
        assert!(text.starts_with(&format!("cannot connect: {told}")), "{text}");
        assert_eq!(starts.load(Ordering::SeqCst), 1);

        let (builder, starts) = client_of(program, &[]);
        let client = builder.start();
        let end = client.closed().await;
        assert_eq!(end.reason(), CloseReason::ConnectFailed, "{end:?}");
        let error = client.connected().await.expect_err("the client is closed");
        let text = format!("{error:#}");
        assert!(text.contains(told) && !text.contains("reading or writing"), "{text}");
        assert_eq!(starts.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn p6_program_that_dies_in_on_connect_is_reported_with_exit_status_and_stderr() {
    let (builder, _) = client_of("sh", &["-c", "read r; echo no license found >&2; exit 7"]);
    let builder = builder.on_connect(async |peer: Peer| peer.call::<()>("hello", ()).await);
    let error = builder.connect().await.expect_err("it dies");
    assert_eq!(error.kind(), ErrorKind::Disconnected);
    let text = format!("{error:#}");
    assert!(text.contains("exit status: 7"), "{text}");
    assert!(text.contains("last lines on stderr: \"no license found\""), "{text}");
    assert!(!format!("{error:?}").contains("license"), "stderr may contain secrets");
    let report = error.disconnect().expect("its connection ended").exit_report();
    assert_eq!(report.exit.and_then(|exit| exit.code()), Some(7));
    assert_eq!(report.last_stderr, ["no license found"]);

    // The attempt to connect failed because a connection ended. The error of that connection has the exit
    // status.
    let (builder, _) = client_of("sh", &["-c", "read r; echo no license found >&2; exit 7"]);
    let builder = builder.on_connect(async |peer: Peer| peer.call::<()>("hello", ()).await);
    let client = builder.give_up_after(2).start();
    client.closed().await;
    let error = client.call::<()>("any", ()).await.expect_err("it has given up");
    let end = error.disconnect().expect("a connection ended");
    assert_eq!(end.exit_report().exit.and_then(|exit| exit.code()), Some(7));
    assert_eq!(end.exit_report().last_stderr, ["no license found"]);
}

#[tokio::test]
async fn p5_calls_that_were_pending_when_a_program_died_name_its_exit_status_and_stderr() {
    // The script of the program, and its exit status; `None` if the program takes longer to exit than a call
    // should wait.
    let rows = [
        ("read r; echo no license found >&2; exit 7", Some("exit status: 7")),
        ("read r; echo no license found >&2; kill -9 $$", Some("signal: 9")),
        ("exec >&-; read r; echo no license found >&2; exec sleep 3", None),
    ];
    for (script, status) in rows {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let child = Child::spawn(command).expect("sh is there").grace(Duration::from_secs(1));
        let peer = Peer::builder(child).spawn();
        let calls: Vec<_> = (0..3).map(|_| tokio::spawn(peer.call::<()>("any", ()))).collect();
        let begun = std::time::Instant::now();
        for call in calls {
            let error = call.await.expect("no panic").expect_err("it dies");
            assert_eq!(error.kind(), ErrorKind::Disconnected);
            let text = format!("{error:#}");
            let report = error.disconnect().expect("its connection ended").exit_report();
            match status {
                Some(status) => {
                    assert_eq!(report.exit.map(|it| it.to_string().contains(status)), Some(true));
                    assert_eq!(report.last_stderr, ["no license found"]);
                    assert!(text.contains(status), "{text}");
                    assert!(text.contains("stderr: \"no license found\""), "{text}");
                }
                None => assert!(begun.elapsed() < Duration::from_secs(20), "{text}"),
            }
        }
        peer.close().await;
    }
}

#[tokio::test]
async fn p6_server_that_exits_with_status_0_is_not_started_again() {
    let script = format!("{ANSWERS} exit 0");
    let (builder, starts) = client_of("sh", &["-c", &script]);
    let client = builder.connect().await.expect("sh is there");
    assert_eq!(client.call::<i64>("leave", ()).await.expect("the call is answered"), 1);
    let end = client.closed().await;
    assert_eq!(end.exit_report().exit.and_then(|exit| exit.code()), Some(0));
    assert_eq!(starts.load(Ordering::SeqCst), 1);
    let error = client.call::<i64>("leave", ()).await.expect_err("the server has exited");
    assert_eq!(error.kind(), ErrorKind::Disconnected);
}

#[tokio::test]
async fn p6_server_that_exits_with_status_0_in_on_connect_is_not_started_again() {
    let hello = async |peer: Peer| peer.call::<i64>("hello", ()).await.map(|_| ());
    let (builder, starts) = client_of("sh", &["-c", "read r; echo usage: x >&2; exit 0"]);
    let end = builder.on_connect(hello).give_up_after(3).start().closed().await;
    assert_eq!(end.reason(), CloseReason::ConnectFailed);
    let text = format!("{:#}", end.failure().expect("it says why"));
    assert!(text.contains("exit status: 0: last lines on stderr: \"usage: x\""), "{text}");
    assert_eq!(starts.load(Ordering::SeqCst), 1);

    // A server that refuses the caller exits because the client closes it, so the client tries again.
    let refuses =
        r#"read r; echo '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}'; cat"#;
    let (builder, starts) = client_of("sh", &["-c", refuses]);
    builder.on_connect(hello).give_up_after(3).start().closed().await;
    assert_eq!(starts.load(Ordering::SeqCst), 3);
}

/// Each program ignores the end of stdin, and makes a folder that exists as long as the program runs.
#[tokio::test]
async fn p6_program_has_ended_before_the_next_starts_and_before_close_returns() {
    const SCRIPT: &str = "mkdir $0 || echo two at a time >>$0.failed; trap 'rmdir $0; exit' TERM
        while :; do sleep 0.01; done";
    const ATTEMPT: Duration = Duration::from_millis(200);
    let folder = std::env::temp_dir().join(format!("duet-rpc-one-{}", std::process::id()));
    let failed = folder.with_extension("failed");
    // While `on_connect` runs, and while the program is being stopped.
    for pause in [Duration::ZERO, ATTEMPT * 2] {
        let (builder, starts) = client_of("sh", &["-c", SCRIPT, folder.to_str().expect("UTF-8")]);
        let builder = builder.attempt_timeout(ATTEMPT).on_connect(|_| std::future::pending());
        let client = builder.start();
        while starts.load(Ordering::SeqCst) < 2 || !folder.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(pause).await;
        let end = client.close().await;
        assert!(end.exit_report().exit.is_some(), "{end}");
        assert!(!folder.exists() && !failed.exists(), "a program was left, or there were two");
    }
}

#[tokio::test]
async fn p6_server_that_crashes_or_is_to_be_restarted_is_started_again() {
    for (code, restarts) in [(1, false), (1, true), (0, true)] {
        let script = format!("{ANSWERS} exit {code}");
        let (mut builder, starts) = client_of("sh", &["-c", &script]);
        if restarts {
            builder = builder.restart_after_success();
        }
        let client = builder.connect().await.expect("sh is there");
        assert_eq!(client.call::<i64>("leave", ()).await.expect("the call is answered"), 1);
        while starts.load(Ordering::SeqCst) < 3 {
            let _ = client.call::<i64>("leave", ()).await;
            client.connected().await.expect("the client reconnects");
        }
        client.close().await;
    }
}

#[tokio::test]
async fn p6_after_stop_reconnecting_the_end_of_the_server_ends_the_client() {
    for code in [0, 3] {
        let script = format!("{ANSWERS} read r; exit {code}");
        let (builder, starts) = client_of("sh", &["-c", &script]);
        let client = builder.connect().await.expect("sh is there");
        client.stop_reconnecting();
        assert!(client.state().is_connected(), "the connection continues");
        assert_eq!(client.call::<i64>("shutdown", ()).await.expect("the call is answered"), 1);
        client.notify("exit", ()).await.expect("the notification is sent");
        let end = client.closed().await;
        assert_eq!(end.exit_report().exit.and_then(|exit| exit.code()), Some(code));
        let error = client.call::<i64>("more", ()).await.expect_err("the client is closed");
        assert_eq!(error.kind(), ErrorKind::Disconnected);
        assert_eq!(starts.load(Ordering::SeqCst), 1);
    }
    // Without a connection there is nothing to wait for.
    let (builder, _) = client_of("sh", &["-c", "exit 1"]);
    let client = builder.on_connect(|_| std::future::pending()).start();
    client.stop_reconnecting();
    client.closed().await;
}

/// The lines that a program receives on its stdin, if it prints this text before it sends the notification `ready`.
/// The peer then sends the notification `go`, and closes.
async fn lines_received_after(printed: &str) -> (Vec<String>, u64) {
    let script = r#"printf '%s\n' "$1" '{"jsonrpc":"2.0","method":"ready"}'; cat >&2"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", printed]);
    let ready = Arc::new(tokio::sync::Notify::new());
    let told = Arc::clone(&ready);
    let router = Router::new().method("ready", move || told.notify_one());
    let child = Child::spawn(command).expect("sh starts");
    let peer = Peer::builder(child).profile(Profile::agent()).router(router).spawn();
    ready.notified().await;
    peer.notify("go", ()).await.expect("the program reads");
    let faults = peer.stats().faults;
    (peer.close().await.exit_report().last_stderr.clone(), faults)
}

#[tokio::test]
async fn f8_prints_of_a_child_process_are_counted_but_not_answered() {
    let go = r#"{"jsonrpc":"2.0","method":"go"}"#;
    let rows = [
        ("starting up ...", 1),
        (r#"{"level":"info","message":"ready"}"#, 1),
        (r#"{"jsonrpc":"2.0","id":null,"method":5}"#, 1),
        ("[1,2]", 2),
        ("[]", 1),
        ("\"text\"\nmore\n42", 3),
    ];
    for (printed, count) in rows {
        let (received, faults) = lines_received_after(printed).await;
        assert_eq!((&received[..], faults), (&[go.to_owned()][..], count), "{printed}");
    }
}

#[tokio::test]
async fn f8_bad_messages_of_a_child_process_that_have_an_id_are_answered() {
    for printed in [r#"{"jsonrpc":"2.0","id":7,"method":5}"#, r#"[{"id":7}]"#] {
        let (received, _) = lines_received_after(printed).await;
        assert!(received[0].contains(r#""id":7,"error":{"code":-32600"#), "{received:?}");
        assert_eq!(received.len(), 2, "{received:?}");
    }
}
