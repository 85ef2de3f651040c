//! Users that may connect to a Unix socket (T3).

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use crate::log_limit::LogLimiter;
use crate::remote::{Identity, Remote};
use crate::sync::lock;
use crate::sys::files::own_user;

/// The users whose processes may connect; `None` means that the mode of the socket's file decides alone.
#[derive(Clone, Default)]
pub(super) struct AllowedUsers(Option<Arc<[u32]>>);

impl AllowedUsers {
    pub(super) fn new(uids: impl IntoIterator<Item = u32>) -> Self {
        AllowedUsers(Some(uids.into_iter().collect()))
    }

    /// Returns `true` if a user other than the one of this process may connect.
    pub(super) fn includes_others(&self) -> bool {
        let own = own_user();
        self.0.as_ref().is_some_and(|uids| uids.iter().any(|uid| Some(*uid) != own))
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

/// Maximum number of users with a log limit of their own.
const MOST_LIMITS: usize = 64;

/// Log limits of refused users: one record a second for each, so that no user can hide another.
#[derive(Default)]
pub(in crate::net) struct RefusedUsers(Mutex<HashMap<Option<u32>, Arc<LogLimiter>>>);

impl RefusedUsers {
    /// Logs that this remote is refused.
    pub(in crate::net) fn log(&self, remote: &Remote, error: &io::Error) {
        let uid = remote.identity().and_then(Identity::uid);
        let what = uid.map_or_else(
            || "connections of users refused".to_owned(),
            |uid| format!("connections of user {uid} refused"),
        );
        let log = || tracing::warn!("connection refused: {error}");
        self.limit_of(uid).log(&what, log);
    }

    fn limit_of(&self, uid: Option<u32>) -> Arc<LogLimiter> {
        let mut limits = lock(&self.0);
        let has_own = limits.len() < MOST_LIMITS || limits.contains_key(&uid);
        let limit = limits.entry(uid.filter(|_| has_own));
        Arc::clone(limit.or_insert_with(|| Arc::new(LogLimiter::new(1))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{MOST_LIMITS, RefusedUsers};

    #[test]
    fn f7_each_refused_user_has_its_own_log_limit() {
        let users = RefusedUsers::default();
        let is_same = |one, two| Arc::ptr_eq(&users.limit_of(one), &users.limit_of(two));
        assert!(is_same(Some(1), Some(1)));
        assert!(!is_same(Some(1), Some(2)));
        assert!(!is_same(Some(1), None));
        for uid in 0..2 * MOST_LIMITS as u32 {
            users.limit_of(Some(uid));
        }
        assert!(is_same(Some(1), Some(1)) && !is_same(Some(1), Some(2)));
        assert!(is_same(Some(1000), Some(1001)), "the number of limits grows without end");
    }
}
