//! Settings of a TLS server. Certificate and key are read again when their files change.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};

use super::error::wrong_dates;
use super::files::{self, WatchedFiles};
use super::{Inside, provider};
use crate::sync::lock;

/// Minimum time between two inspections of the files.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Certificate and key of a server, for [`Listener::tls`](crate::transport::Listener::tls).
///
/// The files are read again when they change: a new connection inspects them, at most once a second.
/// [`reload`](TlsServer::reload) reads them immediately. Open connections keep their certificate. If the new files
/// cannot be used, or the new certificate is not valid now, the server logs the error, and keeps the certificate in use.
///
/// Clones share the certificate.
///
/// ```no_run
/// use duet_rpc::transport::{ClientCertificates, Listener, TlsServer};
///
/// # fn main() -> std::io::Result<()> {
/// let tls = TlsServer::from_files("server.pem", "server.key")?
///     .client_ca("clients.pem", ClientCertificates::Required)?;
/// let listener = Listener::tls(tls).bind("tls://127.0.0.1:4000")?;
/// # drop(listener);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TlsServer(Arc<Settings>);

/// The certificates that a server asks of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// A client without a certificate has no identity. A certificate of another authority is refused.
    Optional,
    /// A client without a certificate is refused.
    Required,
}

struct Settings {
    files: ServerFiles,
    state: Mutex<CertificateInUse>,
}

#[derive(Clone)]
struct ServerFiles {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<(PathBuf, ClientCertificates)>,
}

struct CertificateInUse {
    config: ServerConfig,
    watched: WatchedFiles,
    looked_at: Instant,
}

impl TlsServer {
    /// Reads these PEM files: the certificate with the chain of authorities above it, and its private key (PKCS #8,
    /// PKCS #1 or SEC 1, without a password).
    pub fn from_files(certificate: impl AsRef<Path>, key: impl AsRef<Path>) -> io::Result<Self> {
        let (certificate, key) = (certificate.as_ref().to_owned(), key.as_ref().to_owned());
        Self::load(ServerFiles { certificate, key, client_ca: None })
    }

    /// Asks clients for a certificate that one of the authorities in this PEM file has signed. The certificate
    /// becomes the [identity](crate::Identity::Certificate) of the client.
    pub fn client_ca(
        self,
        file: impl AsRef<Path>,
        certificates: ClientCertificates,
    ) -> io::Result<Self> {
        let client_ca = Some((file.as_ref().to_owned(), certificates));
        Self::load(ServerFiles { client_ca, ..self.0.files.clone() })
    }

    /// Reads the files again. On an error the certificate in use stays. Both outcomes are logged.
    pub fn reload(&self) -> io::Result<()> {
        self.reload_into(&mut lock(&self.0.state))
    }

    /// Returns `true` if one is a clone of the other.
    pub(crate) fn is_same(&self, other: &TlsServer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn load(files: ServerFiles) -> io::Result<Self> {
        let watched = files.watch();
        let (config, wrong_dates) = files.load()?;
        if let Some(why) = wrong_dates {
            tracing::warn!(
                "clients will refuse the TLS certificate in {:?}: {why}",
                files.certificate
            );
        }
        let state = Mutex::new(CertificateInUse { config, watched, looked_at: Instant::now() });
        Ok(TlsServer(Arc::new(Settings { files, state })))
    }

    /// The configuration for a new connection, after an inspection of the files.
    pub(super) fn config(&self, inside: Inside) -> Arc<ServerConfig> {
        let mut state = lock(&self.0.state);
        if state.looked_at.elapsed() >= BETWEEN_LOOKS {
            state.looked_at = Instant::now();
            if state.watched.have_changed() {
                // The error is logged, and clients still get the certificate in use.
                let _ = self.reload_into(&mut state);
            }
        }
        let mut config = state.config.clone();
        config.alpn_protocols = inside.protocols();
        Arc::new(config)
    }

    fn reload_into(&self, state: &mut CertificateInUse) -> io::Result<()> {
        // Inspect the files before reading them, so that the next inspection notices a change during the read.
        state.watched.have_changed();
        let loaded = state.watched.can_be_read_again().and_then(|()| self.0.files.load());
        let in_force = loaded.and_then(|(config, wrong_dates)| match wrong_dates {
            // No client would accept it.
            Some(why) => Err(files::cannot_use(&self.0.files.certificate, why)),
            None => Ok(config),
        });
        match in_force {
            Ok(config) => {
                state.config = config;
                tracing::info!("TLS certificate read again");
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, "TLS certificate not replaced: the one in use stays");
                Err(error)
            }
        }
    }
}

impl ServerFiles {
    fn watch(&self) -> WatchedFiles {
        let client_ca = self.client_ca.iter().map(|(path, _)| path);
        let paths = [&self.certificate, &self.key].into_iter().chain(client_ca);
        WatchedFiles::new(paths.cloned().collect())
    }

    /// The configuration, and what is wrong with the dates of the certificate.
    fn load(&self) -> io::Result<(ServerConfig, Option<String>)> {
        let certificates = files::certificates(&self.certificate)?;
        let wrong_dates = certificates.first().and_then(wrong_dates);
        let key = files::private_key(&self.key)?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let config = match &self.client_ca {
            None => config.with_no_client_auth(),
            Some((path, certificates)) => {
                let roots = files::authorities(files::certificates(path)?)
                    .map_err(|why| files::cannot_use(path, why))?;
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
                let verifier = match certificates {
                    ClientCertificates::Optional => verifier.allow_unauthenticated(),
                    ClientCertificates::Required => verifier,
                };
                let verifier = verifier.build().map_err(|error| files::cannot_use(path, error))?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let config = config.with_single_cert(certificates, key);
        let mut config =
            config.map_err(|error| files::cannot_pair(&self.certificate, &self.key, &error))?;
        if self.client_ca.is_some() {
            // A resumed session has the old certificate without a new check, even if that has expired meanwhile.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok((config, wrong_dates))
    }
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TlsServer");
        shown.field("certificate", &self.0.files.certificate).finish_non_exhaustive()
    }
}
