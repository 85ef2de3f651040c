//! UTF-8 check of a text that arrives in pieces.
//!
//! A text message that is not UTF-8 must close the connection (RFC 6455, section 8.1), and the
//! first wrong byte decides. So each piece is checked on arrival, not the message as a whole.

/// State of the check between two pieces.
#[derive(Default)]
pub(super) struct Utf8Check {
    /// An incomplete character at the end of the last piece, and its length.
    held: [u8; 3],
    length: u8,
}

impl Utf8Check {
    /// Checks the next piece. False if the text can no longer become UTF-8.
    pub(super) fn take(&mut self, piece: &[u8]) -> bool {
        let mut rest = piece;
        while self.length > 0 {
            let Some((byte, behind)) = rest.split_first() else { return true };
            rest = behind;
            let held = usize::from(self.length);
            let [first, second, third] = self.held;
            let mut character = [first, second, third, 0];
            character[held] = *byte;
            match std::str::from_utf8(&character[..=held]) {
                Ok(_) => self.length = 0,
                Err(error) if error.error_len().is_none() => {
                    self.held[held] = *byte;
                    self.length += 1;
                }
                Err(_) => return false,
            }
        }
        match simdutf8::compat::from_utf8(rest) {
            Ok(_) => true,
            Err(error) if error.error_len().is_none() => {
                let held = &rest[error.valid_up_to()..];
                self.held[..held.len()].copy_from_slice(held);
                self.length = held.len() as u8;
                true
            }
            Err(_) => false,
        }
    }

    /// True if the text may end here: no character is incomplete.
    pub(super) fn is_whole(&self) -> bool {
        self.length == 0
    }
}
