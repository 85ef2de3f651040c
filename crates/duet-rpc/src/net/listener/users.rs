//! Users that may connect to a Unix socket (T3).

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use crate::remote::{Identity, Remote};

/// The users whose processes may connect; `None` means that the mode of the socket's file decides alone.
#[derive(Clone, Default)]
pub(super) struct AllowedUsers(Option<Arc<[u32]>>);

impl AllowedUsers {
    pub(super) fn new(uids: impl IntoIterator<Item = u32>) -> Self {
        AllowedUsers(Some(uids.into_iter().collect()))
    }

    /// Returns `true` if a user other than the one of this process may connect.
    #[cfg(unix)]
    pub(super) fn includes_others(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        self.0.as_ref().is_some_and(|uids| uids.iter().any(|uid| *uid != own))
    }

    /// A remote whose user is not known is refused.
    pub(super) fn check(&self, remote: &Remote) -> io::Result<()> {
        let uid = remote.identity().and_then(Identity::uid);
        match &self.0 {
            Some(uids) if !uid.is_some_and(|uid| uids.contains(&uid)) => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, ForeignUser(uid)))
            }
            _ => Ok(()),
        }
    }
}

/// A process of this user may not connect.
#[derive(Debug)]
struct ForeignUser(Option<u32>);

impl fmt::Display for ForeignUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(uid) => write!(f, "user {uid} is not allowed"),
            None => f.write_str("the user is not known"),
        }
    }
}

impl Error for ForeignUser {}
