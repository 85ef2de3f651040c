//! TLS of the daemon (T5).

use duet_rpc::transport::{Address, ClientCertificates, TlsServer};

use crate::args::{ClientCertificateName, ListenArgs, ListenTlsArgs};
use crate::exit::Problem;

/// Reads the certificate and key, if the command line names them.
pub(super) fn settings(args: &ListenArgs) -> Result<Option<TlsServer>, Problem> {
    let ListenTlsArgs { tls_cert, tls_key, tls_client_ca, .. } = &args.tls;
    let (Some(certificate), Some(key)) = (tls_cert, tls_key) else { return Ok(None) };
    let cannot = |error| Problem::failure(format!("cannot serve TLS: {error}"));
    let tls = TlsServer::from_files(certificate, key).map_err(cannot)?;
    let tls = match tls_client_ca {
        None => tls,
        Some(file) => tls.client_ca(file, client_certificates(args)).map_err(cannot)?,
    };
    Ok(Some(tls))
}

fn client_certificates(args: &ListenArgs) -> ClientCertificates {
    match args.tls.tls_client_cert {
        Some(ClientCertificateName::Optional) => ClientCertificates::Optional,
        Some(ClientCertificateName::Required) | None => ClientCertificates::Required,
    }
}

/// Returns true if a client without a certificate is refused.
pub(super) fn requires_certificates(args: &ListenArgs) -> bool {
    args.tls.tls_client_ca.is_some() && client_certificates(args) == ClientCertificates::Required
}

/// The settings for this address; `None` for an address without TLS.
pub(super) fn needed<'a>(
    address: &Address,
    tls: Option<&'a TlsServer>,
) -> Result<Option<&'a TlsServer>, Problem> {
    match (address.is_secure(), tls) {
        (false, _) => Ok(None),
        (true, Some(tls)) => Ok(Some(tls)),
        (true, None) => Err(Problem::usage(format!(
            "{address} needs a certificate: name its files with --tls-cert and --tls-key"
        ))),
    }
}
