//! `explain`: describes a stream of bytes, one line per message.
//!
//! It shows the place, the method, the id and the shape of each message, the defects of an invalid one, and the code and
//! message of an error, but no params, no results and no stray bytes, so its output is safe for a bug report.
//! `--show-params` shows these too.

mod defects;
mod place;

use std::io::{self, Read, Write};

use duet_rpc::proto::Profile;
use duet_rpc::proto::fault::FaultKind;
use duet_rpc::proto::frame::{Decoder, Event};
use duet_rpc::proto::message::{Id, Incoming, Params, Reply, Settled};
use duet_rpc::proto::policy::BatchRule;
use duet_rpc::proto::text::Text;

use self::place::Recent;
use crate::args::ExplainArgs;
use crate::exit::Exit;
use crate::{console, json};

pub(super) use defects::defects;

/// Explains stdin on stdout.
pub(crate) fn run(args: &ExplainArgs) -> Exit {
    let explained = console::stdin().map_err(Stopped::Reading).and_then(|input| {
        let output = console::stdout().map_err(Stopped::Writing)?;
        explain(args, input.lock(), output.lock())
    });
    match explained {
        Ok(0) => Exit::Success,
        Ok(_) if !args.check => Exit::Success,
        Ok(_) => Exit::Failed,
        Err(Stopped::Trace) => {
            console::say(format_args!(
                "this is a trace of `duet-rpc tap`, and not the stream itself: \
                 `duet-rpc trace show FILE` shows it, and `trace cat FILE` prints the stream"
            ));
            Exit::Failed
        }
        Err(Stopped::Writing(error)) => console::cannot_write(&error),
        Err(Stopped::Reading(error)) => {
            console::say(format_args!("cannot read stdin: {error}"));
            Exit::Failed
        }
    }
}

/// Reason for an early end.
enum Stopped {
    /// The input is a trace file.
    Trace,
    Reading(io::Error),
    Writing(io::Error),
}

/// Reads the input to its end, and writes a line for each event. Returns the number of faults and invalid messages.
fn explain(
    args: &ExplainArgs,
    mut input: impl Read,
    mut output: impl Write,
) -> Result<u64, Stopped> {
    let profile = Profile::editor().with(|it| it.batch = BatchRule::Allow);
    let mut decoder = Decoder::new(args.framing.choice(), &profile.limits);
    let mut chunk = vec![0; 64 * 1024];
    let (mut recent, mut is_first, mut problems) = (Recent::default(), true, 0);
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
            recent.add(&rest[..taken]);
            rest = &rest[taken..];
            while let Some(event) = decoder.next_event() {
                if std::mem::take(&mut is_first) && is_trace(&event) {
                    return Err(Stopped::Trace);
                }
                let found = Explained::new(&event, &profile, args.show_params);
                problems += u64::from(!found.is_valid);
                let lines = found.lines(&recent, &decoder, args.show_params);
                recent.end(&decoder);
                output.write_all(lines.as_bytes()).map_err(Stopped::Writing)?;
            }
            // Blanks, or the rest of bytes that were refused.
            if decoder.partial().is_none() {
                recent.end(&decoder);
            }
            if rest.is_empty() {
                break;
            }
        }
        if count == 0 {
            return output.flush().map(|()| problems).map_err(Stopped::Writing);
        }
    }
}

/// A trace begins with a header of this member.
fn is_trace(event: &Event<'_>) -> bool {
    matches!(event, Event::Frame(text) if text.as_str().trim_start().starts_with("{\"duet\":"))
}

/// An event without its place.
struct Explained {
    /// The length of a frame, or the kind of a fault.
    kind: Result<usize, FaultKind>,
    /// The rest of the line.
    what: String,
    /// Lines below it.
    params: String,
    is_valid: bool,
}

impl Explained {
    fn new(event: &Event<'_>, profile: &Profile, shows_params: bool) -> Self {
        let text = match event {
            Event::Fault(fault) => {
                let what = format!("the answer is {}", Reply::to_fault(fault).error);
                let kind = Err(fault.kind);
                return Explained { kind, what, params: String::new(), is_valid: false };
            }
            Event::Frame(text) => text,
        };
        let incoming = Incoming::classify(text, profile.batch, &profile.limits);
        let mut params = String::new();
        if shows_params {
            show(&mut params, &incoming);
        }
        Explained {
            kind: Ok(text.as_str().len()),
            what: describe(text, &incoming, profile),
            params,
            is_valid: is_valid(&incoming),
        }
    }

    fn lines(&self, recent: &Recent, decoder: &Decoder, shows_bytes: bool) -> String {
        let Explained { kind, what, params, .. } = self;
        let kind = match *kind {
            Ok(length) => {
                let begin = recent.frame_begin(decoder, length);
                return format!("frame of {length} bytes at byte {begin}: {what}\n{params}");
            }
            Err(kind) => kind,
        };
        let begin = recent.fault_begin(kind);
        let reason = recent.reason(kind).map(|it| format!(": {it}")).unwrap_or_default();
        let mut lines = format!("fault at byte {begin}: {kind}{reason}; {what}\n");
        if shows_bytes {
            lines.extend(["    bytes ", &recent.excerpt(decoder, kind), "\n"]);
        }
        lines
    }
}

fn is_valid(incoming: &Incoming<'_>) -> bool {
    match incoming {
        Incoming::Invalid(_) | Incoming::InvalidResponse(_) => false,
        Incoming::Batch(entries) => entries.clone().all(|entry| is_valid(&entry)),
        _ => true,
    }
}

fn describe(text: &Text<'_>, incoming: &Incoming<'_>, profile: &Profile) -> String {
    let why = || match defects(text, &profile.limits) {
        found if found.is_empty() => String::new(),
        found => format!(": {}", found.join("; ")),
    };
    match incoming {
        Incoming::Request(request) => {
            let (method, id) = (quoted(&request.method), id(&request.id.to_id()));
            format!("request {method}, id {id}, {}", shape(&request.params))
        }
        Incoming::Notification(it) => {
            format!("notification {}, {}", quoted(&it.method), shape(&it.params))
        }
        Incoming::Response(response) => match response.settled {
            Settled::Result(_) => format!("response with a result, id {}", id(&response.id)),
            Settled::Error(_) => {
                let id = id(&response.id);
                let error = match response.settled.error() {
                    Some(error) => format!(": {}, code {}", quoted(&error.message), error.code),
                    None => why(),
                };
                format!("response with an error, id {id}{error}")
            }
        },
        Incoming::Batch(entries) => {
            let (mut entries, mut each) = (entries.clone(), Vec::new());
            while let Some((text, entry)) = entries.next_entry() {
                each.push(describe(&text, &entry, profile));
            }
            format!("batch of {}: {}", each.len(), each.join("; "))
        }
        Incoming::Invalid(reply) => {
            format!("invalid{}; the answer, id {}, is {}", why(), id(&reply.id), reply.error)
        }
        Incoming::InvalidResponse(response) => format!("dropped: {}{}", response.why, why()),
    }
}

/// Adds a line with the params, the result or the data of an error, for each message that has them.
fn show(lines: &mut String, incoming: &Incoming<'_>) {
    let (name, raw) = match incoming {
        Incoming::Batch(entries) => {
            return entries.clone().for_each(|entry| show(lines, &entry));
        }
        Incoming::Response(response) => match response.settled {
            Settled::Result(raw) => ("result", Some(raw)),
            Settled::Error(raw) => match response.settled.error() {
                Some(error) => ("data", error.data),
                None => ("error", Some(raw)),
            },
        },
        _ => match incoming.call() {
            Some((_, Params::Array(raw) | Params::Object(raw))) => ("params", Some(*raw)),
            _ => return,
        },
    };
    if let Some(raw) = raw {
        let raw = json::escape_for_terminal(&json::compact(raw));
        lines.extend(["    ", name, " ", &raw, "\n"]);
    }
}

/// Cuts and escapes the remote's text, so that it cannot control a terminal.
fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(128).collect::<String>())
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
