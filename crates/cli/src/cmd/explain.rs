//! `explain`: describes a stream of bytes, one line per message.
//!
//! It shows the method, the id and the shape of each message, but no params and no results, so its output is
//! safe for a bug report.

use std::io::{self, Read, Write};

use duet_rpc::proto::Profile;
use duet_rpc::proto::frame::{Decoder, Event, FramingChoice};
use duet_rpc::proto::message::{Id, Incoming, Params, Reply, Settled};
use duet_rpc::proto::policy::BatchRule;

use crate::console;
use crate::exit::Exit;

/// Explains stdin on stdout.
pub(crate) fn run(framing: FramingChoice) -> Exit {
    let explained = console::stdin().map_err(Stopped::Reading).and_then(|input| {
        let output = console::stdout().map_err(Stopped::Writing)?;
        explain(framing, input.lock(), output.lock())
    });
    match explained {
        Ok(()) => Exit::Success,
        Err(Stopped::Writing(error)) => console::cannot_write(&error),
        Err(Stopped::Reading(error)) => {
            console::say(format_args!("cannot read stdin: {error}"));
            Exit::Failed
        }
    }
}

/// Failed side of the copy.
enum Stopped {
    Reading(io::Error),
    Writing(io::Error),
}

/// Reads the input to its end, and writes a line for each event.
fn explain(
    framing: FramingChoice,
    mut input: impl Read,
    mut output: impl Write,
) -> Result<(), Stopped> {
    let profile = Profile::editor().with(|it| it.batch = BatchRule::Allow);
    let mut decoder = Decoder::new(framing, &profile.limits);
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let count = match input.read(&mut chunk) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Stopped::Reading(error)),
        };
        if count == 0 {
            decoder.finish();
        }
        let mut rest = &chunk[..count];
        loop {
            let taken = decoder.feed(rest);
            rest = &rest[taken..];
            while let Some(event) = decoder.next_event() {
                writeln!(output, "{}", line(&event, &profile)).map_err(Stopped::Writing)?;
            }
            if rest.is_empty() {
                break;
            }
        }
        if count == 0 {
            return output.flush().map_err(Stopped::Writing);
        }
    }
}

fn line(event: &Event<'_>, profile: &Profile) -> String {
    match event {
        Event::Fault(fault) => {
            format!("fault: {fault}; the answer is {}", Reply::to_fault(fault).error)
        }
        Event::Frame(text) => {
            let what = describe(&Incoming::classify(text, profile.batch, &profile.limits));
            format!("frame of {} bytes: {what}", text.as_str().len())
        }
    }
}

fn describe(incoming: &Incoming<'_>) -> String {
    match incoming {
        Incoming::Request(request) => {
            let (method, id) = (method(&request.method), id(&request.id.to_id()));
            format!("request {method}, id {id}, {}", shape(&request.params))
        }
        Incoming::Notification(it) => {
            format!("notification {}, {}", method(&it.method), shape(&it.params))
        }
        Incoming::Response(response) => match response.settled {
            Settled::Result(_) => format!("response with a result, id {}", id(&response.id)),
            Settled::Error(_) => format!("response with an error, id {}", id(&response.id)),
        },
        Incoming::Batch(entries) => {
            let entries: Vec<_> = entries.clone().map(|entry| describe(&entry)).collect();
            format!("batch of {}: {}", entries.len(), entries.join("; "))
        }
        Incoming::Invalid(reply) => {
            format!("invalid; the answer, id {}, is {}", id(&reply.id), reply.error)
        }
        Incoming::InvalidResponse(response) => format!("dropped: {}", response.why),
    }
}

/// Cuts and escapes the remote's text, so that it cannot control a terminal.
fn method(name: &str) -> String {
    format!("{:?}", name.chars().take(128).collect::<String>())
}

fn id(id: &Id) -> String {
    id.to_string().chars().take(64).collect()
}

fn shape(params: &Params<'_>) -> &'static str {
    match params {
        Params::Absent => "no params",
        Params::Null => "null params",
        Params::Array(_) => "params by position",
        Params::Object(_) => "params by name",
    }
}
