//! Addresses: where the daemon listens, how it prints them, and which it refuses (T2, T3, G1).

use std::net::{IpAddr, TcpListener, UdpSocket};
use std::path::Path;

use duet_rpc::proto::frame::Framing;
use rustix::process::Signal;

use crate::client::Way;
use crate::support::daemon::rpc;
use crate::support::folder::Folder;
use crate::support::listening::{HTTP, Server, TCP, WS, with_addresses};
use crate::support::log::{FORMATS, parse_line};
use crate::support::once::{refused, talk};
use crate::support::say_skipped;

/// The exit code and stderr of a daemon that cannot listen there.
fn refused_at(addresses: &[&str]) -> (Option<i32>, String) {
    refused(with_addresses(rpc(&[]), addresses))
}

#[test]
fn t2_a_bad_url_is_exit_code_2() {
    let rows = [
        "",
        "nowhere",
        "stdio",
        "stdio:x",
        "127.0.0.1:4000",
        "ftp://127.0.0.1:4000/",
        "wss://127.0.0.1:0/",
        "https://127.0.0.1:0/",
        "tcp:127.0.0.1:0",
        "tcp://",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:",
        "tcp://127.0.0.1:65536",
        "tcp://127.0.0.1:-1",
        "tcp://127.0.0.1:0x10",
        "tcp://127.0.0.1:0/path",
        "tcp://:0",
        "tcp://[::1:0",
        "tcp://::1:0",
        "tcp://user@127.0.0.1:0",
        "unix://",
        "unix:relative",
        "unix://relative/path",
        "unix:///tmp/%00",
        "ws://127.0.0.1:0/a b",
        "http://127.0.0.1:0/#part",
        "http://127.0.0.1:0/\r\nX: y",
    ];
    for url in rows {
        // Even if another one is good.
        for addresses in [&[url][..], &[TCP, url]] {
            let (code, said) = refused_at(addresses);
            assert_eq!(code, Some(2), "{addresses:?}: {said}");
        }
    }
}

#[test]
fn t2_stdio_cannot_be_combined_with_other_addresses() {
    for addresses in [["stdio:", TCP], [HTTP, "stdio:"], ["stdio:", "stdio:"]] {
        let (code, said) = refused_at(&addresses);
        assert_eq!(code, Some(2), "{addresses:?}: {said}");
    }
    let texts = [crate::support::daemon::request(1, "version", "[]")];
    let talk = talk(rpc(&["--listen", "stdio:"]), Framing::Lsp, &texts);
    assert_eq!(talk.answer(1)["result"]["version"], "0.1.0");
    assert!(!talk.log.iter().any(|line| line.contains("listening")), "{:?}", talk.log);
}

/// An address of this machine that others can reach, if it has one. Sends nothing.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn t3_a_remote_address_is_refused_without_allow_remote() {
    let mut hosts = vec!["0.0.0.0".to_owned(), "[::]".to_owned(), "192.0.2.7".to_owned()];
    hosts.push("[::ffff:192.0.2.7]".to_owned());
    let outer = outer_address();
    hosts.extend(outer.map(|address| address.to_string()));
    if outer.is_none() {
        say_skipped("an address of this machine itself", "it has none but loopback");
    }
    for host in hosts {
        for url in ["tcp://H:0", "ws://H:0/", "http://H:0/"].map(|url| url.replace('H', &host)) {
            let (code, said) = refused_at(&[&url]);
            assert_eq!(code, Some(2), "{url}: {said}");
            assert!(said.contains("--allow-remote"), "{url}: {said}");
            // A good address does not make up for a bad one.
            assert_eq!(refused_at(&[TCP, &url]).0, Some(2), "{url}");
        }
    }
}

#[test]
fn t3_allow_remote_serves_every_address() {
    let addresses = ["tcp://0.0.0.0:0", "ws://0.0.0.0:0/", "http://0.0.0.0:0/"];
    let server = Server::rpc("agent", &addresses, &["--allow-remote"]);
    for way in [Way::Tcp(Framing::Ndjson), Way::WebSocket, Way::Http] {
        way.connect(&server).check(1);
        if let Some(outer) = outer_address() {
            // Then any IP address is accepted as the host, because it cannot be a foreign name.
            let mut url = server.url(way.scheme()).clone();
            url.authority = format!("{outer}:{}", url.address().port());
            way.connect_to(&url).check(2);
        }
    }
    server.stop();
}

#[test]
fn t3_every_loopback_address_is_served() {
    let mut hosts = vec!["127.0.0.1", "127.1.2.3"];
    if TcpListener::bind("[::1]:0").is_ok() {
        hosts.push("[::1]");
    } else {
        say_skipped("IPv6", "this machine has none");
    }
    for host in hosts {
        let addresses = ["tcp://H:0", "ws://H:0/", "http://H:0/"].map(|url| url.replace('H', host));
        let server = Server::rpc("agent", &addresses.each_ref().map(String::as_str), &[]);
        for way in [Way::Tcp(Framing::Ndjson), Way::WebSocket, Way::Http] {
            assert!(server.url(way.scheme()).authority.starts_with(host), "{:?}", server.urls);
            way.connect(&server).check(1);
        }
        server.stop();
    }
}

#[test]
fn t2_a_host_name_can_be_listened_on() {
    let server = Server::rpc("agent", &["http://localhost:0/"], &[]);
    let url = &server.urls[0];
    assert!(url.text.starts_with("http://localhost:"), "{url:?}");
    assert!(!url.text.contains(":0/"), "the port is the real one: {url:?}");
    let stream = std::net::TcpStream::connect(&url.authority).expect("somebody listens there");
    let mut url = url.clone();
    url.authority = stream.peer_addr().expect("it is connected").to_string();
    Way::Http.connect_to(&url).check(1);
    server.stop();
}

#[test]
fn t2_an_address_in_use_is_exit_code_1() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("it has one").port();
    for url in ["tcp://127.0.0.1:P", "ws://127.0.0.1:P/", "http://127.0.0.1:P/"] {
        let url = url.replace('P', &port.to_string());
        let (code, said) = refused_at(&[&url]);
        assert_eq!(code, Some(1), "{url}: {said}");
        assert!(said.contains(&url), "which one? {said}");
    }
    // The same holds for an address in use by another daemon.
    let first = Server::rpc("agent", &[TCP], &[]);
    let (code, said) = refused_at(&[&first.urls[0].text]);
    assert_eq!(code, Some(1), "{said}");
    Way::Tcp(Framing::Ndjson).connect(&first).check(1);
    first.stop();
}

/// Starts it, and checks that its first lines are the addresses, and the others log records.
fn check_announcements(format: &str, level: &str, log: Option<&Path>) {
    let socket = Folder::new();
    let unix = socket.url("a socket").replace(' ', "%20");
    let addresses = [TCP, "ws://127.0.0.1:0", &unix, "http://127.0.0.1:0/rpc/here", TCP, WS, HTTP];
    let options = ["--profile", "agent", "--log-level", level, "--log-format", format];
    let mut command = rpc(&options);
    command.envs(log.map(|path| ("DUET_RPC_LOG", path)));
    let server = Server::spawn(with_addresses(command, &addresses), addresses.len());
    let kinds: Vec<_> = server.urls.iter().map(|url| (&*url.scheme, &*url.path)).collect();
    let path = unix.strip_prefix("unix://").expect("it is one");
    let first = [("tcp", ""), ("ws", "/"), ("unix", path), ("http", "/rpc/here")];
    let again = [("tcp", ""), ("ws", "/"), ("http", "/")];
    assert_eq!(kinds, [&first[..], &again].concat(), "in the order of the options");
    // Each is served.
    for url in server.urls.iter().filter(|url| url.scheme != "unix") {
        let way = match url.scheme.as_str() {
            "tcp" => Way::Tcp(Framing::Ndjson),
            "ws" => Way::WebSocket,
            _ => Way::Http,
        };
        way.connect_to(url).check(1);
    }
    let text = server.urls.iter().map(|url| url.text.clone()).collect::<Vec<_>>();
    let lines = server.end(Signal::TERM).lines;
    let lines = match log {
        Some(path) => {
            assert_eq!(lines, [""; 0], "the log is in the file");
            let log = std::fs::read_to_string(path).expect("it is there");
            log.lines().map(str::to_owned).collect()
        }
        None => lines,
    };
    assert!(!lines.is_empty());
    let records: Vec<_> = lines.iter().map(|line| parse_line(line, format)).collect();
    for url in text {
        let is_logged = records.iter().any(|record| record.message.contains(&url));
        assert!(is_logged, "the address is logged, too: {url} in {lines:?}");
    }
}

#[test]
fn t2_the_first_lines_of_stderr_are_the_addresses() {
    for format in FORMATS {
        for level in ["debug", "info"] {
            let folder = Folder::new();
            check_announcements(format, level, None);
            check_announcements(format, level, Some(&folder.path("log")));
        }
    }
}

#[test]
fn t2_the_addresses_are_printed_even_without_a_log() {
    let folder = Folder::new();
    let command = rpc(&["--log-level", "error"]);
    let server = Server::spawn(with_addresses(command, &[TCP]), 1);
    assert_eq!(server.stop(), [""; 0]);
    let mut command = rpc(&["--log-level", "error"]);
    command.env("DUET_RPC_LOG", folder.path("no/such/folder"));
    let server = Server::spawn(with_addresses(command, &[TCP, WS]), 2);
    // After it comes the warning that the log file cannot be opened.
    assert_eq!(server.stop().len(), 1);
}
