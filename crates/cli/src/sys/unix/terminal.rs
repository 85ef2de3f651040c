//! The terminal.

/// The width of the terminal that stdout is.
pub(crate) fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Returns `true`: terminals show colours.
pub(crate) fn shows_colors() -> bool {
    true
}
