//! Connections to servers at an address, and to services behind a broker.

use std::io;

use duet_rpc::Profile;
use duet_rpc::transport::{Address, Connector, TlsClient, Transport};
#[cfg(feature = "nats")]
use duet_rpc_nats::{ConnectOptions, NatsPeer};
#[cfg(feature = "nats")]
use tokio::sync::OnceCell;

/// Connects to one address, any number of times.
pub(super) struct Dialer {
    address: Address,
    connector: Connector,
    token: Option<String>,
    /// The connection to the broker, which all services share.
    #[cfg(feature = "nats")]
    broker: OnceCell<NatsPeer>,
}

impl Dialer {
    pub(super) fn new(
        address: &Address,
        token: Option<String>,
        tls: TlsClient,
    ) -> io::Result<Self> {
        let mut connector = Connector::new(address)?.tls(tls);
        if let (Some(token), false) = (&token, matches!(address, Address::Nats(..))) {
            connector = connector.token(token);
        }
        Ok(Dialer {
            address: address.clone(),
            connector,
            token,
            #[cfg(feature = "nats")]
            broker: OnceCell::new(),
        })
    }

    /// Connects; see [`Connector::connect`].
    pub(super) async fn connect(&self, profile: &Profile) -> io::Result<Box<dyn Transport>> {
        match &self.address {
            Address::Nats(place, service) => self.connect_to_service(place, service, profile).await,
            _ => self.connector.connect(profile).await,
        }
    }

    /// Connects to a service. Requests carry the timeout of all calls as their deadline.
    #[cfg(feature = "nats")]
    async fn connect_to_service(
        &self,
        place: &duet_rpc::transport::Place,
        service: &str,
        profile: &Profile,
    ) -> io::Result<Box<dyn Transport>> {
        let url = broker_url(place);
        let connect = || async {
            let options = options(self.token.clone()).await?;
            NatsPeer::connect_with(&url, options).await.map_err(failure)
        };
        let broker = self.broker.get_or_try_init(connect).await?;
        let transport = broker.transport(service).await.map_err(failure)?;
        Ok(match profile.call_timeout {
            Some(timeout) => Box::new(transport.deadline(timeout)),
            None => Box::new(transport),
        })
    }

    #[cfg(not(feature = "nats"))]
    async fn connect_to_service(
        &self,
        _: &duet_rpc::transport::Place,
        _: &str,
        _: &Profile,
    ) -> io::Result<Box<dyn Transport>> {
        let _ = &self.token;
        Err(io::Error::new(io::ErrorKind::Unsupported, WITHOUT_NATS))
    }
}

/// The reason why a build without the feature `nats` refuses an address.
#[cfg(not(feature = "nats"))]
pub(super) const WITHOUT_NATS: &str = "this duet-rpc was built without NATS: build it with `cargo install --features nats`, or take a release";

/// The URL of a broker.
#[cfg(feature = "nats")]
pub(super) fn broker_url(place: &duet_rpc::transport::Place) -> String {
    format!("nats://{place}")
}

/// The options for a connection to a broker. Credentials and certificates come from the variables that the command `nats`
/// reads, too: so they stand on no command line, and are the same for each command.
#[cfg(feature = "nats")]
pub(super) async fn options(token: Option<String>) -> io::Result<ConnectOptions> {
    let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut options = ConnectOptions::new().name("duet-rpc");
    if let Some(token) = token {
        options = options.token(token);
    }
    if let (Some(user), Some(password)) = (text("NATS_USER"), text("NATS_PASSWORD")) {
        options = options.user_and_password(user, password);
    }
    if let Some(file) = text("NATS_CREDS") {
        let unusable = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot use the credentials in {file}: {error}"))
        };
        options = options.credentials_file(&file).await.map_err(unusable)?;
    }
    for variable in ["NATS_CA", "NATS_CERT", "NATS_KEY"] {
        if let Some(file) = text(variable) {
            check_pem(variable, &file)?;
        }
    }
    if let Some(authorities) = text("NATS_CA") {
        options = options.add_root_certificates(authorities.into()).require_tls(true);
    }
    if let (Some(certificate), Some(key)) = (text("NATS_CERT"), text("NATS_KEY")) {
        options = options.add_client_certificate(certificate.into(), key.into()).require_tls(true);
    }
    Ok(options)
}

/// Fails if a file of a variable is not there or not in PEM. async-nats would not name it.
#[cfg(feature = "nats")]
fn check_pem(variable: &str, file: &str) -> io::Result<()> {
    let unusable = |kind, why: &dyn std::fmt::Display| {
        io::Error::new(kind, format!("cannot use {variable}={file}: {why}"))
    };
    let bytes = std::fs::read(file).map_err(|error| unusable(error.kind(), &error))?;
    match bytes.windows(11).any(|it| it == b"-----BEGIN ") {
        true => Ok(()),
        false => Err(unusable(io::ErrorKind::InvalidData, &"it is not in PEM")),
    }
}

/// The cause of an error, which says more than its kind.
#[cfg(feature = "nats")]
fn failure(error: duet_rpc::Error) -> io::Error {
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    match cause.downcast_ref::<io::Error>() {
        Some(system) => io::Error::new(system.kind(), system.to_string()),
        None => io::Error::other(cause.to_string()),
    }
}
