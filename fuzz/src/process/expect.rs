//! Expected answers: every answer that a daemon must give to a stream of bytes, and no other.

use std::collections::BTreeMap;

use duet_rpc_proto::Limits;
use duet_rpc_proto::frame::{Decoder, Event};
use duet_rpc_proto::message::Reply;

use super::answer::{self, Answer, Frame, Outcome};
use super::{Profile, Setting};
use crate::support::reference::{Rules, Verdict, json, judge};

/// The results of methods with a constant result, by name.
pub type Catalog = BTreeMap<&'static str, String>;

/// Maximum number of errors in a row that this model expects; beyond 1,000 the daemon stops
/// answering (F7).
const MOST_ERRORS: usize = 900;

/// All expected answers to a stream.
#[derive(Debug, Default)]
pub struct Owed {
    answers: Vec<Expect>,
    /// The number of answers before a `shutdown`. Requests after it may go unanswered.
    certain: usize,
    pub shuts_down: bool,
    /// The stream cancels a request, which may have ended before.
    cancels: bool,
    errors: usize,
}

/// One expected frame.
#[derive(Debug)]
pub enum Expect {
    One(One),
    Many(Vec<One>),
}

/// One expected answer.
#[derive(Debug)]
pub struct One {
    id: String,
    what: What,
}

#[derive(Debug)]
enum What {
    Result(String),
    Error {
        code: i32,
        reason: Option<&'static str>,
        message: String,
    },
    /// A result, or an error about the params.
    Tried,
}

/// The expected answers; `None` if they cannot be predicted.
pub fn owed(setting: &Setting, catalog: &Catalog, stream: &[u8], ends: bool) -> Option<Owed> {
    let limits = Limits::default().with(|it| it.message_bytes = setting.message_bytes);
    let rules = Rules {
        allow_batch: setting.allow_batch,
        depth: limits.depth,
        batch_entries: limits.batch_entries,
    };
    let mut decoder = Decoder::new(setting.framing, &limits);
    let mut owed = Owed::default();
    let mut rest = stream;
    while !rest.is_empty() {
        let count = decoder.feed(rest);
        rest = &rest[count..];
        take_all(&mut decoder, &mut owed, setting, catalog, rules)?;
    }
    if ends {
        decoder.finish();
        take_all(&mut decoder, &mut owed, setting, catalog, rules)?;
    }
    if !owed.shuts_down {
        owed.certain = owed.answers.len();
    }
    // With a cancellation or a duplicate id, timing may decide whether a `shutdown` starts.
    let is_open =
        owed.shuts_down && (owed.cancels || !setting.is_sequential && owed.has_duplicate_ids());
    (!is_open).then_some(owed)
}

fn take_all(
    decoder: &mut Decoder,
    owed: &mut Owed,
    setting: &Setting,
    catalog: &Catalog,
    rules: Rules,
) -> Option<()> {
    while let Some(event) = decoder.next_event() {
        match event {
            Event::Fault(fault) => {
                owed.err()?;
                let reply = Reply::to_fault(&fault);
                let code = i32::try_from(reply.error.code().0).ok()?;
                let reason = reply.error.reason().map(|reason| reason.name());
                owed.answers.push(Expect::One(One::error(reply.id.as_raw(), code, reason)));
            }
            Event::Frame(text) => match judge(text.as_str().as_bytes(), rules) {
                Verdict::Batch(entries) => {
                    let had_shut_down = owed.shuts_down;
                    let mut all = Vec::new();
                    for entry in entries {
                        let is_late = owed.shuts_down && !had_shut_down;
                        let is_request = matches!(entry, Verdict::Request { .. });
                        let mut owed = one(entry, owed, setting, catalog)?;
                        if let Some(one) = owed.as_mut().filter(|_| is_late && is_request) {
                            *one = One::error(&one.id, -32600, Some("shutting-down"));
                        }
                        all.extend(owed);
                    }
                    // A batch is answered as a whole, so a batch with a `shutdown` may get no answer.
                    if owed.shuts_down && !had_shut_down {
                        owed.certain = owed.answers.len();
                    }
                    if !all.is_empty() {
                        owed.answers.push(Expect::Many(all));
                    }
                }
                verdict => {
                    if let Some(expect) = one(verdict, owed, setting, catalog)? {
                        owed.answers.push(Expect::One(expect));
                    }
                }
            },
        }
    }
    Some(())
}

/// The expected answer to a message, if any. The outer `None` means that it cannot be predicted.
fn one(
    verdict: Verdict,
    owed: &mut Owed,
    setting: &Setting,
    catalog: &Catalog,
) -> Option<Option<One>> {
    let (id, method, params) = match verdict {
        Verdict::Request { id, method, params } => (Some(id), method, params),
        Verdict::Notification { method, params } => (None, method, params),
        Verdict::Error(refusal) => {
            owed.err()?;
            return Some(Some(One::error(&refusal.id, refusal.code, refusal.reason)));
        }
        Verdict::Response { .. } => {
            owed.errors = 0;
            return Some(None);
        }
        Verdict::InvalidResponse => return owed.err().map(|()| None),
        Verdict::Batch(_) => unreachable!("a batch in a batch is an error"),
    };
    owed.errors = 0;
    let method = String::from_utf16_lossy(&method);
    let has_more = setting.profile != Profile::Editor;
    let what = match &*method {
        // These methods cause later messages from the daemon.
        "events.subscribe" | "events.unsubscribe" if has_more => return None,
        "system.callback" if setting.profile == Profile::Agent => return None,
        "shutdown" => {
            owed.shut_down(id.is_some());
            What::Result(r#"{"message":"Shutting down gracefully"}"#.to_owned())
        }
        "setLogLevel" => What::Tried,
        "$/cancelRequest" if id.is_none() => {
            owed.cancels = true;
            return Some(None);
        }
        "system.ping" if has_more => What::Result("\"pong\"".to_owned()),
        "system.echo" if has_more => {
            let params = params.and_then(|params| json::read(&params, 1024));
            What::Result(params.map_or("null".to_owned(), |params| answer::compact(&params)))
        }
        name => match catalog.get(name) {
            Some(result) => What::Result(result.clone()),
            None => {
                let name: String = name.chars().take(128).collect();
                let message = format!("Method not found: {name}");
                What::Error { code: -32601, reason: None, message }
            }
        },
    };
    Some(id.map(|id| One { id, what }))
}

impl Owed {
    /// Counts another error in a row; `None` if there are too many.
    fn err(&mut self) -> Option<()> {
        self.errors += 1;
        (self.errors < MOST_ERRORS).then_some(())
    }

    /// Marks all later answers as uncertain; the answer to the shutdown itself is certain.
    fn shut_down(&mut self, is_answered: bool) {
        if !self.shuts_down {
            self.shuts_down = true;
            self.certain = self.answers.len() + usize::from(is_answered);
        }
    }

    /// The number of frames that must arrive.
    pub fn count(&self) -> usize {
        self.answers.len()
    }

    fn ids(&self) -> Vec<&str> {
        let ones = self.answers.iter().flat_map(|expect| match expect {
            Expect::One(one) => std::slice::from_ref(one),
            Expect::Many(all) => all,
        });
        let mut ids: Vec<_> = ones.map(|one| &*one.id).collect();
        ids.sort_unstable();
        ids
    }

    fn has_duplicate_ids(&self) -> bool {
        self.ids().windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Compares the frames with the expected answers.
    pub fn check(&self, setting: &Setting, found: &[Frame], is_over: bool) {
        let wrong = |what: &str| -> ! {
            panic!("{what}: {setting:?}\nfound {found:#?}\nowed {self:#?}, is over: {is_over}")
        };
        let leniency = Leniency {
            cancelled: self.cancels,
            duplicate: !setting.is_sequential && self.has_duplicate_ids(),
        };
        let most = self.answers.len();
        if found.len() < self.certain.min(most) || found.len() > most {
            wrong("too few or too many frames");
        }
        if setting.is_sequential && !self.cancels {
            for (expect, frame) in self.answers.iter().zip(found) {
                if !expect.admits(frame, leniency) {
                    wrong("an unexpected answer");
                }
            }
            return;
        }
        // Strict matches first, so that a lenient match does not take an answer that fits
        // elsewhere.
        let mut open: Vec<_> = self.answers.iter().enumerate().collect();
        let mut left: Vec<_> = found.iter().collect();
        for leniency in [Leniency::default(), leniency] {
            left.retain(|frame| {
                let place = open.iter().position(|(_, expect)| expect.admits(frame, leniency));
                place.map(|place| open.remove(place)).is_none()
            });
        }
        if !left.is_empty() || open.iter().any(|(place, _)| *place < self.certain) {
            wrong("an unexpected answer, or a missing one");
        }
    }
}

/// Answers that are accepted instead of the expected one.
#[derive(Clone, Copy, Debug, Default)]
struct Leniency {
    cancelled: bool,
    duplicate: bool,
}

impl Expect {
    fn admits(&self, frame: &Frame, leniency: Leniency) -> bool {
        match (self, frame) {
            (Expect::One(one), Frame::One(answer)) => one.admits(answer, leniency),
            (Expect::Many(all), Frame::Many(answers)) => {
                let mut open: Vec<_> = all.iter().collect();
                let mut left: Vec<_> = answers.iter().collect();
                for leniency in [Leniency::default(), leniency] {
                    left.retain(|answer| {
                        let place = open.iter().position(|one| one.admits(answer, leniency));
                        place.map(|place| open.remove(place)).is_none()
                    });
                }
                open.is_empty() && left.is_empty()
            }
            _ => false,
        }
    }
}

impl One {
    fn error(id: &str, code: i32, reason: Option<&'static str>) -> One {
        let message = match (code, reason) {
            (-32700, _) => "Parse error",
            (_, Some("batch-not-supported")) => "Batch requests not supported",
            _ => "Invalid Request",
        };
        let what = What::Error { code, reason, message: message.to_owned() };
        One { id: id.to_owned(), what }
    }

    fn admits(&self, answer: &Answer, leniency: Leniency) -> bool {
        if self.id != answer.id {
            return false;
        }
        let is_it = match (&self.what, &answer.outcome) {
            (What::Result(expect), Outcome::Result(found)) => expect == found,
            (What::Tried, Outcome::Result(_)) => true,
            (What::Tried, Outcome::Error { code, .. }) => code == "-32602",
            (
                What::Error { code: expect, reason: why, message: begins },
                Outcome::Error { code, reason, message },
            ) => {
                *code == expect.to_string()
                    && reason.as_deref() == *why
                    && message.starts_with(&**begins)
            }
            _ => false,
        };
        let instead = match &answer.outcome {
            Outcome::Error { code, .. } if code == "-32800" => leniency.cancelled,
            Outcome::Error { reason: Some(reason), .. } if reason == "duplicate-id" => {
                leniency.duplicate
            }
            _ => false,
        };
        is_it || instead
    }
}
