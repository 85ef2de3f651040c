//! Sink: receives the messages that a session writes.

use std::convert::Infallible;

/// Receives messages one after the other.
pub trait Sink {
    /// Appends one message. `message` writes its JSON text. If that fails or panics, nothing is
    /// appended.
    fn send<E>(&mut self, message: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E>;

    /// Appends one message whose JSON text is written already. A large text need not be copied.
    fn send_text(&mut self, text: Vec<u8>) {
        let Ok(()) = self.send(|out| {
            out.extend_from_slice(&text);
            Ok::<_, Infallible>(())
        });
    }
}

/// Keeps each message by itself, for tests.
impl Sink for Vec<Vec<u8>> {
    fn send<E>(&mut self, message: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let mut text = Vec::new();
        message(&mut text)?;
        self.push(text);
        Ok(())
    }
}
