//! Where a session's messages go.

/// Takes messages, one after the other. What becomes of them is not the session's business.
pub trait Outlet {
    /// Appends one message, whose JSON text is written by `message`. If that fails or panics,
    /// nothing is appended.
    fn send<E>(&mut self, message: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E>;
}

/// Each message for itself, for tests.
impl Outlet for Vec<Vec<u8>> {
    fn send<E>(&mut self, message: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let mut text = Vec::new();
        message(&mut text)?;
        self.push(text);
        Ok(())
    }
}
