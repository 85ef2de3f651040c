//! The console.

use std::sync::OnceLock;

use winapi_util::{HandleRef, console};

/// The console interprets escape sequences (`ENABLE_VIRTUAL_TERMINAL_PROCESSING`).
const ESCAPES: u32 = 4;

/// The width of the console that stdout is.
pub(crate) fn columns() -> Option<usize> {
    let window = console::screen_buffer_info(HandleRef::stdout()).ok()?.window_rect();
    usize::try_from(window.right - window.left + 1).ok().filter(|width| *width > 0)
}

/// Lets the console interpret escape sequences. Returns `false` if it is too old.
pub(crate) fn shows_colors() -> bool {
    static ARE_SHOWN: OnceLock<bool> = OnceLock::new();
    *ARE_SHOWN.get_or_init(|| {
        [HandleRef::stdout(), HandleRef::stderr()].iter().all(|handle| {
            // A handle that is not a console has no mode.
            let Ok(mode) = console::mode(handle) else { return true };
            mode & ESCAPES != 0 || console::set_mode(handle, mode | ESCAPES).is_ok()
        })
    })
}
