//! Settings of a TLS client.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::{Inside, files, provider};

/// Trust and identity of a TLS client, for [`Connector::tls`](crate::transport::Connector::tls).
///
/// Without settings, a client trusts the authorities that the system trusts, expects the host of the address as the
/// name in the server's certificate, and sends no certificate of its own.
///
/// ```no_run
/// use duet_rpc::transport::{Connector, TlsClient};
///
/// # fn main() -> std::io::Result<()> {
/// let tls = TlsClient::new()
///     .ca_file("ca.pem")?
///     .client_certificate("client.pem", "client.key")?;
/// let connector = Connector::new("tls://127.0.0.1:4000")?.tls(tls);
/// # drop(connector);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct TlsClient {
    trust: Trust,
    identity: Option<Arc<ClientIdentity>>,
    server_name: Option<ServerName<'static>>,
    /// Made at the first connection, because reading the authorities of the system takes some milliseconds.
    config: Arc<OnceLock<ClientConfig>>,
}

/// The servers that a client trusts.
#[derive(Clone, Default)]
enum Trust {
    /// Servers that an authority of the system vouches for.
    #[default]
    System,
    Authorities(Arc<RootCertStore>),
    /// All servers: no certificate is checked.
    Anyone,
}

/// The certificate that the client sends if the server asks for one.
struct ClientIdentity {
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl TlsClient {
    /// The default settings.
    pub fn new() -> Self {
        TlsClient::default()
    }

    /// Trusts the authorities in this PEM file, instead of the authorities of the system.
    pub fn ca_file(self, file: impl AsRef<Path>) -> io::Result<Self> {
        let file = file.as_ref();
        let roots = files::authorities(files::certificates(file)?);
        Ok(self.trust(roots.map_err(|why| files::cannot_use(file, why))?))
    }

    /// Trusts the authorities in this PEM text, instead of the authorities of the system.
    pub fn ca_pem(self, pem: impl AsRef<[u8]>) -> io::Result<Self> {
        let roots = files::parse_certificates(pem.as_ref()).and_then(files::authorities);
        let cannot = |why| {
            let what = format!("cannot use the PEM text of an authority: {why}");
            io::Error::new(io::ErrorKind::InvalidData, what)
        };
        Ok(self.trust(roots.map_err(cannot)?))
    }

    /// Sends this certificate, with the chain of authorities above it, to a server that asks for one. Both files are
    /// PEM; the key has no password.
    pub fn client_certificate(
        mut self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> io::Result<Self> {
        let (path, key_path) = (certificate.as_ref(), key.as_ref());
        let certificates = files::certificates(path)?;
        let key = files::private_key(key_path)?;
        let identity = ClientIdentity { certificates, key };
        // A certificate and a key that do not match are an error here, and not at the first connection.
        let fits = rustls::sign::CertifiedKey::from_der(
            identity.certificates.clone(),
            identity.key.clone_key(),
            &provider(),
        );
        fits.map_err(|error| files::cannot_pair(path, key_path, &error))?;
        self.identity = Some(Arc::new(identity));
        Ok(self.changed())
    }

    /// Expects this name in the server's certificate, instead of the host of the address, and sends it to the server
    /// (SNI). Use it for a tunnel or an IP address.
    pub fn server_name(mut self, name: &str) -> io::Result<Self> {
        self.server_name = Some(parse_name(name)?);
        Ok(self)
    }

    /// Accepts any certificate: the connection is encrypted, but anyone between client and server can answer in place
    /// of the server, and read and change everything. Use it only in tests. Each connection logs a warning.
    #[must_use]
    pub fn danger_accept_any_certificate(mut self) -> Self {
        self.trust = Trust::Anyone;
        self.changed()
    }

    fn trust(mut self, roots: RootCertStore) -> Self {
        self.trust = Trust::Authorities(Arc::new(roots));
        self.changed()
    }

    fn changed(mut self) -> Self {
        self.config = Arc::default();
        self
    }

    pub(super) fn checks_certificates(&self) -> bool {
        !matches!(self.trust, Trust::Anyone)
    }

    /// The name to expect in the certificate of this host.
    pub(super) fn name_of(&self, host: &str) -> io::Result<ServerName<'static>> {
        match &self.server_name {
            Some(name) => Ok(name.clone()),
            None => parse_name(host),
        }
    }

    pub(super) fn config(&self, inside: Inside) -> io::Result<Arc<ClientConfig>> {
        let mut config = match self.config.get() {
            Some(config) => config.clone(),
            None => {
                let config = self.build()?;
                self.config.get_or_init(|| config).clone()
            }
        };
        config.alpn_protocols = inside.protocols();
        Ok(Arc::new(config))
    }

    fn build(&self) -> io::Result<ClientConfig> {
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let verifier: Arc<dyn ServerCertVerifier> = match &self.trust {
            Trust::System => check_against(Arc::new(roots_of_system()?))?,
            Trust::Authorities(roots) => check_against(Arc::clone(roots))?,
            Trust::Anyone => Arc::new(AcceptAny(provider())),
        };
        let config = config.dangerous().with_custom_certificate_verifier(verifier);
        match &self.identity {
            None => Ok(config.with_no_client_auth()),
            Some(identity) => config
                .with_client_auth_cert(identity.certificates.clone(), identity.key.clone_key())
                .map_err(io::Error::other),
        }
    }
}

fn check_against(roots: Arc<RootCertStore>) -> io::Result<Arc<WebPkiServerVerifier>> {
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider());
    verifier.build().map_err(io::Error::other)
}

fn roots_of_system() -> io::Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Skip old certificates that cannot be parsed: the others remain.
    roots.add_parsable_certificates(found.certs);
    match (roots.is_empty(), found.errors.first()) {
        (false, _) => Ok(roots),
        (true, why) => {
            let why = why.map(|error| format!(" ({error})")).unwrap_or_default();
            let what = format!(
                "this system has no certificates of authorities{why}: \
                 install them (often the package ca-certificates), or trust an authority by its own file"
            );
            Err(io::Error::new(io::ErrorKind::NotFound, what))
        }
    }
}

fn parse_name(name: &str) -> io::Result<ServerName<'static>> {
    ServerName::try_from(name.to_owned()).map_err(|_| {
        let what = format!("no certificate can have the name {name:?}: expected a host name");
        io::Error::new(io::ErrorKind::InvalidInput, what)
    })
}

/// Accepts every certificate, but still checks that the server has its key.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Debug for TlsClient {
    /// Does not show the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TlsClient");
        shown.field("checks_certificates", &self.checks_certificates());
        shown.field("has_certificate", &self.identity.is_some()).finish_non_exhaustive()
    }
}
