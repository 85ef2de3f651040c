//! Descriptors that are not pipes: files, devices, sockets, terminals, or missing (L3, L7, T4).

use std::fs::File;
use std::os::unix::net::UnixStream;

use super::prelude::*;
use crate::harness::channel::Channel::{Given, Pipe, Socket};

pub(super) const KINDS: &[Kind] = &[
    // The daemon gives the reason and exits with 1, without a byte on stdout.
    ("stdin-directory", |t| {
        t.start_on([Channel::reading("/")?, Pipe, Pipe])?.finish(Ending::code(1))?;
        let is_told = t.daemon().has_said("irectory");
        t.conclude(is_told, "it does not give the reason")
    }),
    ("stdin-null", |t| {
        t.start_on([Channel::reading("/dev/null")?, Pipe, Pipe])?.finish(complete())
    }),
    // A file with requests.
    ("stdin-file", |t| {
        let mut ledger = Ledger::for_profile(t.profile);
        let mut bytes = Vec::new();
        let count = t.random.below(200);
        for _ in 0..count {
            let text = ledger.random(&mut t.random, t.profile, t.is_testbed);
            bytes.extend(t.profile.framing().frame(text.as_bytes()));
        }
        let path = t.tell(format_args!("{count} messages in a file")).path("input");
        fs::write(&path, &bytes)?;
        t.may_leave.push("input");
        let daemon = t.start_on([Given(File::open(path)?.into()), Pipe, Pipe])?.daemon();
        daemon.link.ledger = ledger;
        if let Some([sent, _]) = &mut daemon.link.passed {
            *sent = bytes;
        }
        daemon.counts_from_last_byte = true;
        t.finish(complete())
    }),
    ("stdin-none", |t| t.shell(r#"exec "$@" <&-"#).start()?.finish(Ending::code(0).or(1))),
    // stdin that can be written but not read.
    ("stdin-unreadable", |t| {
        let (_reader, writer) = pipe(true)?;
        let is_null = t.random.once_in(2);
        let stdin = if is_null { Channel::writing("/dev/null")? } else { Given(writer) };
        t.start_on([stdin, Pipe, Pipe])?.finish(Ending::code(1))
    }),
    // A device that takes no bytes.
    ("stdout-full", |t| {
        t.start_on([Pipe, Channel::writing("/dev/full")?, Pipe])?.traffic();
        t.ask_many(1, "version").mark().finish(Ending::code(1))?;
        t.check_reason(false)
    }),
    ("stdout-file", |t| {
        let stdout = Given(File::create(t.path("output"))?.into());
        // The answers go to a file, so no step can wait for one.
        let count = t.start_on([Pipe, stdout, Pipe])?.random.below(60);
        t.unwaited(count).close_stdin();
        finish_file(t, complete())
    }),
    // A file with a size limit of a few blocks.
    ("stdout-limited", |t| {
        let stdout = Given(File::create(t.path("output"))?.into());
        let blocks = t.random.below(8);
        t.limit("-f", blocks).start_on([Pipe, stdout, Pipe])?;
        finish_file(t.ask_many(100, "listMethods").mark(), Ending::code(1).cut())
    }),
    ("stdout-none", |t| {
        let t = t.shell(r#"exec "$@" >&-"#).start()?.ask_many(1, "version");
        t.close_stdin().finish(Ending::code(1))
    }),
    ("stdout-unwritable", |t| {
        t.start_on([Pipe, Channel::reading("/dev/null")?, Pipe])?;
        t.ask_many(1, "version").finish(Ending::code(1))
    }),
    // The daemon keeps running if the log cannot be written.
    ("stderr-unusual", |t| {
        let which = t.random.below(4);
        let names = ["stderr is full", "stderr is not writable", "stderr is nothing", "no stderr"];
        t.tell(names[which]);
        let stderr = match which {
            0 => Channel::writing("/dev/full")?,
            1 => Channel::reading("/dev/null")?,
            2 => Channel::writing("/dev/null")?,
            _ => Pipe,
        };
        let t = if which == 3 { t.shell(r#"exec "$@" 2>&-"#) } else { t };
        t.start_on([Pipe, Pipe, stderr])?.traffic().settle().close_stdin().finish(complete())
    }),
    // One socket for both directions, as with Node, or one for each; our side shuts down its writing.
    ("socket-ends", |t| {
        let is_one = t.random.once_in(2);
        let on = if is_one { one_socket()? } else { [Socket, Socket, Pipe] };
        t.tell(if is_one { "one socket" } else { "two sockets" });
        if let Some(stdin) = &t.start_on(on)?.traffic().flush().daemon().link.input {
            rustix::net::shutdown(stdin, Shutdown::Write)?;
        }
        t.close_stdin().finish(complete())
    }),
    // Our side closes with answers unread, which breaks the connection.
    ("socket-broken", |t| {
        let is_one = t.random.once_in(2);
        let on = if is_one { one_socket()? } else { [Socket, Socket, Socket] };
        t.start_on(on)?.greet()?.leave_stdout(true).ask_many(20, "version").pause();
        t.tell("the sockets are closed with answers unread").daemon().close_both();
        t.mark().finish(Ending::code(0).or(1).cut())
    }),
    // A terminal whose other side closes: for an idle daemon that is the end of input.
    ("terminal-hangs-up", |t| {
        let (theirs, screen) = terminal()?;
        t.start_on(both_ways(&theirs, &screen)?)?;
        drop((theirs, screen));
        let is_idle = t.greet()?.messages(5).random.once_in(2);
        if is_idle {
            t.settle();
        }
        t.tell("the terminal hangs up").daemon().close_both();
        t.mark().finish(if is_idle { complete() } else { Ending::code(0).or(1).cut() })
    }),
];

/// Waits for the end of a daemon with a file as stdout, and checks the file.
fn finish_file(t: &mut Trial<'_>, ending: Ending) -> Lived {
    t.wait(PipedDaemon::has_ended);
    let output = fs::read(t.path("output"))?;
    t.may_leave.push("output");
    t.daemon().link.inbound.feed(&output);
    t.daemon().take_output();
    if let Some([_, received]) = &mut t.daemon().link.passed {
        *received = output;
    }
    t.finish(ending)
}

fn one_socket() -> io::Result<[Channel; 3]> {
    let (theirs, ours) = UnixStream::pair()?;
    both_ways(&theirs.into(), &ours.into())
}
