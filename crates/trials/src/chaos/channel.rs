//! What a daemon is started on: its standard descriptors, and the shell that sets its limits.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Command;

/// What a standard descriptor of the daemon is.
pub(super) enum Channel {
    /// A pipe whose other end is ours.
    Pipe,
    /// A socket, as Node gives it to its children.
    Socket,
    /// This, and we have no other end.
    Given(OwnedFd),
    /// A descriptor, with our end of it.
    Both(OwnedFd, OwnedFd),
}

impl Channel {
    /// A file of this name.
    pub(super) fn file(
        options: &std::fs::OpenOptions,
        path: impl AsRef<std::path::Path>,
    ) -> io::Result<Self> {
        Ok(Channel::Given(options.open(path)?.into()))
    }

    /// The daemon's end, and ours.
    pub(super) fn open(self, is_input: bool) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
        let (theirs, ours) = match self {
            Channel::Pipe => {
                let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
                if is_input { (reader, writer) } else { (writer, reader) }
            }
            Channel::Socket => {
                let (theirs, ours) = std::os::unix::net::UnixStream::pair()?;
                (theirs.into(), ours.into())
            }
            Channel::Given(theirs) => return Ok((theirs, None)),
            Channel::Both(theirs, ours) => (theirs, ours),
        };
        rustix::io::ioctl_fionbio(&ours, true)?;
        Ok((theirs, Some(ours)))
    }
}

/// A shell that does this, and in which `"$@"` is the command.
pub(super) fn in_shell(script: impl AsRef<OsStr>, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script).arg("sh");
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    shell
}
