//! Console events that end a call or a check. No process that the command started may outlive it.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close,
    ctrl_logoff, ctrl_shutdown,
};

/// The exit code of a program that Ctrl-C has ended (`STATUS_CONTROL_C_EXIT`).
const CONTROL_C_EXIT: u32 = 0xC000_013A;

/// The event that ended a command.
#[derive(Clone, Copy, Debug)]
// Same name: the interface of `unix/interrupt.rs`.
pub(crate) struct Interruption;

/// Receivers for the events that end a command.
// Same name: the interface of `unix/interrupt.rs`.
pub(crate) struct Interruptions {
    interrupt: CtrlC,
    stop: CtrlBreak,
    close: CtrlClose,
    log_off: CtrlLogoff,
    shut_down: CtrlShutdown,
}

impl Interruptions {
    pub(crate) fn receive() -> io::Result<Self> {
        Ok(Interruptions {
            interrupt: ctrl_c()?,
            stop: ctrl_break()?,
            close: ctrl_close()?,
            log_off: ctrl_logoff()?,
            shut_down: ctrl_shutdown()?,
        })
    }

    /// Runs `work`. Returns its output, or the event that arrived first.
    pub(crate) async fn or<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Interruption> {
        let mut work = pin!(work);
        poll_fn(|cx| {
            if self.poll(cx) {
                return Poll::Ready(Err(Interruption));
            }
            work.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        [
            self.interrupt.poll_recv(cx),
            self.stop.poll_recv(cx),
            self.close.poll_recv(cx),
            self.log_off.poll_recv(cx),
            self.shut_down.poll_recv(cx),
        ]
        .contains(&Poll::Ready(Some(())))
    }
}

/// Ends this process the way the event would have.
pub(crate) fn die_of(_: Interruption) {
    std::process::exit(CONTROL_C_EXIT.cast_signed());
}

/// Console events during startup. They end the process, which leaves no file behind: a named pipe has none.
// Same name: the interface of `unix/early.rs`.
pub(crate) struct EarlySignals;

impl EarlySignals {
    pub(crate) fn capture() -> io::Result<Self> {
        Ok(EarlySignals)
    }

    pub(crate) fn release(&self) {}

    pub(crate) fn pass_on(&self) {}
}
