//! Certificates that change while the server runs.

use std::time::{Duration, Instant};

use duet_rpc::Hub;
use duet_rpc::transport::{Address, TlsClient, TlsErrorKind, TlsServer};

use crate::certificates::{Authority, Folder, PairFiles, Validity, replace};
use crate::log::Log;
use crate::support::{HANGS, check, connect, listen, profile, router};

struct Renewed {
    _folder: Folder,
    files: PairFiles,
    tls: TlsServer,
    hub: Hub,
    address: Address,
    /// Two authorities, so that a client can tell which certificate it got.
    old: Authority,
    new: Authority,
}

fn serve() -> Renewed {
    let (folder, old, new) = (Folder::new(), Authority::new("Old CA"), Authority::new("New CA"));
    let files = old.server(&["127.0.0.1"]).write(&folder, "server");
    let tls = TlsServer::from_files(&files.certificate, &files.key).expect("a certificate");
    let hub = Hub::builder().profile(profile()).router(router()).build();
    let address = listen(&hub, "tls://127.0.0.1:0", tls.clone());
    Renewed { _folder: folder, files, tls, hub, address, old, new }
}

fn trusting(authority: &Authority) -> TlsClient {
    TlsClient::new().ca_pem(authority.pem()).expect("an authority")
}

impl Renewed {
    async fn has_certificate_of(&self, authority: &Authority) -> bool {
        match connect(&self.address, trusting(authority)).await {
            Ok(client) => {
                check(&client).await;
                true
            }
            Err(error) => {
                let tls = duet_rpc::transport::TlsError::from_error(&error);
                let kind = tls.map(duet_rpc::transport::TlsError::kind);
                assert_eq!(kind, Some(TlsErrorKind::UnknownAuthority), "{error}");
                false
            }
        }
    }
}

#[tokio::test]
async fn t5_a_changed_certificate_is_served_and_no_connection_drops() {
    let server = serve();
    let mut clients = Vec::new();
    for _ in 0..100 {
        clients.push(connect(&server.address, trusting(&server.old)).await.expect("it connects"));
    }
    let calling: Vec<_> = clients
        .iter()
        .map(|client| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..20 {
                    check(&client).await;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            })
        })
        .collect();
    server.new.server(&["127.0.0.1"]).write_over(&server.files);
    let begun = Instant::now();
    while !server.has_certificate_of(&server.new).await {
        assert!(begun.elapsed() < HANGS, "the new certificate is not served");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!server.has_certificate_of(&server.old).await);
    for call in calling {
        call.await.expect("no connection drops");
    }
    for client in &clients {
        check(client).await;
    }
    assert!(server.hub.connections() >= 100);
}

#[tokio::test]
async fn t5_reload_reads_the_files_immediately_and_a_broken_one_changes_nothing() {
    let server = serve();
    assert!(server.has_certificate_of(&server.old).await);
    server.new.server(&["127.0.0.1"]).write_over(&server.files);
    server.tls.reload().expect("a new certificate");
    assert!(server.has_certificate_of(&server.new).await);

    let key = std::fs::read_to_string(&server.files.key).expect("a file");
    for broken in ["", "no PEM", &server.old.server(&["127.0.0.1"]).key] {
        replace(&server.files.key, broken);
        server.tls.reload().expect_err("a broken key");
        assert!(server.has_certificate_of(&server.new).await);
    }
    std::fs::remove_file(&server.files.key).expect("it was there");
    server.tls.reload().expect_err("no key");
    assert!(server.has_certificate_of(&server.new).await);
    replace(&server.files.key, &key);
    server.tls.reload().expect("the key is back");
    assert!(server.has_certificate_of(&server.new).await);
}

#[tokio::test]
async fn t5_a_certificate_that_is_not_valid_now_does_not_replace_one_that_is() {
    let server = serve();
    for (validity, why) in [
        (Validity::Past, "its certificate expired on 2020-01-02 00:00 UTC"),
        (Validity::Future, "its certificate is valid only from 2999-01-02 00:00 UTC on"),
    ] {
        server.new.server_valid(&["127.0.0.1"], validity).write_over(&server.files);
        let error = server.tls.reload().expect_err("a certificate that no client accepts");
        assert!(error.to_string().ends_with(why), "{error}");
        assert!(server.has_certificate_of(&server.old).await);
    }
    server.new.server(&["127.0.0.1"]).write_over(&server.files);
    server.tls.reload().expect("a valid certificate");
    assert!(server.has_certificate_of(&server.new).await);
}

#[test]
fn t5_a_server_that_starts_with_an_expired_certificate_logs_a_warning() {
    let log = Log::up_to(tracing::Level::WARN);
    let _guard = tracing::subscriber::set_default(log.clone());
    let (folder, authority) = (Folder::new(), Authority::new("Test CA"));
    for (validity, has_warning) in [(Validity::Now, false), (Validity::Past, true)] {
        let files = authority.server_valid(&["localhost"], validity).write(&folder, "server");
        TlsServer::from_files(&files.certificate, &files.key).expect("a certificate");
        assert_eq!(log.text().contains("clients will refuse the TLS certificate"), has_warning);
    }
}

/// Half of a renewal: the certificate is new, and the key is still the old one.
#[tokio::test]
async fn t5_a_broken_change_is_logged_once_and_the_next_change_counts() {
    let log = Log::up_to(tracing::Level::INFO);
    let _guard = tracing::subscriber::set_default(log.clone());
    let server = serve();
    let renewed = server.new.server(&["127.0.0.1"]);
    replace(&server.files.certificate, &renewed.certificate);
    let begun = Instant::now();
    while !log.text().contains("TLS certificate not replaced") {
        assert!(server.has_certificate_of(&server.old).await);
        assert!(begun.elapsed() < HANGS, "{}", log.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(server.has_certificate_of(&server.old).await);
    replace(&server.files.key, &renewed.key);
    while !server.has_certificate_of(&server.new).await {
        assert!(begun.elapsed() < HANGS, "{}", log.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let text = log.text();
    assert_eq!(text.matches("TLS certificate not replaced").count(), 1, "{text}");
    assert_eq!(text.matches("TLS certificate read again").count(), 1, "{text}");
}
