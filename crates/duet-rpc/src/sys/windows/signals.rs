//! Console events, which ask the process to end as signals do on Unix (L4).

use windows_sys::Win32::System::Console::{
    CTRL_BREAK_EVENT, CTRL_C_EVENT, CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT,
};

/// A console event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Same name: the interface of `unix/signals.rs`.
pub(crate) enum Signal {
    /// The user pressed Ctrl-C.
    Interrupt,
    /// Ctrl-Break, which programs send to others.
    Break,
    /// The console window was closed.
    Close,
    /// The user logs off.
    LogOff,
    /// The system shuts down.
    ShutDown,
}

impl Signal {
    pub(super) fn new(event: u32) -> Self {
        match event {
            CTRL_C_EVENT => Signal::Interrupt,
            CTRL_BREAK_EVENT => Signal::Break,
            CTRL_CLOSE_EVENT => Signal::Close,
            CTRL_LOGOFF_EVENT => Signal::LogOff,
            _ => Signal::ShutDown,
        }
    }

    /// The usual name of the event.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Signal::Interrupt => "Ctrl-C",
            Signal::Break => "Ctrl-Break",
            Signal::Close => "the end of the console",
            Signal::LogOff => "a logoff",
            Signal::ShutDown => "a shutdown of the system",
        }
    }

    /// The number that the C runtime has for it; `SIGTERM` for an event that it does not know.
    pub(super) fn number(self) -> i32 {
        match self {
            Signal::Interrupt => 2,
            Signal::Break => 21,
            Signal::Close | Signal::LogOff | Signal::ShutDown => 15,
        }
    }

    /// Returns `false`: no event asks to read the configuration again.
    pub(crate) fn means_reload(self) -> bool {
        false
    }

    /// Returns `true` if the system ends the process as soon as the handler of the event returns.
    pub(super) fn ends_with_its_handler(self) -> bool {
        !matches!(self, Signal::Interrupt | Signal::Break)
    }
}

/// Returns `false`: the system shows no such state.
pub fn is_ignored(_signal: i32) -> bool {
    false
}
