//! B2, B3: no process of a server is left behind, however its client or the bridge ends.

use std::net::TcpStream;
use std::process::{Command, Stdio};

use duet_rpc::proto::frame::Framing;
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Pid, Signal, kill_process};

use super::client::Client;
use super::support::folder::Folder;
use super::support::listening::wait_until;
use super::support::programs::DUET_RPC;
use super::{Bridge, block_on, bridged, children, marked, status, wait_for_end_of, wait_for_no};

/// Shell scripts that start processes and serve with `cat`. `SLEEP` stands for a sleep that can be found.
const TREES: [(&str, &str); 5] = [
    ("a shell between", "SLEEP & cat; :"),
    ("a shell in a shell", "sh -c 'SLEEP & cat'; :"),
    ("a child that ignores EOF", "cat; SLEEP"),
    (
        "a child that ignores signals",
        "(trap '' TERM HUP INT; exec SLEEP) & trap '' TERM; cat; wait",
    ),
    ("another session", "setsid SLEEP & cat"),
];

/// Ways in which a client goes.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Before its first message.
    Silent,
    /// With unread answers, so that the connection is reset.
    Reset,
    /// In the middle of a message.
    MidMessage,
    /// In the middle of a long answer.
    MidAnswer,
    Closed,
}

const WAYS: [Way; 5] = [Way::Silent, Way::Reset, Way::MidMessage, Way::MidAnswer, Way::Closed];

fn go(bridge: &Bridge, way: Way) {
    use std::io::{Read, Write};
    let address = bridge.url().strip_prefix("tcp://").expect("TCP");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let mut say = |bytes: &[u8]| stream.write_all(bytes).expect("it reads");
    match way {
        Way::Silent => {}
        Way::MidMessage => say(b"[1]\n{\"jsonrpc\":\"2.0\",\"id\":1,"),
        Way::MidAnswer => say(format!("[\"{}\"]\n", "x".repeat(2_000_000)).as_bytes()),
        Way::Reset | Way::Closed => say(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\n"),
    }
    if !matches!(way, Way::Silent | Way::MidMessage) {
        stream.read_exact(&mut [0; 2]).expect("an answer begins");
    }
    if matches!(way, Way::Reset) {
        set_socket_linger(&stream, Some(std::time::Duration::ZERO)).expect("a socket");
    }
}

#[test]
fn b2_clients_that_vanish_leave_no_process() {
    std::thread::scope(|scope| {
        for (place, (name, script)) in TREES.into_iter().enumerate() {
            scope.spawn(move || {
                let seconds = format!("98{place}.{}", std::process::id());
                let script = script.replace("SLEEP", &format!("sleep {seconds}"));
                let options = ["--to-framing", "ndjson", "--framing", "ndjson"];
                let bridge =
                    Bridge::start(&["tcp://127.0.0.1:0"], &options, &["sh", "-c", &script]);
                let worker = bridge.worker();
                for round in 0..3 {
                    for way in WAYS {
                        go(&bridge, way);
                    }
                    wait_for_no(&seconds);
                    // A server that has just ended may still be reaped.
                    children(worker).into_iter().for_each(wait_for_end_of);
                    // The bridge itself has the script in its arguments.
                    assert_eq!(marked(&script).len(), 3, "{name}, round {round}");
                }
                assert_eq!(bridge.end(Signal::TERM).0, Some(0), "{name}");
            });
        }
    });
}

#[test]
fn b3_bridge_that_is_killed_leaves_no_process() {
    // The bridge itself, its guard, and the worker.
    for victim in 0..3 {
        for (place, (name, script)) in TREES.into_iter().enumerate() {
            let seconds = format!("97{place}.{victim}.{}", std::process::id());
            let seconds = seconds.replacen('.', "", 1);
            let script = script.replace("SLEEP", &format!("sleep {seconds}"));
            let options = ["--to-framing", "ndjson"];
            let mut bridge =
                Bridge::start(&["tcp://127.0.0.1:0"], &options, &["sh", "-c", &script]);
            let (own, worker) = (bridge.process.id().cast_signed(), bridge.worker());
            let guard = children(own)[0];
            block_on(async {
                let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
                client.send("[1]").await;
                assert_eq!(client.next().await.as_deref(), Some("[1]"));
                let pid = Pid::from_raw([own, guard, worker][victim]).expect("an id");
                kill_process(pid, Signal::KILL).expect("it runs");
                // Its connection ends.
                assert_eq!(client.next().await, None, "{name}");
            });
            bridge.wait();
            [guard, worker].into_iter().for_each(wait_for_end_of);
            wait_for_no(&seconds);
        }
    }
}

#[test]
fn b3_signals_end_the_bridge_and_its_servers() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let word = format!("signal-{}-{}", signal.as_raw(), std::process::id());
        let server = [bridged(), "ignore-eof".to_owned(), word.clone()];
        let bridge = Bridge::start(&["ws://127.0.0.1:0/"], &["--pool", "2"], &server);
        block_on(async {
            let mut client = Client::connect(bridge.url(), Framing::Ndjson).await;
            client.call(1, "work", serde_json::json!({"serial": 1})).await;
            assert!(marked(&word).len() >= 3);
            let (code, _) = bridge.end(signal);
            assert_eq!(code, Some(0), "{signal:?}");
        });
        assert_eq!(marked(&word), Vec::<i32>::new(), "{signal:?}");
    }
}

#[test]
fn b2_client_on_stdin_that_ends_ends_the_server() {
    let word = format!("stdin-{}", std::process::id());
    let mut command = Command::new(DUET_RPC);
    command.args(["bridge", "--framing", "ndjson", "--", &bridged(), "ignore-eof", &word]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().expect("it starts");
    let work = br#"{"jsonrpc":"2.0","id":1,"method":"work","params":{"serial":5}}"#;
    let mut stdin = process.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut stdin, &[&work[..], b"\n"].concat()).expect("it reads");
    drop(stdin);
    let output = process.wait_with_output().expect("our child");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.trim_end(), r#"{"id":1,"jsonrpc":"2.0","result":5}"#);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(marked(&word), Vec::<i32>::new());
}

/// The short form of `scripts/vanish`.
#[test]
fn b2_b4_sixty_clients_that_vanish_leave_memory_and_descriptors_as_they_were() {
    let options = ["--to-framing", "ndjson", "--framing", "ndjson"];
    let bridge = Bridge::start(&["tcp://127.0.0.1:0"], &options, &["sh", "-c", "cat; :"]);
    let worker = bridge.worker();
    let measure = || {
        children(worker).into_iter().for_each(wait_for_end_of);
        let open = std::fs::read_dir(format!("/proc/{worker}/fd")).expect("it runs").count();
        (status(worker, "VmRSS").expect("it runs"), open)
    };
    let fresh = measure();
    WAYS.into_iter().for_each(|way| go(&bridge, way));
    // It closes its descriptors a moment after the last process has ended, later on a busy machine.
    wait_until("the descriptors are closed", || measure().1 <= fresh.1 + 8);
    let before = measure();
    for _ in 0..12 {
        WAYS.into_iter().for_each(|way| go(&bridge, way));
    }
    wait_until("the descriptors are closed", || measure().1 < before.1 + 8);
    let after = measure();
    assert!(after.0 < before.0 + 8 * 1024, "{before:?} {after:?} kB");
}

#[test]
fn b2_stdin_or_stdout_that_fails_ends_the_bridge_with_an_error() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let ask = || {
        let (read, mut write) = std::io::pipe().expect("a pipe");
        let ask = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"count\"}\n";
        std::io::Write::write_all(&mut write, ask).expect("it fits");
        Stdio::from(read)
    };
    let folder = || Stdio::from(std::fs::File::open("/").expect("a folder"));
    for (stdin, stdout, why) in [
        (ask(), Stdio::from(full()), "cannot write stdout: No space left on device"),
        (folder(), Stdio::piped(), "cannot read stdin: Is a directory"),
    ] {
        let mut command = Command::new(DUET_RPC);
        command.args(["bridge", "--", &bridged()]).stdin(stdin).stdout(stdout);
        let output = command.stderr(Stdio::piped()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn b2_b4_client_that_vanishes_behind_a_server_that_never_reads_leaves_no_process() {
    use std::io::Write;
    let server = ["sh", "-c", "sleep 600; :"];
    let request = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\n".to_vec();
    let large = format!("[\"{}\"]\n", "x".repeat(300_000)).repeat(10).into_bytes();
    let mut bridges = Vec::new();
    for options in [&[][..], &["--restart"]] {
        for bytes in [&request, &large] {
            let options = [options, &["--framing", "ndjson"]].concat();
            let bridge = Bridge::start(&["tcp://127.0.0.1:0"], &options, &server);
            let address = bridge.url().strip_prefix("tcp://").expect("TCP");
            let mut stream = TcpStream::connect(address).expect("it listens");
            let time = Some(std::time::Duration::from_millis(500));
            stream.set_write_timeout(time).expect("a time");
            // The rest stays in the buffers of the system, and the end of the stream behind it.
            let _ = stream.write_all(bytes);
            bridges.push(bridge);
        }
    }
    for bridge in &bridges {
        children(bridge.worker()).into_iter().for_each(wait_for_end_of);
    }
}

#[test]
fn b2_client_that_closes_both_directions_is_not_waited_for() {
    use std::io::Write;
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    let folder = Folder::new();
    let url = format!("unix://{}", folder.path("socket").display());
    for options in [&["--framing", "ndjson"][..], &["--framing", "ndjson", "--restart"]] {
        let bridge = Bridge::start(&[&url], options, &[bridged()]);
        let worker = bridge.worker();
        let connect = || {
            let others = children(worker);
            let mut stream = UnixStream::connect(folder.path("socket")).expect("it listens");
            let hold = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hold\"}\n";
            stream.write_all(hold).expect("it reads");
            let new = || children(worker).into_iter().find(|it| !others.contains(it));
            wait_until("the server starts", || new().is_some());
            (stream, new().expect("it runs"))
        };
        // This client reads on, so its server has 10 s for the answer.
        let (half, kept) = connect();
        half.shutdown(Shutdown::Write).expect("it is open");
        let (full, server) = connect();
        drop(full);
        wait_for_end_of(server);
        assert!(children(worker).contains(&kept), "{options:?}");
        drop(half);
        wait_for_end_of(kept);
    }
    // The same for stdin and stdout: the bridge ends.
    let (mut half, mut full) = (stdio_bridge(), stdio_bridge());
    let (stdin, stdout) = (full.stdin.take(), full.stdout.take());
    drop((stdin, stdout));
    drop(half.stdin.take());
    assert_eq!(full.wait().expect("our child").code(), Some(0));
    assert!(half.try_wait().expect("our child").is_none());
    drop(half.stdout.take());
    assert_eq!(half.wait().expect("our child").code(), Some(0));
}

/// A bridge on stdin and stdout whose server does not answer.
fn stdio_bridge() -> std::process::Child {
    let mut command = Command::new(DUET_RPC);
    command.args(["bridge", "--framing", "ndjson", "--", &bridged()]);
    let mut process =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let stdin = process.stdin.as_mut().expect("a pipe");
    let requests = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hold\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"count\"}\n";
    std::io::Write::write_all(stdin, requests).expect("it reads");
    // Its server runs.
    let stdout = process.stdout.as_mut().expect("a pipe");
    std::io::Read::read_exact(stdout, &mut [0; 1]).expect("an answer begins");
    process
}
