//! Messages for a server at an address that cannot be reached, or refuses the connection: the cause, and the next step.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duet_rpc::Disconnect;
use duet_rpc::transport::{Address, Refused, TlsError, TlsErrorKind};

use super::report::plain;

/// The address of a server, and the file with the token that it gets.
pub(in crate::cmd) struct ServerAddress {
    pub(super) address: Address,
    token_file: Option<PathBuf>,
    /// The option that names this file.
    token_option: &'static str,
}

impl ServerAddress {
    pub(in crate::cmd) fn new(address: &Address, token_file: Option<&Path>) -> Self {
        ServerAddress {
            address: address.clone(),
            token_file: token_file.map(Path::to_owned),
            token_option: "--token-file",
        }
    }

    /// The same address, for a command with another option for the token.
    pub(in crate::cmd) fn token_option(self, token_option: &'static str) -> Self {
        ServerAddress { token_option, ..self }
    }

    /// Message for a server that cannot be reached.
    pub(in crate::cmd) fn not_reached(&self, error: &io::Error) -> String {
        let advice = match (error.kind(), &self.address) {
            _ if find_refusal(error).is_some() => &*self.advice_of_refusal(error),
            (io::ErrorKind::NotFound, Address::Unix(_)) => "; does the server run?",
            (io::ErrorKind::ConnectionRefused, _) => {
                "; does the server run, and is the address right?"
            }
            (io::ErrorKind::PermissionDenied, Address::Unix(_)) => "; is the server yours?",
            _ => advice_of_tls(error),
        };
        self.unreachable(error, advice)
    }

    pub(in crate::cmd) fn not_reached_within(&self, timeout: Duration) -> String {
        format!("cannot reach {} within {} s", self.address, timeout.as_secs_f64())
    }

    /// Message for a server that ended the connection because it refuses it; `None` if it does not. The server `is_new`
    /// if no message has come from it.
    pub(super) fn refused(&self, end: &Disconnect, is_new: bool) -> Option<String> {
        self.refused_connection(end.failure()?, is_new)
    }

    /// The same for the error that ended the connection.
    pub(in crate::cmd) fn refused_connection(
        &self,
        failure: &(dyn Error + 'static),
        is_new: bool,
    ) -> Option<String> {
        match TlsError::from_error(failure) {
            Some(error) => Some(self.unreachable(error, advice_of_tls(failure))),
            None => self.refused_exchange(failure, is_new),
        }
    }

    /// Message for an HTTP status that refuses the connection, and not only this request; `None` for any other error.
    pub(super) fn refused_exchange(
        &self,
        error: &(dyn Error + 'static),
        is_new: bool,
    ) -> Option<String> {
        let refuses_all = |refused: &&Refused| match refused.status() {
            // A TLS port answers a plain request with it. A server that is known to be the right one means the request.
            400 => is_new,
            status => matches!(status, 300..=399 | 401 | 403 | 404 | 405 | 503),
        };
        let refused = find_refusal(error).filter(refuses_all)?;
        Some(self.unreachable(refused, &self.advice_of_refusal(error)))
    }

    fn unreachable(&self, error: &dyn Error, advice: &str) -> String {
        format!("cannot reach {}: {}{advice}", self.address, plain(&error.to_string()))
    }

    fn advice_of_refusal(&self, error: &(dyn Error + 'static)) -> String {
        match (find_refusal(error).map(Refused::status), &self.token_file) {
            (Some(401), Some(file)) => {
                format!("; it does not accept the token in {}", plain(&file.to_string_lossy()))
            }
            (Some(401), None) => format!("; `{}` shows it a token", self.token_option),
            _ => advice_of_refusal(error).to_owned(),
        }
    }
}

/// Advice for a failure of TLS: the option that does what its sentence says.
pub(super) fn advice_of_tls(error: &(dyn Error + 'static)) -> &'static str {
    match TlsError::from_error(error).map(TlsError::kind) {
        Some(TlsErrorKind::UnknownAuthority) => "; `--cacert FILE` does that",
        Some(TlsErrorKind::WrongName) => "; `--servername NAME` expects one of them",
        Some(TlsErrorKind::ClientCertificateRequired) => "; `--cert FILE --key FILE` sends it",
        Some(TlsErrorKind::CertificateRefused) => "; `--cert FILE --key FILE` sends another",
        _ => "",
    }
}

/// Advice for a refusal with an HTTP status.
pub(super) fn advice_of_refusal(error: &(dyn Error + 'static)) -> &'static str {
    match find_refusal(error).map(Refused::status) {
        Some(400) => "; if the port speaks TLS, begin the address with https or wss",
        Some(401) => "; `--token-file` shows it a token",
        Some(403) => "; does the server accept the host name in the address?",
        Some(404) => "; is the path of the address right?",
        Some(413) => "; the server does not accept messages of this size",
        Some(status @ 500..) if Refused::new(status).is_temporary() => "; try again later",
        _ => "",
    }
}

fn find_refusal<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Refused> {
    let mut error = Some(error);
    while let Some(this) = error {
        let refused = match this.downcast_ref::<io::Error>() {
            Some(error) => Refused::from_error(error),
            None => this.downcast_ref::<Refused>(),
        };
        if refused.is_some() {
            return refused;
        }
        error = this.source();
    }
    None
}
