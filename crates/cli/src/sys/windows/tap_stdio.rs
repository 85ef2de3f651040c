//! Our stdin, stdout and stderr, as a tap forwards them.
//!
//! A tap owns duplicates of stdin and stdout, and gives up the originals, so that closing a duplicate closes the stream.

use std::fs::File;
use std::io;
use std::os::windows::io::{AsHandle, OwnedHandle};
use std::sync::Mutex;

use duet_rpc::command_support::take_standard_handles;

use super::files;

/// Our end of a standard stream.
// Same name: the interface of `unix/tap_stdio.rs`.
pub(crate) type TapStream = File;

/// The duplicates of stdin and stdout, until their pumps take them.
static TAKEN: Mutex<Option<[Option<File>; 2]>> = Mutex::new(None);

pub(crate) fn stdin() -> io::Result<TapStream> {
    take(0)
}

pub(crate) fn stdout() -> io::Result<TapStream> {
    take(1)
}

pub(crate) fn stderr() -> io::Result<TapStream> {
    files::stderr()
}

fn take(place: usize) -> io::Result<File> {
    let mut taken = TAKEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let streams = match &mut *taken {
        Some(streams) => streams,
        None => taken.insert(give_up_originals()?),
    };
    streams[place].take().ok_or_else(|| io::Error::other("the stream has a pump already"))
}

fn give_up_originals() -> io::Result<[Option<File>; 2]> {
    let file = |handle: OwnedHandle| Some(File::from(handle));
    let stdin = io::stdin().as_handle().try_clone_to_owned()?;
    let stdout = io::stdout().as_handle().try_clone_to_owned()?;
    take_standard_handles()?;
    Ok([file(stdin), file(stdout)])
}

/// Closes our stdin, so that the client's next write fails.
pub(crate) fn close_stdin(stdin: TapStream) {
    drop(stdin);
}

/// Closes our stdout, so that the client sees its end.
pub(crate) fn close_stdout(stdout: TapStream) {
    drop(stdout);
}

/// Nothing to enlarge: the size of a pipe is fixed, so the tap waits for the client.
pub(crate) fn enlarge_outputs() {}
