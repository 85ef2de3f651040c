//! The signals of a tap: passed on to its server, or the reason to end.

use std::io;
use std::os::unix::net::UnixStream;
use std::process::exit;
use std::thread;

use duet_rpc::is_signal_ignored;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::child::SignalSender;
use super::guard;
use crate::sys::Ended;

/// The signals that are passed on, each with a pipe that gets a byte when it arrives. A signal that was
/// ignored at the start stays ignored, here and in the server.
pub(crate) struct TapSignals(Vec<(i32, UnixStream)>);

impl TapSignals {
    pub(crate) fn receive() -> io::Result<Self> {
        let mut received = Vec::new();
        for signal in guard::PASSED_ON.into_iter().filter(|&signal| !is_signal_ignored(signal)) {
            let (arrived, tell) = UnixStream::pair()?;
            signal_hook::low_level::pipe::register(signal, tell)?;
            received.push((signal, arrived));
        }
        Ok(TapSignals(received))
    }

    /// Waits for the first signal.
    pub(crate) fn first(&self) -> i32 {
        loop {
            let sockets = self.0.iter().map(|(_, arrived)| arrived);
            let mut fds: Vec<_> = sockets.map(|it| PollFd::new(it, PollFlags::IN)).collect();
            let _ = poll(&mut fds, None);
            let arrived = fds.iter().zip(&self.0).find(|(fd, _)| !fd.revents().is_empty());
            if let Some((_, (signal, _))) = arrived {
                return *signal;
            }
        }
    }

    /// Passes signals on to the server, on a thread of its own. Calls `before` with each signal before the server can react
    /// to it, and `after` once the server got it.
    pub(crate) fn pass_on(
        self,
        server: SignalSender,
        before: impl Fn(i32) + Send + 'static,
        after: impl Fn() + Send + 'static,
    ) {
        let pass_on = move || {
            loop {
                let sockets = self.0.iter().map(|(_, arrived)| arrived);
                let mut fds: Vec<_> = sockets.map(|it| PollFd::new(it, PollFlags::IN)).collect();
                let _ = poll(&mut fds, None);
                for (fd, (signal, arrived)) in fds.iter().zip(&self.0) {
                    let mut byte = [0];
                    if !fd.revents().is_empty() && rustix::io::read(arrived, &mut byte).is_ok() {
                        before(*signal);
                        server.send(*signal);
                        after();
                    }
                }
            }
        };
        // Without a thread, signals keep their handlers and are not passed on.
        let _ = thread::Builder::new().name("signals".to_owned()).spawn(pass_on);
    }
}

/// Ends this process as the server ended.
pub(crate) fn end_like(ended: Ended) -> ! {
    if let Some(signal) = ended.signal {
        // The server has dumped its core already, if it should.
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        // Returns only if that fails.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
        // It does not know all signals. We handle none of the others.
        let _ = signal_hook::low_level::raise(signal);
        exit(128 + signal);
    }
    exit(ended.code.unwrap_or(1))
}

/// Ends this process at a signal: with exit code 0 if the signal asks for that.
pub(crate) fn end_by_signal(signal: i32) -> ! {
    if matches!(signal, SIGHUP | SIGINT | SIGTERM) {
        exit(0);
    }
    // Returns only if that fails.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    exit(128 + signal);
}
