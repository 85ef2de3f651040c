//! PEM files: certificates and keys, and a stamp that tells when a file has changed.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Maximum size of a file. The bundle of all public authorities is a quarter of this size.
const MAX_BYTES: u64 = 1024 * 1024;

/// The certificates of a file, in their order: first that of the server or client, then the authorities above.
pub(super) fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let pem = read(path)?;
    parse_certificates(&pem).map_err(|why| cannot_use(path, why))
}

pub(super) fn parse_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match certificates.map_err(|error| broken(&error))? {
        none if none.is_empty() => Err("it has no certificate: PEM is expected".to_owned()),
        certificates => Ok(certificates),
    }
}

/// The private key of a file: PKCS #8, PKCS #1 or SEC 1.
pub(super) fn private_key(path: &Path) -> io::Result<PrivateKeyDer<'static>> {
    let pem = read(path)?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| {
        let is_encrypted = pem.windows(9).any(|word| word == b"ENCRYPTED");
        cannot_use(
            path,
            match error {
                pem::Error::NoItemsFound if is_encrypted => {
                    "its private key is encrypted: a key without a password is expected".to_owned()
                }
                pem::Error::NoItemsFound => "it has no private key: PEM is expected".to_owned(),
                error => broken(&error),
            },
        )
    })
}

/// Authorities to trust.
pub(super) fn authorities(
    certificates: Vec<CertificateDer<'static>>,
) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(|_| "one of its certificates is malformed".to_owned())?;
    }
    Ok(roots)
}

/// Does not show the parser's error, because it quotes bytes of the file, which may belong to a key.
fn broken(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "it is cut off: a line `-----END` is missing",
        pem::Error::Base64Decode(_) => "it is not PEM: a line is not base64",
        _ => "it is not PEM",
    }
    .to_owned()
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| wrap(path, &error))?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| wrap(path, &error))?;
    match bytes.len() as u64 > MAX_BYTES {
        true => Err(cannot_use(path, format!("it has more than {MAX_BYTES} bytes"))),
        false => Ok(bytes),
    }
}

/// The path is quoted, because it may contain a line end.
fn wrap(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot read {path:?}: {error}"))
}

/// The error of a certificate and a key that cannot be used together.
pub(super) fn cannot_pair(certificate: &Path, key: &Path, error: &rustls::Error) -> io::Error {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            let why = format!("it is not the key of the certificate in {certificate:?}");
            cannot_use(key, why)
        }
        rustls::Error::InvalidCertificate(_) => {
            cannot_use(certificate, "its certificate is malformed")
        }
        _ => cannot_use(key, "a key of this kind is not supported"),
    }
}

pub(super) fn cannot_use(path: &Path, why: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("cannot use {path:?}: {why}"))
}

/// Files that are watched for changes by their metadata, without a thread and without a descriptor.
#[derive(Debug)]
pub(super) struct WatchedFiles {
    paths: Vec<PathBuf>,
    stamps: Vec<Option<Stamp>>,
}

/// Metadata that differs after a change: of the contents, or of the file at this path.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    inode: u64,
}

impl WatchedFiles {
    /// Must be called before the files are read, so that no change is missed.
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        let stamps = paths.iter().map(|path| Stamp::new(path)).collect();
        WatchedFiles { paths, stamps }
    }

    /// Returns `true` if a file has changed since the last call.
    pub(super) fn have_changed(&mut self) -> bool {
        let stamps: Vec<_> = self.paths.iter().map(|path| Stamp::new(path)).collect();
        let have_changed = stamps != self.stamps;
        self.stamps = stamps;
        have_changed
    }

    /// Fails if one of them is a pipe or another file that can be read only once.
    pub(super) fn can_be_read_again(&self) -> io::Result<()> {
        let is_other = |path: &&PathBuf| fs::metadata(path).is_ok_and(|data| !data.is_file());
        match self.paths.iter().find(is_other) {
            Some(path) => {
                Err(cannot_use(path, "it is not a regular file: it was read at the start"))
            }
            None => Ok(()),
        }
    }
}

impl Stamp {
    /// `None` for a missing file, and for anything but a regular file.
    fn new(path: &Path) -> Option<Self> {
        let data = fs::metadata(path).ok().filter(Metadata::is_file)?;
        Some(Stamp {
            modified: data.modified().ok(),
            len: data.len(),
            inode: crate::sys::files::inode(&data),
        })
    }
}
