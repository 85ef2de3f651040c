//! A certificate for servers on this machine, in files.

use super::certificates::Authority;
use super::support::folder::Folder;

/// A certificate with its key, and the authority that signed it. The files are removed with this value.
pub(crate) struct Certified {
    pub(crate) folder: Folder,
    /// Path of the authority's certificate.
    pub(crate) authority: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Certified {
    /// A certificate of a new authority.
    pub(crate) fn new() -> Self {
        let (folder, authority) = (Folder::new(), Authority::new("Test CA"));
        let pair = authority.server(&["localhost", "127.0.0.1"]);
        let [authority, certificate, key] = [
            ("ca.pem", authority.pem()),
            ("server.pem", &pair.certificate),
            ("server.key", &pair.key),
        ]
        .map(|(name, contents)| folder.write(name, contents));
        Certified { folder, authority, certificate, key }
    }

    /// The options of a daemon that uses it.
    pub(crate) fn options(&self) -> [&str; 4] {
        ["--tls-cert", &self.certificate, "--tls-key", &self.key]
    }
}
