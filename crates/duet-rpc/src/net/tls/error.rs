//! Failures of TLS, each with an explanation and the next step.

use std::error::Error;
use std::fmt;
use std::io;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{AlertDescription, CertificateError, InvalidMessage};

/// The reason why a TLS connection failed. It is the cause of an [`io::Error`]; see
/// [`from_error`](TlsError::from_error).
#[derive(Debug)]
pub struct TlsError {
    kind: TlsErrorKind,
    text: String,
    source: Option<rustls::Error>,
}

/// The kind of a failure of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsErrorKind {
    /// No trusted authority has signed the certificate of the remote.
    UnknownAuthority,
    /// The server's certificate is for other names.
    WrongName,
    /// The certificate of the remote has expired.
    Expired,
    /// The certificate of the remote is not valid yet.
    NotYetValid,
    /// The certificate of the remote cannot be used for another reason.
    BadCertificate,
    /// The server requires a client certificate, and got none.
    ClientCertificateRequired,
    /// The remote does not accept our certificate.
    CertificateRefused,
    /// The remote does not speak TLS.
    NotTls,
    /// The two sides have no common version or cipher.
    NoCommonVersion,
    /// The server is too busy for another connection.
    Busy,
    /// Any other failure of the handshake.
    Handshake,
}

/// The side that reports the failure.
#[derive(Clone, Copy)]
pub(super) enum Side<'a> {
    /// A client of the server with this name.
    Client(&'a str),
    Server,
}

impl TlsError {
    /// Finds the failure of TLS in an error or its causes.
    ///
    /// ```
    /// use duet_rpc::transport::{TlsError, TlsErrorKind};
    ///
    /// fn needs_certificate(error: &std::io::Error) -> bool {
    ///     let tls = TlsError::from_error(error);
    ///     tls.is_some_and(|tls| tls.kind() == TlsErrorKind::ClientCertificateRequired)
    /// }
    /// # assert!(!needs_certificate(&std::io::ErrorKind::TimedOut.into()));
    /// ```
    pub fn from_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a TlsError> {
        let mut error = Some(error);
        while let Some(this) = error {
            let found = match this.downcast_ref::<io::Error>() {
                Some(error) => error.get_ref().and_then(|cause| cause.downcast_ref()),
                None => this.downcast_ref::<TlsError>(),
            };
            if found.is_some() {
                return found;
            }
            error = this.source();
        }
        None
    }

    /// The kind of the failure.
    pub fn kind(&self) -> TlsErrorKind {
        self.kind
    }

    /// Returns `true` if the server refuses every connection with the certificate of this client, or with none.
    #[cfg(feature = "http")]
    pub(in crate::net) fn refuses_client(&self) -> bool {
        let kinds = [TlsErrorKind::ClientCertificateRequired, TlsErrorKind::CertificateRefused];
        kinds.contains(&self.kind)
    }

    fn new(kind: TlsErrorKind, text: impl Into<String>) -> Self {
        TlsError { kind, text: text.into(), source: None }
    }

    pub(super) fn not_tls(text: impl Into<String>) -> io::Error {
        TlsError::new(TlsErrorKind::NotTls, text).into()
    }
}

/// Explains a failure of the handshake.
pub(super) fn explain(error: io::Error, side: Side<'_>) -> io::Error {
    let explained = match (cause_of(&error), side) {
        (Some(cause), side) => {
            TlsError { source: Some(cause.clone()), ..explain_cause(cause, side) }
        }
        (None, Side::Client(_)) if is_end(&error) => TlsError::new(
            TlsErrorKind::NotTls,
            "the server closed the connection during the TLS handshake: does it speak TLS at this port?",
        ),
        (None, _) => return error,
    };
    explained.into()
}

/// Explains an alert that a client receives after the handshake: a server reports only then that it refuses the
/// certificate.
pub(super) fn explain_late_alert(error: io::Error) -> io::Error {
    match cause_of(&error) {
        Some(rustls::Error::AlertReceived(_)) => explain(error, Side::Client("")),
        _ => error,
    }
}

fn cause_of(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|cause| cause.downcast_ref())
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

fn explain_cause(cause: &rustls::Error, side: Side<'_>) -> TlsError {
    use TlsErrorKind::{ClientCertificateRequired, Handshake, NoCommonVersion};
    match (cause, side) {
        (rustls::Error::InvalidCertificate(error), side) => explain_certificate(error, side),
        (rustls::Error::AlertReceived(alert), side) => explain_alert(*alert, side),
        (rustls::Error::NoCertificatesPresented, _) => TlsError::new(
            ClientCertificateRequired,
            "the client sent no certificate, and this server requires one",
        ),
        (rustls::Error::PeerIncompatible(_), _) => no_common_version(side),
        (rustls::Error::NoApplicationProtocol, _) => {
            TlsError::new(NoCommonVersion, "the client offers other protocols than http/1.1 (ALPN)")
        }
        (rustls::Error::InvalidMessage(InvalidMessage::UnknownProtocolVersion), _) => {
            no_common_version(side)
        }
        (rustls::Error::InvalidMessage(_), Side::Client(_)) => TlsError::new(
            TlsErrorKind::NotTls,
            "the server does not speak TLS: use tcp://, ws:// or http://, or the port for TLS",
        ),
        (rustls::Error::InvalidMessage(_), Side::Server) => {
            TlsError::new(TlsErrorKind::NotTls, "the client does not speak TLS")
        }
        (cause, _) => TlsError::new(Handshake, format!("the TLS handshake failed: {cause}")),
    }
}

fn no_common_version(side: Side<'_>) -> TlsError {
    let (remote, this) = match side {
        Side::Client(_) => ("server", "program"),
        Side::Server => ("client", "server"),
    };
    let text = format!(
        "the {remote} has no TLS version and cipher that this {this} has: it needs TLS 1.2 or later"
    );
    TlsError::new(TlsErrorKind::NoCommonVersion, text)
}

fn explain_certificate(error: &CertificateError, side: Side<'_>) -> TlsError {
    use CertificateError as C;
    let (whose, renews) = match side {
        Side::Client(host) => (format!("the certificate of {host}"), "the server"),
        Side::Server => ("the certificate of the client".to_owned(), "the client"),
    };
    let (kind, text) = match error {
        C::UnknownIssuer => (
            TlsErrorKind::UnknownAuthority,
            format!(
                "{whose} is signed by an authority that is not trusted here: \
                 trust the certificate of that authority"
            ),
        ),
        C::BadSignature => (
            TlsErrorKind::UnknownAuthority,
            format!(
                "{whose} is not signed with the key of the certificate that is trusted here under that name: \
                 if that was renewed, trust the new one"
            ),
        ),
        C::NotValidForNameContext { expected, presented } => {
            let kind = match presented.is_empty() {
                true => TlsErrorKind::BadCertificate,
                false => TlsErrorKind::WrongName,
            };
            (kind, wrong_name(&expected.to_str(), presented))
        }
        C::ExpiredContext { time, not_after } => (
            TlsErrorKind::Expired,
            format!(
                "{whose} expired on {}, and now it is {}: {renews} needs a new one",
                Date(*not_after),
                Date(*time)
            ),
        ),
        C::NotValidYetContext { time, not_before } => (
            TlsErrorKind::NotYetValid,
            format!(
                "{whose} is valid from {} on, and now it is {}: is the clock of this machine right?",
                Date(*not_before),
                Date(*time)
            ),
        ),
        C::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => (
            TlsErrorKind::BadCertificate,
            format!(
                "{whose} is that of an authority (CA:TRUE): {renews} needs one of its own, \
                 signed by that authority or made with CA:FALSE"
            ),
        ),
        C::InvalidPurposeContext { .. } | C::InvalidPurpose => (
            TlsErrorKind::BadCertificate,
            format!("{whose} is for another purpose: its extended key usage does not fit"),
        ),
        other => (TlsErrorKind::BadCertificate, format!("{whose} cannot be used: {other}")),
    };
    TlsError::new(kind, text)
}

/// The names come as `DnsName("localhost")` or `IpAddress(127.0.0.1)`.
fn wrong_name(expected: &str, presented: &[String]) -> String {
    const SHOWN: usize = 8;
    let bare = |name: &String| {
        let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
        inner.unwrap_or(name).trim_matches('"').escape_debug().to_string()
    };
    let names: Vec<_> = presented.iter().take(SHOWN).map(bare).collect();
    match presented.len() {
        0 => format!(
            "the certificate is not for {expected}, and has no other name: \
             the server needs one with a subject alternative name"
        ),
        count => {
            let more = if count > SHOWN { " and more" } else { "" };
            format!(
                "the certificate is not for {expected}, but for {}{more}: \
                 connect by one of these names",
                names.join(", ")
            )
        }
    }
}

/// The alert of a server, for its client; or of a client, for the log of its server.
fn explain_alert(alert: AlertDescription, side: Side<'_>) -> TlsError {
    use AlertDescription as A;
    let (remote, ours) = match side {
        Side::Client(_) => ("server", "the client certificate"),
        Side::Server => ("client", "the certificate of this server"),
    };
    let (kind, text) = match (alert, side) {
        (A::CertificateRequired, Side::Client(_)) => (
            TlsErrorKind::ClientCertificateRequired,
            "the server requires a client certificate: send one".to_owned(),
        ),
        (
            A::UnknownCA
            | A::BadCertificate
            | A::UnsupportedCertificate
            | A::CertificateRevoked
            | A::CertificateExpired
            | A::CertificateUnknown
            | A::DecryptError,
            _,
        )
        | (A::AccessDenied, Side::Client(_)) => (
            TlsErrorKind::CertificateRefused,
            format!("the {remote} does not accept {ours} ({})", reason(alert)),
        ),
        (A::ProtocolVersion | A::InsufficientSecurity, side) => return no_common_version(side),
        (A::InternalError, Side::Client(_)) => (
            TlsErrorKind::Busy,
            "the server refused the connection: it is too busy, or it failed; try again later"
                .to_owned(),
        ),
        (A::UnrecognisedName, Side::Client(_)) => (
            TlsErrorKind::WrongName,
            "the server does not serve this name: is the host of the address right?".to_owned(),
        ),
        (alert, _) => (
            TlsErrorKind::Handshake,
            format!("the {remote} refused the TLS handshake (alert {alert:?})"),
        ),
    };
    TlsError::new(kind, text)
}

fn reason(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnknownCA => "it is of an unknown authority".to_owned(),
        AlertDescription::CertificateExpired => "it has expired, or is not valid yet".to_owned(),
        AlertDescription::CertificateRevoked => "it is revoked".to_owned(),
        AlertDescription::UnsupportedCertificate => "it is for another purpose".to_owned(),
        AlertDescription::DecryptError => {
            "its signature does not fit a certificate that is trusted there".to_owned()
        }
        alert => format!("alert {alert:?}"),
    }
}

/// Returns what is wrong with the dates of our own certificate now, if anything is.
pub(super) fn wrong_dates(certificate: &CertificateDer<'_>) -> Option<String> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let anchor = webpki::anchor_from_trusted_cert(certificate).ok()?;
    let now = UnixTime::now();
    // The dates are checked first. Other errors do not matter: clients may know more than this certificate.
    let usage = webpki::KeyUsage::server_auth();
    match parsed.verify_for_usage(&[], &[anchor], &[], now, usage, None, None).err()? {
        webpki::Error::CertExpired { not_after, .. } => {
            Some(format!("its certificate expired on {}", Date(not_after)))
        }
        webpki::Error::CertNotValidYet { not_before, .. } => {
            Some(format!("its certificate is valid only from {} on", Date(not_before)))
        }
        _ => None,
    }
}

/// A time as `2026-01-31 12:00 UTC`.
struct Date(UnixTime);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, seconds) = (self.0.as_secs() / 86_400, self.0.as_secs() % 86_400);
        // Eras of 400 years, each of which begins on the first of March, so that a leap day is the last of a year.
        let days = days + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let year = era * 400 + year + next;
        let (hour, minute) = (seconds / 3_600, seconds % 3_600 / 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for TlsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::UnixTime;

    use super::Date;

    #[test]
    fn t5_dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_609_459_199, "2020-12-31 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            assert_eq!(Date(time).to_string(), text);
        }
    }
}
