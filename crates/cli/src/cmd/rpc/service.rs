//! The daemon as a worker of a service behind a broker (N3).

#[cfg(feature = "nats")]
use std::sync::{Arc, Once};

use duet_rpc::transport::Address;
#[cfg(feature = "nats")]
use duet_rpc::{Error, ErrorKind};
use duet_rpc::{Profile, Server};

use crate::exit::Problem;

/// The settings of the workers of this process.
#[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "`among` refuses services"))]
pub(super) struct Services {
    pub(super) addresses: Vec<Address>,
    pub(super) methods: Vec<String>,
    pub(super) most: Option<usize>,
    /// The credential for the brokers.
    pub(super) token: Option<String>,
}

impl Services {
    /// Adds the services to the server. The first of them that serves begins the log.
    #[cfg(feature = "nats")]
    pub(super) fn add_to(
        self,
        mut server: Server,
        profile: Profile,
        begin_log: impl Fn() + Send + Sync + 'static,
    ) -> Server {
        let begin_log = Arc::new((Once::new(), begin_log));
        for address in self.addresses {
            let begin_log = Arc::clone(&begin_log);
            let (methods, most, token) = (self.methods.clone(), self.most, self.token.clone());
            server = server.source(move |hub| async move {
                let Address::Nats(place, service) = &address else { return Ok(()) };
                let options = crate::cmd::dial::options(token).await;
                let options =
                    options.map_err(|error| Error::new(ErrorKind::Connect).caused_by(error))?;
                let url = crate::cmd::dial::broker_url(place);
                let worker = duet_rpc_nats::Worker::connect_with(&url, options).await?;
                let mut worker = worker
                    .service(service, env!("CARGO_PKG_VERSION"))
                    .description("the methods of the duet-rpc daemon")
                    .profile(profile)
                    .methods(methods);
                if let Some(most) = most {
                    worker = worker.max_in_flight(most);
                }
                let worker = worker.begin().await?;
                super::listen::announce(std::slice::from_ref(&address));
                begin_log.0.call_once(&begin_log.1);
                tracing::info!("serving {address}");
                worker.serve(hub).await
            });
        }
        server
    }

    #[cfg(not(feature = "nats"))]
    pub(super) fn add_to(self, server: Server, _: Profile, _: impl Fn()) -> Server {
        server
    }
}

/// Refuses services, for commands that serve only connections.
pub(crate) fn refuse(addresses: &[Address]) -> Result<(), Problem> {
    match addresses.iter().find(|it| matches!(it, Address::Nats(..))) {
        Some(address) => Err(Problem::usage(format!(
            "cannot listen on {address}: only `duet-rpc rpc` is a worker of a service"
        ))),
        None => Ok(()),
    }
}

/// The services among the addresses to listen on.
pub(super) fn among(addresses: &[Address]) -> Result<Vec<Address>, Problem> {
    let services = addresses.iter().filter(|it| matches!(it, Address::Nats(..)));
    let services: Vec<_> = services.cloned().collect();
    #[cfg(not(feature = "nats"))]
    if let Some(address) = services.first() {
        let why = crate::cmd::dial::WITHOUT_NATS;
        return Err(Problem::usage(format!("cannot serve {address}: {why}")));
    }
    Ok(services)
}
