//! Many clients and one server: the queues and tasks around [`Routes`].
//!
//! ```text
//!   task of a client ─ message ─▶ Routes ─▶ queue of the server ─▶ task of the server ─▶ server
//!   client ◀─ task ◀─ queue of the client ◀─ Routes ◀─ message ─ task of the server
//! ```
//!
//! | full | effect |
//! |---|---|
//! | the queue of the server | no client is read, so each has to wait |
//! | the queue of a client | the server is not read; after `SLOW` the client is closed, and the others go on |
//!
//! | file | contents |
//! |---|---|
//! | `queues` | the state that the tasks have in common |
//! | `client_task` | the task of one client |
//! | `server_task` | the task of the server: start, restart, idle time |
//!
//! A full queue takes the rest of one read, so it holds at most `FULL` bytes, one read and one message.

mod client_task;
mod queues;
mod server_task;

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use duet_rpc::proto::message::{Code, ErrorObject, Id};
use duet_rpc::transport::{ExitReport, TransportKind};
use duet_rpc::{Limits, Remote};

use self::client_task::{ClientTask, SharedMember};
pub(super) use self::queues::Closing;
use self::queues::{Port, SharedState};
use super::awaited::Awaited;
use super::closing::{LAST_FLUSH, close_client, receive_last};
use super::direct::ClientPipe;
use super::routes::{Routes, Takes, error_answer, lost};
use super::servers::Servers;
use super::{StopSignal, describe_end, lock};

/// A pipe gets more messages while it has less than this to send.
const PIPE_ROOM: usize = 64 * 1024;

/// The end of a shared server.
#[derive(Debug)]
pub(super) enum ServerEnd {
    /// It was wanted.
    Wanted,
    CannotStart(io::Error),
    Ended(ExitReport),
}

impl ServerEnd {
    /// The reason for the log; `None` if the end was wanted.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            ServerEnd::Wanted => None,
            ServerEnd::CannotStart(error) => Some(format!("cannot start the server: {error}")),
            ServerEnd::Ended(report) => Some(describe_end(report)),
        }
    }
}

/// A server that clients share.
pub(super) struct SharedServer {
    state: Mutex<SharedState>,
    servers: Arc<Servers>,
    idle: Option<Duration>,
    /// The number of restarts in a row; `None` if a server that ends is not started again.
    restarts: Option<u32>,
}

impl SharedServer {
    pub(super) fn new(
        servers: Arc<Servers>,
        limits: Limits,
        idle: Option<Duration>,
        restarts: Option<u32>,
    ) -> Arc<Self> {
        let state = SharedState { routes: Routes::new(limits), ..SharedState::default() };
        Arc::new(SharedServer { state: Mutex::new(state), servers, idle, restarts })
    }

    fn state(&self) -> MutexGuard<'_, SharedState> {
        lock(&self.state)
    }

    /// Serves a client until it leaves.
    pub(super) async fn serve(
        self: Arc<Self>,
        mut client: ClientPipe,
        remote: Remote,
        stop: &mut StopSignal,
    ) -> Closing {
        let takes = match client.kind() {
            TransportKind::Exchange => Takes::Answers,
            TransportKind::ExchangeStream => Takes::Notifications,
            _ => Takes::Everything,
        };
        let member = self.join(takes, remote);
        let mut task = ClientTask::new(&self, member.id, takes);
        let closing = poll_fn(|cx| task.poll(&mut client, stop, cx)).await;
        let has_spoken = task.has_spoken();
        drop(member);
        let mut last = Vec::new();
        if closing == Closing::ServerEnded {
            // A client whose server ends while it starts has often not got round to its first request.
            let time = if has_spoken { Duration::ZERO } else { LAST_FLUSH };
            let mut asked = Awaited::default();
            receive_last(&mut client, &mut asked, time).await;
            last = asked.errors(&lost());
        }
        if let Some(reason) = closing.reason().filter(|_| takes == Takes::Everything) {
            tracing::warn!(reason, "connection of a client closed");
            let error = ErrorObject::application(Code::SERVER_BUSY, reason, None);
            last.push(error_answer(&Id::NULL, &error));
        }
        let _ = close_client(&mut client, &last).await;
        closing
    }

    fn join(self: &Arc<Self>, takes: Takes, remote: Remote) -> SharedMember {
        let state = &mut *self.state();
        state.last_client += 1;
        let id = state.last_client;
        let same = |port: &&Port| takes != Takes::Everything && port.remote.is_same_client(&remote);
        let group = state.ports.values().find(same).map_or(id, |port| port.group);
        state.routes.join(id, takes, group);
        state.empty_since = None;
        state.ports.insert(id, Port::new(remote, group, takes));
        // A server may speak before its clients.
        state.to_server.wake();
        SharedMember { shared: Arc::clone(self), id }
    }
}
