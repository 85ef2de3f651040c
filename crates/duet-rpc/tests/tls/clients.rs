//! Client certificates, and the identity in them.

use duet_rpc::transport::{ClientCertificates, TlsClient};

use crate::certificates::Pair;
use crate::support::{Secured, check, connect};

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

/// A session that is resumed has the identity too.
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
