//! Certificate files that cannot be used.

use std::io;

use duet_rpc::transport::{ClientCertificates, TlsClient, TlsServer};

use crate::certificates::{Authority, Folder};

#[test]
fn t5_each_fault_of_a_file_has_its_sentence() {
    let (folder, authority) = (Folder::new(), Authority::new("Test CA"));
    let good = authority.server(&["localhost"]).write(&folder, "good");
    let other = authority.server(&["localhost"]).write(&folder, "other");
    let empty = folder.write("empty.pem", "");
    let text = std::fs::read_to_string(&good.certificate).expect("a file");
    let cut = folder.write("cut.pem", &text[..text.len() / 2]);
    let noise =
        folder.write("noise.pem", "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n");
    let wrong =
        folder.write("wrong.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let locked = folder.write(
        "locked.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    let large = folder.write("large.pem", &"\n".repeat(2 << 20));
    let missing = folder.path("missing.pem");
    for (certificate, key, sentence) in [
        (&missing, &good.key, "cannot read"),
        (&empty, &good.key, "it has no certificate: PEM is expected"),
        (&cut, &good.key, "it is cut off"),
        (&noise, &good.key, "a line is not base64"),
        (&wrong, &good.key, "its certificate is malformed"),
        (&large, &good.key, "it has more than 1048576 bytes"),
        (&good.key, &good.key, "it has no certificate"),
        (&good.certificate, &missing, "cannot read"),
        (&good.certificate, &good.certificate, "it has no private key"),
        (&good.certificate, &locked, "its private key is encrypted"),
        (&good.certificate, &other.key, "it is not the key of the certificate in"),
    ] {
        let of_server = TlsServer::from_files(certificate, key).err();
        let of_client = TlsClient::new().client_certificate(certificate, key).err();
        for error in [of_server, of_client] {
            let error = error.unwrap_or_else(|| panic!("{certificate:?} {key:?}")).to_string();
            assert!(error.contains(sentence), "{error}");
            // Nothing of a key is shown.
            assert!(!error.contains("AAAA"), "{error}");
        }
    }
    let server = TlsServer::from_files(&good.certificate, &good.key).expect("a pair");
    for file in [&empty, &wrong, &missing] {
        let error = server.clone().client_ca(file, ClientCertificates::Optional).err();
        assert!(error.is_some(), "{file:?}");
        assert!(TlsClient::new().ca_file(file).is_err(), "{file:?}");
    }
    let error = TlsClient::new().ca_pem("nothing").expect_err("no PEM");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

/// The formats of OpenSSL: PKCS #8, PKCS #1 and SEC 1.
#[test]
fn t5_every_format_of_a_key_is_read() {
    let Ok(output) = std::process::Command::new("openssl").arg("version").output() else {
        use std::io::Write;
        let _ = writeln!(io::stderr(), "SKIPPED: keys of OpenSSL: openssl is not installed");
        return;
    };
    assert!(output.status.success());
    let folder = Folder::new();
    let run = |words: &str| {
        let mut command = std::process::Command::new("openssl");
        let output = command.args(words.split(' ')).current_dir(folder.path("")).output();
        let output = output.expect("openssl");
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa8.key");
    run("rsa -in rsa8.key -traditional -out rsa1.key");
    run("ecparam -name prime256v1 -genkey -noout -out sec1.key");
    run("pkcs8 -topk8 -nocrypt -in sec1.key -out sec8.key");
    run("genpkey -algorithm ed25519 -out ed25519.key");
    for (certificate, keys) in [
        ("rsa.pem", &["rsa8.key", "rsa1.key"][..]),
        ("ec.pem", &["sec1.key", "sec8.key"]),
        ("ed.pem", &["ed25519.key"]),
    ] {
        run(&format!("req -x509 -new -key {} -subj /CN=localhost -out {certificate}", keys[0]));
        for key in keys {
            let loaded = TlsServer::from_files(folder.path(certificate), folder.path(key));
            assert!(loaded.is_ok(), "{key}: {loaded:?}");
        }
    }
}
