//! The daemon with TLS, called by `call` and by OpenSSL (T5).

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use duet_rpc::transport::{Connector, TlsClient};
use duet_rpc::{Peer, Profile};
use rustix::process::Signal;

use crate::certificates::{Authority, Folder, PairFiles, Validity, replace};
use crate::support::daemon::{guard, rpc};
use crate::support::listening::{Server, wait_until, with_addresses};
use crate::support::once::{refused, run};
use crate::support::programs::DUET_RPC;
use crate::support::{concurrently, has, skip};

const TLS: &str = "tls://127.0.0.1:0";
const SECURE: [&str; 3] = [TLS, "wss://127.0.0.1:0/", "https://127.0.0.1:0/"];

/// A daemon with TLS, and its files.
struct Daemon {
    server: Server,
    folder: Folder,
    authority: Authority,
    files: PairFiles,
}

/// Paths as arguments.
fn text(path: &std::path::Path) -> &str {
    path.to_str().expect("a plain path")
}

impl Daemon {
    fn start(address: &str, validity: Validity, asks_certificate: bool) -> Self {
        Daemon::start_all(&[address], validity, asks_certificate)
    }

    fn start_all(addresses: &[&str], validity: Validity, asks_certificate: bool) -> Self {
        let (folder, authority) = (Folder::new(), Authority::new("Test CA"));
        let pair = authority.server_valid(&["localhost", "127.0.0.1"], validity);
        let files = pair.write(&folder, "server");
        let ca = folder.write("ca.pem", authority.pem());
        let mut options =
            vec!["--tls-cert", text(&files.certificate), "--tls-key", text(&files.key)];
        if asks_certificate {
            options.extend(["--tls-client-ca", text(&ca), "--log-level", "debug"]);
        }
        let server = Server::rpc("agent", addresses, &options);
        Daemon { server, folder, authority, files }
    }

    fn url(&self) -> &str {
        &self.server.urls[0].text
    }

    /// Calls `system.ping` with these options; returns exit code, stdout and stderr.
    fn call(&self, options: &[&str]) -> (Option<i32>, String) {
        call(self.url(), options)
    }

    /// The option that trusts its authority.
    fn trust(&self) -> [String; 2] {
        ["--cacert".to_owned(), text(&self.folder.path("ca.pem")).to_owned()]
    }

    fn is_served(&self) -> bool {
        let trust = self.trust();
        self.call(&trust.each_ref().map(String::as_str)).0 == Some(0)
    }
}

fn call(url: &str, options: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(DUET_RPC);
    command.args(["call", "--connect", url]).args(options).arg("system.ping");
    let output = run(command, b"");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).expect("text"))
}

#[test]
fn t5_a_daemon_with_tls_is_called_over_every_transport() {
    concurrently(SECURE, |address| {
        let daemon = Daemon::start(address, Validity::Now, false);
        let [option, file] = daemon.trust();
        assert_eq!(daemon.call(&[&option, &file]), (Some(0), "\"pong\"\n".to_owned()), "{address}");
        let (code, said) = daemon.call(&["--insecure"]);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("the server's certificate is not checked"), "{said}");
        let log = daemon.server.stop();
        assert!(!log.concat().contains("TLS handshake failed"), "{log:?}");
    });
}

/// Exit code 5: the server could not be reached.
#[test]
fn t5_each_failure_of_a_call_says_what_to_do() {
    concurrently(SECURE, |address| {
        let daemon = Daemon::start(address, Validity::Now, false);
        let [option, file] = &daemon.trust();
        let other = daemon.folder.write("other.pem", Authority::new("Other CA").pem());
        for (options, sentence) in [
            (
                &["--cacert", text(&other)][..],
                "not trusted here: trust the certificate of that authority; `--cacert FILE` does that",
            ),
            (
                &[option, file, "--servername", "example.com"],
                "the certificate is not for example.com, but for localhost, 127.0.0.1: connect by one of these names; `--servername NAME` expects one of them",
            ),
        ] {
            let (code, said) = daemon.call(options);
            assert_eq!(code, Some(5), "{said}");
            assert!(said.contains(sentence), "{said}");
        }
    });
    let daemon = Daemon::start(TLS, Validity::Past, false);
    let [option, file] = &daemon.trust();
    let (code, said) = daemon.call(&[option, file]);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("expired on 2020-01-02 00:00 UTC"), "{said}");
}

#[test]
fn t5_client_certificates_are_asked_for_and_sent() {
    for address in SECURE {
        let daemon = Daemon::start(address, Validity::Now, true);
        let [option, file] = &daemon.trust();
        let (code, said) = daemon.call(&[option, file]);
        assert_eq!(code, Some(5), "{address}: {said}");
        let sentence = "requires a client certificate: send one; `--cert FILE --key FILE` sends it";
        assert!(said.contains(sentence), "{address}: {said}");
        let reached = format!("cannot reach {}: ", daemon.url());
        assert!(said.contains(&reached), "{address}: {said}");
        let foreign = Authority::new("Other CA").client("eve", &[]);
        let old = daemon.authority.client_valid("old", Validity::Past);
        for pair in [foreign, old] {
            let pair = pair.write(&daemon.folder, "refused");
            let sent = ["--cert", text(&pair.certificate), "--key", text(&pair.key)];
            let (code, said) = daemon.call(&[&[&**option, file], &sent[..]].concat());
            assert_eq!(code, Some(5), "{address}: {said}");
            assert!(said.contains("does not accept the client certificate"), "{address}: {said}");
        }
        let pair = daemon.authority.client("alice", &[]).write(&daemon.folder, "alice");
        let sent = ["--cert", text(&pair.certificate), "--key", text(&pair.key)];
        let (code, said) = daemon.call(&[&[&**option, file], &sent[..]].concat());
        assert_eq!((code, &*said), (Some(0), "\"pong\"\n"), "{address}");
        let opened = daemon.server.daemon().wait_for_line(|it| it.contains("connection opened"));
        let expected = r#"connection opened identity="cert:CN=alice,O=Example" "#;
        assert!(opened.contains(expected), "{opened}");
    }
}

#[test]
fn t5_plain_and_encrypted_ports_are_told_apart() {
    let daemon = Daemon::start(TLS, Validity::Now, false);
    let plain = Server::rpc("agent", &["tcp://127.0.0.1:0", "http://127.0.0.1:0/"], &[]);
    for url in &plain.urls {
        let (code, said) = call(&format!("tls://{}", url.authority), &["--insecure"]);
        assert_eq!(code, Some(5), "{said}");
        assert!(said.contains("speak TLS"), "{said}");
    }
    for scheme in ["http", "ws"] {
        let url = format!("{scheme}://{}/", daemon.server.urls[0].authority);
        let (code, said) = call(&url, &[]);
        assert_eq!(code, Some(5), "{said}");
        assert!(said.contains(&format!("cannot reach {url}: ")), "{said}");
        assert!(said.contains("if the port speaks TLS, begin the address with https"), "{said}");
    }
    let (code, said) = call(&format!("tcp://{}", daemon.server.urls[0].authority), &[]);
    assert_eq!(code, Some(6), "{said}");
}

/// Without TLS, SIGHUP ends the daemon (L4).
#[test]
fn t5_sighup_reads_the_certificate_again() {
    let daemon = Daemon::start_all(&SECURE, Validity::Now, false);
    assert!(daemon.is_served());
    let new = Authority::new("New CA");
    new.server(&["127.0.0.1"]).write_over(&daemon.files);
    daemon.server.daemon().kill(Signal::HUP);
    daemon.server.daemon().wait_for_line(|line| line.contains("TLS certificate read again"));
    assert!(!daemon.is_served(), "the old certificate is still served");
    daemon.folder.write("ca.pem", new.pem());
    assert!(daemon.is_served());

    // A broken file changes nothing.
    daemon.folder.write("server.key", "broken");
    daemon.server.daemon().kill(Signal::HUP);
    daemon.server.daemon().wait_for_line(|line| line.contains("TLS certificate not replaced"));
    assert!(daemon.is_served());
    let end = daemon.server.end(Signal::TERM);
    assert_eq!(end.status.code(), Some(0), "{end:?}");
    let is_repeated = end.lines.iter().any(|line| line.contains("TLS certificate"));
    assert!(!is_repeated, "all addresses share the certificate: {end:?}");
}

#[test]
fn t5_a_changed_certificate_is_noticed() {
    let daemon = Daemon::start(TLS, Validity::Now, false);
    let new = Authority::new("New CA");
    new.server(&["127.0.0.1"]).write_over(&daemon.files);
    daemon.folder.write("ca.pem", new.pem());
    wait_until("the new certificate is served", || {
        thread::sleep(Duration::from_millis(100));
        daemon.is_served()
    });
    daemon.server.stop();
}

/// Makes these connections, reports it, and calls on each without a pause until it is over. Returns the number of calls
/// of each.
async fn call_until(
    over: &Arc<AtomicBool>,
    connectors: Vec<Connector>,
    connected: mpsc::Sender<()>,
) -> Vec<usize> {
    let mut peers = Vec::new();
    for connector in connectors {
        let transport = connector.connect(&Profile::agent()).await.expect("it connects");
        peers.push(Peer::builder(transport).spawn());
    }
    connected.send(()).expect("the test waits");
    let callers: Vec<_> = peers
        .into_iter()
        .map(|peer| {
            let over = Arc::clone(over);
            tokio::spawn(async move {
                let mut calls = 0;
                while !over.load(Ordering::Relaxed) {
                    let answer: String = peer.call("system.ping", ()).await.expect("it is served");
                    assert_eq!(answer, "pong");
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    let mut counts = Vec::new();
    for caller in callers {
        counts.push(caller.await.expect("no connection drops"));
    }
    counts
}

#[test]
fn t5_no_file_however_broken_disturbs_100_active_connections() {
    let daemon = Daemon::start_all(&SECURE, Validity::Now, false);
    let trust = TlsClient::new().ca_pem(daemon.authority.pem()).expect("an authority");
    let urls = daemon.server.urls.iter().cycle().take(100);
    let connectors: Vec<_> = urls
        .map(|url| Connector::new(&*url.text).expect("an address").tls(trust.clone()))
        .collect();
    let over = Arc::new(AtomicBool::new(false));
    let (connected, is_connected) = mpsc::channel();
    let calling = thread::spawn({
        let over = Arc::clone(&over);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        move || runtime.expect("a runtime").block_on(call_until(&over, connectors, connected))
    });
    is_connected.recv().expect("all are connected");

    let PairFiles { certificate, key } = &daemon.files;
    let [good_certificate, good_key] =
        [certificate, key].map(|path| fs::read_to_string(path).expect("a file"));
    let other = daemon.authority.server(&["127.0.0.1"]);
    let half = &good_certificate[..good_certificate.len() / 2];
    for (file, contents) in [
        (certificate, ""),
        (certificate, half),
        (certificate, &*good_key),
        (certificate, &*other.certificate),
        (key, ""),
        (key, "no PEM"),
        (key, &*good_certificate),
        (key, &*other.key),
    ] {
        replace(file, contents);
        daemon.server.daemon().kill(Signal::HUP);
        daemon.server.daemon().wait_for_line(|line| line.contains("TLS certificate not replaced"));
        assert!(daemon.is_served(), "a new connection gets the old certificate");
        replace(certificate, &good_certificate);
        replace(key, &good_key);
    }
    // Nobody writes to the pipe, and reading it would take forever.
    fs::remove_file(key).expect("it was there");
    assert!(Command::new("mkfifo").arg(key).status().expect("there is mkfifo").success());
    daemon.server.daemon().kill(Signal::HUP);
    daemon.server.daemon().wait_for_line(|line| line.contains("TLS certificate not replaced"));
    assert!(daemon.is_served(), "a new connection gets the old certificate");
    fs::remove_file(key).expect("it was there");
    // A renewal concerns new connections alone.
    let new = Authority::new("New CA");
    new.server(&["127.0.0.1"]).write_over(&daemon.files);
    daemon.server.daemon().kill(Signal::HUP);
    wait_until("the new certificate is served", || !daemon.is_served());
    daemon.folder.write("ca.pem", new.pem());
    assert!(daemon.is_served());
    over.store(true, Ordering::Relaxed);
    let counts = calling.join().expect("no call failed");
    assert!(counts.len() == 100 && counts.iter().all(|count| *count > 0), "{counts:?}");
    let end = daemon.server.end(Signal::TERM);
    assert_eq!(end.status.code(), Some(0), "{end:?}");
}

#[test]
fn t5_c2_options_that_do_not_fit_are_refused() {
    let folder = Folder::new();
    let pair = Authority::new("Test CA").server(&["localhost"]).write(&folder, "server");
    let (certificate, key) = (text(&pair.certificate), text(&pair.key));
    let both = ["--tls-cert", certificate, "--tls-key", key];
    for (address, options, code, sentence) in [
        (TLS, &[][..], 2, "needs a certificate: name its files with --tls-cert and --tls-key"),
        (TLS, &["--tls-cert", certificate], 2, "--tls-key"),
        (TLS, &["--tls-client-ca", certificate], 2, "--tls-cert"),
        ("tcp://127.0.0.1:0", &both, 2, "--tls-cert has no effect here"),
        ("stdio:", &both, 2, "--tls-cert has no effect here"),
        (TLS, &["--tls-cert", key, "--tls-key", key], 1, "it has no certificate"),
        (TLS, &["--tls-cert", "missing.pem", "--tls-key", key], 1, "cannot read \"missing.pem\""),
    ] {
        let (exit, said) = refused(with_addresses(rpc(options), &[address]));
        assert_eq!(exit, Some(code), "{said}");
        assert!(said.contains(sentence), "{said}");
    }
    for (url, options, code, sentence) in [
        ("tcp://127.0.0.1:1", &["--insecure"][..], 2, "need an address with TLS"),
        ("tls://127.0.0.1:1", &["--insecure", "--cacert", certificate], 2, "cannot be used with"),
        ("tls://127.0.0.1:1", &["--cert", certificate], 2, "--key"),
        ("tls://127.0.0.1:1", &["--cacert", "missing.pem"], 1, "cannot read \"missing.pem\""),
        ("tls://127.0.0.1:1", &["--cacert", key], 1, "it has no certificate"),
    ] {
        let (exit, said) = call(url, options);
        assert_eq!(exit, Some(code), "{said}");
        assert!(said.contains(sentence), "{said}");
    }
}

/// OpenSSL is a client of another make, in both versions of TLS.
#[test]
fn t5_openssl_speaks_to_the_daemon() {
    if !has("openssl") {
        return skip("openssl s_client", "openssl is not installed");
    }
    let daemon = Daemon::start(TLS, Validity::Now, true);
    let pair = daemon.authority.client("alice", &[]).write(&daemon.folder, "alice");
    let ca = daemon.folder.path("ca.pem");
    let request = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"system.ping\"}\n";
    for version in ["-tls1_2", "-tls1_3"] {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-quiet", "-verify_return_error", version]);
        command.args(["-connect", &daemon.server.urls[0].authority, "-servername", "localhost"]);
        command.args(["-verify_hostname", "localhost", "-CAfile", text(&ca)]);
        command.args(["-cert", text(&pair.certificate), "-key", text(&pair.key)]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = command.spawn().expect("openssl runs");
        let guard = guard(&client);
        let mut stdin = client.stdin.take().expect("stdin is piped");
        stdin.write_all(request).expect("it reads");
        let mut answer = String::new();
        let stdout = client.stdout.take().expect("stdout is piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut answer)
            .expect("text");
        assert_eq!(answer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"pong\"}\n", "{version}");
        let _ = client.kill();
        let _ = client.wait();
        drop(guard);
    }
    // An old version is refused.
    let mut command = Command::new("openssl");
    command.args(["s_client", "-tls1_1", "-connect", &daemon.server.urls[0].authority]);
    assert!(!run(command, b"").status.success());
    daemon.server.stop();
}
