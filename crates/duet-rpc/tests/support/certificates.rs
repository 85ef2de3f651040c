//! Certificates for tests, made on the spot.
#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// An authority that signs certificates.
pub(crate) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The files of a pair.
#[derive(Clone)]
pub(crate) struct PairFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// The time in which a certificate is valid.
#[derive(Clone, Copy)]
pub(crate) enum Validity {
    Now,
    /// Until 2020-01-02.
    Past,
    /// From 2999-01-02.
    Future,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([]).expect("no names");
        params.distinguished_name = subject(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// The certificate of the authority.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for a server with these names.
    pub(crate) fn server(&self, names: &[&str]) -> Pair {
        self.server_valid(names, Validity::Now)
    }

    pub(crate) fn server_valid(&self, names: &[&str], validity: Validity) -> Pair {
        self.sign("server", names, validity, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a client.
    pub(crate) fn client(&self, name: &str, names: &[&str]) -> Pair {
        self.sign(name, names, Validity::Now, ExtendedKeyUsagePurpose::ClientAuth)
    }

    pub(crate) fn client_valid(&self, name: &str, validity: Validity) -> Pair {
        self.sign(name, &[], validity, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        name: &str,
        names: &[&str],
        validity: Validity,
        usage: ExtendedKeyUsagePurpose,
    ) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name = subject(name);
        params.extended_key_usages = vec![usage];
        (params.not_before, params.not_after) = match validity {
            Validity::Now => (date_time_ymd(2020, 1, 1), date_time_ymd(2999, 1, 1)),
            Validity::Past => (date_time_ymd(2020, 1, 1), date_time_ymd(2020, 1, 2)),
            Validity::Future => (date_time_ymd(2999, 1, 2), date_time_ymd(2999, 1, 3)),
        };
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// A certificate that signs itself: of an authority, as `openssl req -x509` makes it, or of a server.
pub(crate) fn self_signed(names: &[&str], is_authority: bool) -> Pair {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.distinguished_name = subject("self");
    if is_authority {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    Pair { certificate: certificate.pem(), key: key.serialize_pem() }
}

fn subject(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, "Example");
    subject.push(DnType::CommonName, name);
    subject
}

impl Pair {
    pub(crate) fn write(&self, folder: &Folder, name: &str) -> PairFiles {
        let files = PairFiles {
            certificate: folder.path(&format!("{name}.pem")),
            key: folder.path(&format!("{name}.key")),
        };
        self.write_over(&files);
        files
    }

    /// Replaces both files, as a renewal does: each by a rename.
    pub(crate) fn write_over(&self, files: &PairFiles) {
        replace(&files.key, &self.key);
        replace(&files.certificate, &self.certificate);
    }
}

pub(crate) fn replace(path: &Path, contents: &str) {
    let new = path.with_extension("new");
    fs::write(&new, contents).expect("a file");
    fs::rename(&new, path).expect("a rename");
}

/// A folder of its own, removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("duet-rpc-tls-{}-{next}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, contents).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
