//! The same for daemons that listen: who cannot be let in, and connections that break.

use std::io;
use std::time::Duration;

use rustix::process::Signal;

use super::{NO_STRACE, failing};
use crate::chaos::client::Client;
use crate::chaos::daemon::Daemon;
use crate::chaos::ending::Ending;
use crate::chaos::frames::Framing;
use crate::chaos::trial::Trial;

/// Starts one that listens, under `strace`.
fn listen(trial: &mut Trial<'_>, fault: &str) -> io::Result<Option<(Daemon, String)>> {
    let mut command = trial.command();
    command.args(["--listen", "tcp://127.0.0.1:0"]);
    let command = failing(trial, &command, None, fault);
    trial.may_say.push("listening on ");
    let mut daemon = trial.start(command)?;
    let is_up = daemon.pump(trial.hang(), |daemon| daemon.text().contains('\n'));
    trial.check(is_up, "it does not say where it listens");
    let said = daemon.text();
    let url = said.lines().next().and_then(|line| line.strip_prefix("listening on "));
    Ok(url.map(|url| (daemon, url.to_owned())))
}

/// Whether somebody is served at last, within so many attempts.
fn is_served(trial: &mut Trial<'_>, daemon: &mut Daemon, url: &str) -> bool {
    (0..20).any(|_| {
        daemon.pump(Duration::from_millis(1), |_| false);
        let short = Duration::from_secs(3).mul_f64(trial.world.patience);
        let client = Client::connect(url, Framing::of(trial.profile), short);
        client.is_ok_and(|mut client| client.is_served())
    })
}

/// Who knocks cannot be let in, some of the time.
pub(super) fn accept_fails(trial: &mut Trial<'_>) -> io::Result<()> {
    if !trial.world.can_inject {
        return trial.skip(NO_STRACE);
    }
    const ERRORS: [&str; 8] =
        ["EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "ECONNABORTED", "EPROTO", "EPERM", "EINTR"];
    let error = *trial.random.pick(&ERRORS);
    let fault = format!(
        "accept4:error={error}:when={}+{}",
        1 + trial.random.below(3),
        2 + trial.random.below(3)
    );
    let Some((mut daemon, url)) = listen(trial, &fault)? else { return Ok(()) };
    for _ in 0..4 {
        let is_served = is_served(trial, &mut daemon, &url);
        trial.check(is_served, "nobody is let in any more");
    }
    trial.end_by(&mut daemon, Signal::TERM);
    trial.finish(&mut daemon, &Ending::code(0));
    Ok(())
}

/// Connections break in the middle of a call; others are served.
pub(super) fn clients_fail(trial: &mut Trial<'_>) -> io::Result<()> {
    if !trial.world.can_inject {
        return trial.skip(NO_STRACE);
    }
    let error = *trial.random.pick(&[
        "ECONNRESET",
        "ETIMEDOUT",
        "EHOSTUNREACH",
        "EPIPE",
        "ENOBUFS",
        "EINTR",
    ]);
    let calls = *trial.random.pick(&["recvfrom", "sendto", "sendto,recvfrom"]);
    let first = 4 + trial.random.below(4);
    let last = first + trial.random.below(8);
    let fault = format!("{calls}:error={error}:when={first}..{last}");
    let Some((mut daemon, url)) = listen(trial, &fault)? else { return Ok(()) };
    for _ in 0..4 {
        let is_served = is_served(trial, &mut daemon, &url);
        trial.check(is_served, "nobody is served any more");
    }
    trial.end_by(&mut daemon, Signal::TERM);
    // The thread that receives signals is woken by such a call too.
    while !daemon.pump(Duration::from_millis(50), |daemon| daemon.ended.is_some()) {
        if daemon.trigger.elapsed() > trial.hang() {
            break;
        }
        daemon.signal(Signal::TERM);
    }
    trial.finish(&mut daemon, &Ending::code(0));
    Ok(())
}
