//! The sentence of each failure.

use std::io;
use std::net::SocketAddr;

use duet_rpc::Hub;
use duet_rpc::transport::{
    Address, ClientCertificates, TlsClient, TlsError, TlsErrorKind, TlsServer,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::certificates::{Authority, Folder, Pair, Validity, self_signed};
use crate::log::Log;
use crate::support::{Secured, connect, listen, profile, router};

/// Serves with this certificate; returns the error of a client that trusts this PEM text.
async fn failure(pair: &Pair, trusted: &str, host: &str) -> io::Error {
    let folder = Folder::new();
    let files = pair.write(&folder, "server");
    let tls = TlsServer::from_files(files.certificate, files.key).expect("a certificate");
    let hub = Hub::builder().profile(profile()).router(router()).build();
    let address = listen(&hub, "tls://127.0.0.1:0", tls);
    let Address::Tcp(place) = &address else { panic!("{address}") };
    let address: Address = format!("tls://{host}:{}", place.port).parse().expect("an address");
    let trust = TlsClient::new().ca_pem(trusted).expect("an authority");
    connect(&address, trust).await.expect_err("the certificate does not fit")
}

fn kind_of(error: &io::Error) -> TlsErrorKind {
    TlsError::from_error(error).unwrap_or_else(|| panic!("{error:?}")).kind()
}

#[tokio::test]
async fn t5_each_fault_of_a_certificate_has_its_sentence() {
    let (authority, other) = (Authority::new("Test CA"), Authority::new("Other CA"));
    let good = authority.server(&["localhost"]);
    let wrong = authority.server(&["example.com", "*.example.org", "192.0.2.1"]);
    let own = self_signed(&["localhost"], true);
    let renewed = Authority::new("Test CA");
    for (pair, trusted, kind, sentence) in [
        (
            &good,
            other.pem(),
            TlsErrorKind::UnknownAuthority,
            "the certificate of localhost is signed by an authority that is not trusted here: \
             trust the certificate of that authority",
        ),
        (
            &good,
            renewed.pem(),
            TlsErrorKind::UnknownAuthority,
            "the certificate of localhost is not signed with the key of the certificate that is trusted here \
             under that name: if that was renewed, trust the new one",
        ),
        (
            &wrong,
            authority.pem(),
            TlsErrorKind::WrongName,
            "the certificate is not for localhost, but for example.com, *.example.org, 192.0.2.1: \
             connect by one of these names",
        ),
        (
            &authority.server(&[]),
            authority.pem(),
            TlsErrorKind::BadCertificate,
            "the certificate is not for localhost, and has no other name: \
             the server needs one with a subject alternative name",
        ),
        (
            &authority.server_valid(&["localhost"], Validity::Past),
            authority.pem(),
            TlsErrorKind::Expired,
            "the certificate of localhost expired on 2020-01-02 00:00 UTC, and now it is …: \
             the server needs a new one",
        ),
        (
            &authority.server_valid(&["localhost"], Validity::Future),
            authority.pem(),
            TlsErrorKind::NotYetValid,
            "the certificate of localhost is valid from 2999-01-02 00:00 UTC on, and now it is …: \
             is the clock of this machine right?",
        ),
        (
            &own,
            &own.certificate,
            TlsErrorKind::BadCertificate,
            "the certificate of localhost is that of an authority (CA:TRUE): \
             the server needs one of its own, signed by that authority or made with CA:FALSE",
        ),
        (
            &authority.client("alice", &["localhost"]),
            authority.pem(),
            TlsErrorKind::BadCertificate,
            "the certificate of localhost is for another purpose: its extended key usage does not fit",
        ),
    ] {
        let error = failure(pair, trusted, "localhost").await;
        let text = error.to_string();
        let (before, behind) = sentence.split_once('…').unwrap_or((sentence, ""));
        assert!(text.starts_with(before) && text.ends_with(behind), "{text}");
        assert_eq!(kind_of(&error), kind, "{text}");
    }
}

/// A certificate that signs itself, and is not that of an authority, can be trusted by itself.
#[tokio::test]
async fn t5_an_own_certificate_can_be_trusted() {
    let pair = self_signed(&["localhost"], false);
    let error = failure(&pair, &pair.certificate, "127.0.0.1").await;
    assert_eq!(kind_of(&error), TlsErrorKind::WrongName, "{error}");
}

#[tokio::test]
async fn t5_the_expected_name_can_be_set() {
    let server = Secured::serve();
    for (name, is_right) in [("localhost", true), ("127.0.0.1", true), ("example.com", false)] {
        let trust = server.trusting().server_name(name).expect("a name");
        assert_eq!(connect(&server.address, trust).await.is_ok(), is_right, "{name}");
    }
    let error = server.trusting().server_name("a b").expect_err("no name").to_string();
    assert!(error.contains("no certificate can have the name"), "{error}");
}

#[tokio::test]
async fn t5_a_client_can_accept_any_certificate() {
    let log = Log::up_to(tracing::Level::WARN);
    let _guard = tracing::subscriber::set_default(log.clone());
    let server = Secured::serve();
    let anyone = TlsClient::new().danger_accept_any_certificate();
    let named = anyone.server_name("elsewhere.example").expect("a name");
    let client = connect(&server.address, named).await.expect("it connects");
    crate::support::check(&client).await;
    assert!(log.text().contains("the certificate of 127.0.0.1 is not checked"), "{}", log.text());
}

/// A server that does not answer as TLS does: its answer, and whether it closes.
async fn foreign(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            tokio::spawn(async move {
                let mut hello = [0; 4096];
                let _ = stream.read(&mut hello).await;
                let _ = stream.write_all(answer).await;
            });
        }
    });
    at
}

#[tokio::test]
async fn t5_each_server_without_tls_has_its_sentence() {
    for (answer, kind, sentence) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], TlsErrorKind::NotTls, "does not speak TLS"),
        (b"{\"jsonrpc\":\"2.0\"}\n", TlsErrorKind::NotTls, "does not speak TLS"),
        (b"", TlsErrorKind::NotTls, "closed the connection during the TLS handshake"),
        (b"\x15\x03\x01\x00\x02\x02\x46", TlsErrorKind::NoCommonVersion, "TLS 1.2 or later"),
        (b"\x15\x03\x03\x00\x02\x02\x28", TlsErrorKind::Handshake, "alert HandshakeFailure"),
        (b"\x15\x03\x03\x00\x02\x02\x50", TlsErrorKind::Busy, "too busy"),
    ] {
        let at = foreign(answer).await;
        let address: Address = format!("tls://{at}").parse().expect("an address");
        let error = connect(&address, TlsClient::new().danger_accept_any_certificate()).await;
        let error = error.expect_err("it does not speak TLS");
        assert!(error.to_string().contains(sentence), "{error}");
        assert_eq!(kind_of(&error), kind, "{error}");
    }
}

#[tokio::test]
async fn t5_a_server_that_says_nothing_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("an address");
    let connector = duet_rpc::transport::Connector::new(format!("tls://{at}")).expect("an address");
    let mut profile = profile();
    profile.call_timeout = Some(std::time::Duration::from_millis(50));
    let anyone = TlsClient::new().danger_accept_any_certificate();
    let error = connector.tls(anyone).connect(&profile).await.err().expect("it is late");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(error.to_string(), "the TLS handshake took too long");
}

/// In TLS 1.3 the server refuses only after the client's handshake, so the first call fails.
#[tokio::test]
async fn t5_a_missing_client_certificate_is_reported() {
    let server = Secured::serve_with("tls://127.0.0.1:0", |tls, folder, authority| {
        let ca = folder.write("ca.pem", authority.pem());
        tls.client_ca(ca, ClientCertificates::Required).expect("an authority")
    });
    let foreign = Authority::new("Other CA");
    for (pair, kind, sentence) in [
        (
            None,
            TlsErrorKind::ClientCertificateRequired,
            "the server requires a client certificate: send one",
        ),
        (
            Some(foreign.client("eve", &[])),
            TlsErrorKind::CertificateRefused,
            "the server does not accept the client certificate (it is of an unknown authority)",
        ),
        (
            Some(server.authority.client_valid("old", Validity::Past)),
            TlsErrorKind::CertificateRefused,
            "the server does not accept the client certificate (it has expired, or is not valid yet)",
        ),
    ] {
        let mut tls = server.trusting();
        if let Some(pair) = pair {
            let files = pair.write(&server.folder, "client");
            tls = tls.client_certificate(files.certificate, files.key).expect("a certificate");
        }
        let client = connect(&server.address, tls).await.expect("it connects");
        client.call::<serde_json::Value>("echo", [1]).await.expect_err("it is refused");
        let end = client.closed().await;
        let failure = end.failure().expect("a failure");
        let found = TlsError::from_error(failure).unwrap_or_else(|| panic!("{failure:?}"));
        assert_eq!((found.kind(), &*found.to_string()), (kind, sentence));
    }
}
