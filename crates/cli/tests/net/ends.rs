//! The end of a listening daemon, and of a connection (L4, L5, L10, T2).

use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use duet_rpc::proto::frame::Framing;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;

use crate::client::{Client, Framed, Way};
use crate::http::Http;
use crate::support::concurrently;
use crate::support::daemon::{End, command, in_shell, request, rpc};
use crate::support::folder::Folder;
use crate::support::listening::{HTTP, Server, TCP, WS, with_addresses};
use crate::websocket::WebSocket;

const SIGNALS: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::HUP];

/// The daemon gives up after 1.9 s. A busy machine takes longer, but a daemon that waits for its handlers,
/// which take 20 s, exceeds this.
const GIVES_UP: Duration = Duration::from_secs(8);

/// Checks for exit code 0, and a log record that names the signal.
fn check_end(end: &End, signal: Signal, case: &str) {
    let name = match signal {
        Signal::TERM => "SIGTERM",
        Signal::INT => "SIGINT",
        _ => "SIGHUP",
    };
    assert_eq!(end.status.code(), Some(0), "{case}: {end:?}");
    let told = end.lines.iter().filter(|line| line.contains(name) && line.contains("INFO"));
    assert_eq!(told.count(), 1, "{case}: {:?}", end.lines);
    assert!(!end.lines.concat().contains("ERROR"), "{case}: {:?}", end.lines);
}

/// The parent process reads the end of stdout as the end of the daemon, so it must not come earlier.
#[test]
fn t2_l1_stdout_stays_empty_and_open_until_the_end() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe can be had");
    let mut command = with_addresses(rpc(&["--profile", "agent"]), &[TCP]);
    command.stdin(Stdio::null()).stdout(writer);
    let server = Server::with_stdin_and_stdout(command, 1);
    let mut poll = [PollFd::new(&reader, PollFlags::IN)];
    let ready =
        rustix::event::poll(&mut poll, Some(&Timespec::default())).expect("it can be asked");
    assert_eq!(ready, 0, "{:?}", poll[0].revents());
    server.stop();
    let mut said = Vec::new();
    reader.read_to_end(&mut said).expect("a pipe can be read");
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn l4_t2_running_requests_on_every_connection_are_answered_before_the_end() {
    for signal in SIGNALS {
        let server = Server::testbed_everywhere(&[]);
        let mut clients = Way::ALL.map(|way| (way, way.connect(&server)));
        let mut socket = WebSocket::connect(server.url("ws"));
        let sleep = request(1, "test.sleep", r#"{"ms":100}"#);
        for (_, client) in &mut clients {
            client.send(sleep.as_bytes());
        }
        socket.send(sleep.as_bytes());
        for _ in 0..5 {
            server.daemon().wait_for("test.sleep begins");
        }
        let end = thread::spawn(move || server.end(signal));
        for (way, mut client) in clients {
            let answer = r#"{"jsonrpc":"2.0","id":1,"result":100}"#;
            assert_eq!(client.receive().as_deref(), Some(answer), "{signal:?} {way:?}");
            assert_eq!(client.receive(), None, "{signal:?} {way:?}");
        }
        assert!(socket.receive().is_some(), "{signal:?}");
        assert_eq!(socket.read_out(), Some(1001), "{signal:?}");
        check_end(&end.join().expect("it ends"), signal, "short requests");
    }
}

#[test]
fn l5_t2_idle_connections_are_closed_and_do_not_delay_the_end() {
    for signal in SIGNALS {
        let server = Server::testbed_everywhere(&[]);
        let mut clients: Vec<_> =
            Way::ALL.into_iter().cycle().take(40).map(|way| (way, way.connect(&server))).collect();
        let mut socket = WebSocket::connect(server.url("ws"));
        for (_, client) in &mut clients {
            client.check(1);
        }
        // Some have sent nothing, and some only a part.
        let mut silent: Vec<_> =
            server.urls.iter().chain(&server.urls).map(crate::stream::Stream::connect).collect();
        for stream in &mut silent[..4] {
            stream.write_all(b"{\"jsonrpc\":").expect("it reads");
        }
        let end = thread::spawn(move || server.end(signal));
        for (way, client) in &mut clients {
            assert_eq!(client.receive(), None, "{signal:?} {way:?}");
        }
        assert_eq!(socket.read_out(), Some(1001), "{signal:?}");
        let end = end.join().expect("it ends");
        check_end(&end, signal, "idle");
        assert!(end.took < Duration::from_millis(1900), "{signal:?}: {:?}", end.took);
        drop(silent);
    }
}

/// The daemon does not wait for clients that never close their end.
#[test]
fn l5_clients_that_never_close_do_not_delay_the_end() {
    let server = Server::testbed_everywhere(&[]);
    let mut clients: Vec<_> = Way::ALL.into_iter().map(|way| way.connect(&server)).collect();
    for client in &mut clients {
        client.check(1);
    }
    let end = server.end(Signal::TERM);
    check_end(&end, Signal::TERM, "clients that never close");
    assert!(end.took < Duration::from_millis(1900), "{:?}", end.took);
}

#[test]
fn l5_handlers_that_never_return_do_not_delay_the_end() {
    concurrently(["test.sleep", "test.block", "test.spin", "test.jam"], |method| {
        let server = Server::testbed_everywhere(&[]);
        let ways = if method == "test.jam" { &Way::ALL[..1] } else { &Way::ALL[..] };
        let mut clients: Vec<_> = ways.iter().map(|way| way.connect(&server)).collect();
        for client in &mut clients {
            client.send(request(1, method, r#"{"ms":20000}"#).as_bytes());
            server.daemon().wait_for(&format!("{method} begins"));
        }
        let end = server.end(Signal::TERM);
        check_end(&end, Signal::TERM, method);
        assert!(end.took < GIVES_UP, "{method}: {:?}", end.took);
    });
}

#[test]
fn l5_clients_that_never_read_do_not_delay_the_end() {
    let server = Server::testbed_everywhere(&[]);
    let mut clients: Vec<_> = Way::ALL.into_iter().map(|way| way.connect(&server)).collect();
    for client in &mut clients {
        client.send(request(1, "test.big", r#"{"bytes":20000000}"#).as_bytes());
        client.send(request(2, "test.sleep", r#"{"ms":0}"#).as_bytes());
    }
    // HTTP answers one request at a time, so the second does not begin there.
    for _ in 0..3 {
        server.daemon().wait_for("test.sleep begins");
    }
    let end = server.end(Signal::TERM);
    check_end(&end, Signal::TERM, "clients that read nothing");
    assert!(end.took < GIVES_UP, "{:?}", end.took);
}

#[test]
fn l4_t2_after_the_signal_no_new_connection_is_accepted() {
    // The folder outlives the daemon, so that it does not remove the socket.
    let folder = Folder::new();
    let server = Server::testbed("agent", &[TCP, &folder.url("socket"), WS, HTTP], &[]);
    let urls = server.urls.clone();
    assert_eq!(server.end(Signal::TERM).status.code(), Some(0));
    for url in urls.iter().filter(|url| url.scheme != "unix") {
        assert!(std::net::TcpStream::connect(url.address()).is_err(), "{url:?}");
    }
    assert!(!folder.path("socket").exists());
}

#[test]
fn l4_t2_shutdown_ends_its_own_connection_and_no_other() {
    let mut server = Server::testbed_everywhere(&[]);
    let mut others: Vec<_> = Way::ALL.into_iter().map(|way| way.connect(&server)).collect();
    let answer = r#"{"jsonrpc":"2.0","id":9,"result":{"message":"Shutting down gracefully"}}"#;
    for round in 0..3 {
        for way in [&Way::ALL[..], &[Way::Binary]].concat() {
            let mut client = way.connect(&server);
            client.check(1);
            assert_eq!(client.ask(9, "shutdown", "[]"), answer, "{way:?}");
            assert_eq!(client.receive(), None, "{way:?}");
            for client in &mut others {
                client.check(round);
            }
        }
        let mut socket = WebSocket::connect(server.url("ws"));
        assert_eq!(socket.ask(9, "shutdown", "[]"), answer);
        assert_eq!(socket.read_out(), Some(1000));
        // As a notification too.
        let note = br#"{"jsonrpc":"2.0","method":"shutdown"}"#;
        let mut socket = WebSocket::connect(server.url("ws"));
        socket.send(note);
        assert_eq!(socket.read_out(), Some(1000));
        for way in [Way::ALL[0], Way::ALL[1]] {
            let mut client = way.connect(&server);
            client.send(note);
            assert_eq!(client.receive(), None, "{way:?}");
        }
        let mut client = Http::connect(server.url("http"));
        client.send(note);
        assert_eq!(client.response().map(|response| response.status), Some(202));
        assert!(client.response().is_none(), "it is closed");
    }
    // A running request on the same connection is answered first.
    let mut client = Way::ALL[0].connect(&server);
    client.send(request(1, "test.sleep", r#"{"ms":50}"#).as_bytes());
    server.daemon().wait_for("test.sleep begins");
    client.send(request(9, "shutdown", "[]").as_bytes());
    let mut came = [client.receive(), client.receive()].map(|text| text.expect("two answers"));
    came.sort_unstable();
    assert_eq!(came, [r#"{"jsonrpc":"2.0","id":1,"result":50}"#, answer]);
    assert_eq!(client.receive(), None);
    let status = server.daemon_mut().process.try_wait().expect("it is our child");
    assert_eq!(status, None, "it lives");
    server.stop();
}

/// The end of a client's input works like the end of stdin: everything due is answered (L3).
#[test]
fn l3_t2_requests_before_the_end_of_a_connection_are_answered() {
    let server = Server::testbed_everywhere(&[]);
    for scheme in ["tcp", "unix"] {
        let stream = crate::stream::Stream::connect(server.url(scheme));
        let mut client = Framed::over(stream.try_clone(), stream.try_clone(), Framing::Ndjson);
        for id in 0..100 {
            client.send(request(id, "test.sleep", r#"{"ms":20}"#).as_bytes());
        }
        stream.finish();
        let count = std::iter::from_fn(|| client.receive()).count();
        assert_eq!(count, 100, "{scheme}");
    }
    server.stop();
}

#[test]
fn t2_a_listening_daemon_ignores_stdin() {
    for case in ["nothing", "a folder", "a pipe", "a pipe that is closed"] {
        let mut command = with_addresses(rpc(&["--profile", "agent"]), &[TCP, HTTP]);
        command.stdin(match case {
            "nothing" => Stdio::null(),
            "a folder" => File::open("/").expect("it is there").into(),
            _ => Stdio::piped(),
        });
        command.stdout(Stdio::piped());
        let mut server = Server::with_stdin_and_stdout(command, 2);
        if case == "a pipe" {
            // Nobody reads it; it may even be closed.
            let stdin = server.daemon_mut().stdin.as_mut().expect("a pipe");
            let _ = stdin.write_all(request(1, "version", "[]").as_bytes());
        }
        if case == "a pipe that is closed" {
            drop(server.daemon_mut().stdin.take());
        }
        for id in 0..100 {
            Way::ALL[0].connect(&server).check(id);
            Way::Http.connect(&server).check(id);
        }
        let end = server.end(Signal::TERM);
        assert_eq!(end.status.code(), Some(0), "{case}: {end:?}");
        assert!(end.answers.is_empty(), "{case}: {end:?}");
        assert!(!end.lines.concat().contains("stdin"), "{case}: {:?}", end.lines);
    }
}

#[test]
fn l10_a_listening_daemon_ends_with_its_parent_on_request() {
    for busy in [None, Some("test.sleep"), Some("test.block")] {
        let folder = Folder::new();
        let mut started = with_addresses(command("agent"), &[&folder.url("socket"), WS]);
        started.arg("--exit-with-parent");
        let server = Server::spawn(in_shell(r#""$@" & wait"#, &started), 2);
        let mut client = Way::ALL[1].connect(&server);
        let mut socket = WebSocket::connect(server.url("ws"));
        client.check(1);
        if let Some(method) = busy {
            client.send(request(2, method, r#"{"ms":20000}"#).as_bytes());
            server.daemon().wait_for(&format!("{method} begins"));
        }
        server.daemon().kill(Signal::KILL);
        // The shell is gone, so this is the end of the daemon.
        let said = server.daemon().read_stderr_to_end();
        assert!(said.iter().any(|line| line.contains("parent")), "{busy:?}: {said:?}");
        assert!(!folder.path("socket").exists(), "{busy:?}");
        assert_eq!(socket.read_out(), Some(1001), "{busy:?}");
    }
}
