//! Client certificates, and the identity in them.

use std::sync::Arc;

use duet_rpc::transport::{ClientCertificates, TlsClient};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, HandshakeKind, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use crate::certificates::Pair;
use crate::support::{HANGS, Secured, check, connect};

fn serve(url: &str, certificates: ClientCertificates) -> Secured {
    Secured::serve_with(url, |tls, folder, authority| {
        let ca = folder.write("ca.pem", authority.pem());
        tls.client_ca(ca, certificates).expect("an authority")
    })
}

fn with(server: &Secured, pair: &Pair) -> TlsClient {
    let files = pair.write(&server.folder, "client");
    server.trusting().client_certificate(files.certificate, files.key).expect("a certificate")
}

#[tokio::test]
async fn t5_a_client_certificate_is_the_identity() {
    for certificates in [ClientCertificates::Optional, ClientCertificates::Required] {
        let server = serve("tls://127.0.0.1:0", certificates);
        let pair = server.authority.client("alice, admin", &["alice.example"]);
        let client = connect(&server.address, with(&server, &pair)).await.expect("it connects");
        let who: String = client.call("who", ()).await.expect("an answer");
        assert_eq!(who, "CN=alice\\, admin,O=Example alice.example");
    }
}

#[tokio::test]
async fn t5_without_a_certificate_an_optional_identity_is_none() {
    let server = serve("tls://127.0.0.1:0", ClientCertificates::Optional);
    let client = server.connect().await;
    check(&client).await;
    let who: String = client.call("who", ()).await.expect("an answer");
    assert_eq!(who, "nobody");
}

/// A client that resumes its sessions if the server allows it.
fn resuming(server: &Secured, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(server.authority.pem().as_bytes());
    roots.add(authority.expect("PEM")).expect("an authority");
    let files = server.authority.client("bob", &[]).write(&server.folder, "client");
    let certificate = CertificateDer::from_pem_file(files.certificate).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(files.key).expect("a key");
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key);
    Arc::new(config.expect("a pair"))
}

/// Connects, and calls; returns the kind of the handshake.
async fn handshake(server: &Secured, config: &Arc<ClientConfig>) -> HandshakeKind {
    let stream = tokio::net::TcpStream::connect(server.at()).await.expect("it listens");
    let name = ServerName::try_from("localhost").expect("a name");
    let connector = TlsConnector::from(Arc::clone(config));
    let mut stream = connector.connect(name, stream).await.expect("a handshake");
    let call = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}\n";
    stream.write_all(call).await.expect("it takes it");
    stream.flush().await.expect("it takes it");
    // The ticket comes before the answer.
    let mut answer = [0; 1024];
    let read = tokio::time::timeout(HANGS, stream.read(&mut answer)).await;
    assert!(read.expect("it hangs").expect("an answer") > 0);
    stream.get_ref().1.handshake_kind().expect("a handshake")
}

/// A resumed session would keep its identity after the certificate has expired.
#[tokio::test]
async fn t5_a_server_that_asks_for_certificates_checks_them_on_each_connection() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for (certificates, expected) in [
            (None, HandshakeKind::Resumed),
            (Some(ClientCertificates::Optional), HandshakeKind::Full),
            (Some(ClientCertificates::Required), HandshakeKind::Full),
        ] {
            let server = match certificates {
                None => Secured::serve(),
                Some(certificates) => serve("tls://127.0.0.1:0", certificates),
            };
            let config = resuming(&server, version);
            assert_eq!(handshake(&server, &config).await, HandshakeKind::Full);
            let second = handshake(&server, &config).await;
            assert_eq!(second, expected, "{version:?} {certificates:?}");
        }
    }
}

#[tokio::test]
async fn t5_each_connection_of_a_client_has_its_identity() {
    let server = serve("tls://127.0.0.1:0", ClientCertificates::Required);
    let tls = with(&server, &server.authority.client("bob", &[]));
    for _ in 0..3 {
        let client = connect(&server.address, tls.clone()).await.expect("it connects");
        let who: String = client.call("who", ()).await.expect("an answer");
        assert_eq!(who, "CN=bob,O=Example ");
        client.close().await;
    }
}

/// The server that asks nobody for a certificate gets none.
#[tokio::test]
async fn t5_a_certificate_that_nobody_asks_for_is_not_sent() {
    let server = Secured::serve();
    let tls = with(&server, &server.authority.client("bob", &[]));
    let client = connect(&server.address, tls).await.expect("it connects");
    let who: String = client.call("who", ()).await.expect("an answer");
    assert_eq!(who, "nobody");
}
