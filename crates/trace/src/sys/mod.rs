//! Seam to the operating system: everything that differs between Unix and Windows, behind the same names.
//!
//! | name | contents |
//! |---|---|
//! | [`ByteStream`], `read`, `write`, `wait_for_input`, `wait_for_room` | the two ends of a pump |
//! | `Wake`, `Watched` | the two ends of a pump with fault rules, which waits for several things |
//! | `create_folder`, `make_private`, `create_file`, `open_to_claim`, `state_folder` | files for one user |
//! | `SIGNALS`, `KILL` | the signals of `kill=` |

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;
