//! Sink: takes the messages that a session writes.

use std::convert::Infallible;

/// Takes messages, one after the other. What becomes of them is not the session's business.
pub trait Sink {
    /// Appends one message, whose JSON text is written by `message`. If that fails or panics,
    /// nothing is appended.
    fn send<E>(&mut self, message: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E>;

    /// Appends one message whose JSON text is there already. A large one need not be copied.
    fn send_text(&mut self, text: Vec<u8>) {
        let Ok(()) = self.send(|out| {
            out.extend_from_slice(&text);
            Ok::<_, Infallible>(())
        });
    }
}

/// Each message for itself, for tests.
impl Sink for Vec<Vec<u8>> {
    fn send<E>(&mut self, message: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let mut text = Vec::new();
        message(&mut text)?;
        self.push(text);
        Ok(())
    }
}
