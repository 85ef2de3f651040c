//! WebSocket and HTTP over TLS: `wss://` and `https://`.

use duet_rpc::transport::{Address, ClientCertificates, TlsError, TlsErrorKind};
use duet_rpc::{ErrorKind, Peer};

use crate::support::{Secured, check, connect};

const URLS: [&str; 2] = ["wss://127.0.0.1:0/rpc", "https://127.0.0.1:0/rpc"];

async fn call_who(client: &Peer) -> String {
    client.call("who", ()).await.expect("an answer")
}

#[tokio::test]
async fn t5_websocket_and_http_work_over_tls() {
    for url in URLS {
        let server = Secured::serve_with(url, |tls, _, _| tls);
        let client = server.connect().await;
        check(&client).await;
        let large = "x".repeat(1 << 20);
        for _ in 0..3 {
            let answer: [String; 1] = client.call("echo", [&large]).await.expect("an answer");
            assert!(answer[0] == large);
        }
        if matches!(server.address, Address::WebSocket(..)) {
            let answer: [String; 1] = client.call("back", ["a"]).await.expect("an answer");
            assert_eq!(answer, ["a"]);
        }
        assert_eq!(call_who(&client).await, "nobody");
        client.close().await;
    }
}

/// A token would come before it; see `tests/remote.rs`.
#[tokio::test]
async fn t5_a_client_certificate_is_the_identity_of_requests() {
    for url in URLS {
        let server = Secured::serve_with(url, |tls, folder, authority| {
            let ca = folder.write("ca.pem", authority.pem());
            tls.client_ca(ca, ClientCertificates::Optional).expect("an authority")
        });
        let files = server.authority.client("alice", &[]).write(&server.folder, "alice");
        let tls = server.trusting().client_certificate(files.certificate, files.key);
        let client = connect(&server.address, tls.expect("a certificate")).await;
        assert_eq!(call_who(&client.expect("it connects")).await, "CN=alice,O=Example ");
        assert_eq!(call_who(&server.connect().await).await, "nobody");
    }
}

#[tokio::test]
async fn t5_a_missing_client_certificate_is_reported_over_the_web() {
    for url in URLS {
        let server = Secured::serve_with(url, |tls, folder, authority| {
            let ca = folder.write("ca.pem", authority.pem());
            tls.client_ca(ca, ClientCertificates::Required).expect("an authority")
        });
        // WebSocket notices it in its handshake, HTTP at the first request.
        let kind = match connect(&server.address, server.trusting()).await {
            Err(error) => TlsError::from_error(&error).map(TlsError::kind),
            Ok(client) => {
                let call = client.call::<serde_json::Value>("echo", [1]).await;
                let error = call.expect_err("it is refused");
                assert_ne!(error.kind(), ErrorKind::Timeout, "{error}");
                TlsError::from_error(&error).map(TlsError::kind)
            }
        };
        assert_eq!(kind, Some(TlsErrorKind::ClientCertificateRequired), "{url}");
    }
}

/// A certificate for another name, or of another authority, ends the attempt before anything is sent.
#[tokio::test]
async fn t5_the_web_checks_certificates_too() {
    for url in URLS {
        let server = Secured::serve_with(url, |tls, _, _| tls);
        let wrong = server.trusting().server_name("example.com").expect("a name");
        let error = connect(&server.address, wrong).await.expect_err("another name");
        let kind = TlsError::from_error(&error).map(TlsError::kind);
        assert_eq!(kind, Some(TlsErrorKind::WrongName), "{error}");
    }
}
