//! Typed errors of the application, read from the error that a remote returned.

use super::{Error, RemoteError};

/// An error type that can be read from the error of a remote.
///
/// [`#[derive(RpcError)]`](crate::RpcError) implements it. Implement it by hand for errors of a protocol that you
/// did not define:
///
/// ```
/// use duet_rpc::RemoteError;
/// use duet_rpc::error::FromRemote;
///
/// struct ContentModified;
///
/// impl FromRemote for ContentModified {
///     fn from_remote(remote: &RemoteError) -> Option<Self> {
///         (remote.code == -32801).then_some(ContentModified)
///     }
/// }
/// ```
pub trait FromRemote: Sized {
    /// Reads the error; `None` if it is not of this type.
    fn from_remote(remote: &RemoteError) -> Option<Self>;
}

impl Error {
    /// Reads the error that the remote returned as a type of the application; `None` if it is another error.
    ///
    /// ```
    /// use duet_rpc::{Error, ErrorKind, RemoteError};
    /// use duet_rpc::error::FromRemote;
    ///
    /// struct Busy;
    ///
    /// impl FromRemote for Busy {
    ///     fn from_remote(remote: &RemoteError) -> Option<Self> {
    ///         (remote.code == 17).then_some(Busy)
    ///     }
    /// }
    ///
    /// // No remote answered here.
    /// assert!(Error::new(ErrorKind::Timeout).as_remote::<Busy>().is_none());
    /// ```
    pub fn as_remote<E: FromRemote>(&self) -> Option<E> {
        self.remote().and_then(E::from_remote)
    }
}
