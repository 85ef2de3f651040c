//! The checks of one combination of profile and framing: a conversation, and an end of each kind.

use std::time::{Duration, Instant};

use duet_rpc::proto::frame::Framing;
use rustix::process::Signal;
use serde_json::Value;

use super::child::{Combination, Daemon, Subject, Wanted};
use super::probes::{PROBES, Probe, Sends, compare};
use super::report::{Check, Finding, Note, Outcome, Verdict, in_words};
use crate::args::ProfileName;

/// Makes all checks of a combination.
pub(super) fn check(subject: &Subject, it: Combination) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let Conversation { has_answer, mut flaw } = converse(subject, it, &mut outcomes);
    for (name, trigger) in ENDS {
        let verdict = match has_answer {
            true => end(subject, it, (name, trigger), &mut flaw).map(Note::Took).into(),
            false => Verdict::NotMade,
        };
        outcomes.push(outcome(it, Check::Ends, name, verdict));
    }
    let verdict = match flaw {
        Some(flaw) => Verdict::Failed(flaw),
        None if has_answer => Verdict::Passed(Note::Nothing),
        None => Verdict::NotMade,
    };
    outcomes.push(outcome(it, Check::Stdout, FRAMES_ONLY, verdict));
    outcomes
}

/// The checks of a combination that is not tried, as nothing answers anywhere.
pub(super) fn leave_out(it: Combination) -> Vec<Outcome> {
    let asked = PROBES.iter().filter(|probe| (probe.applies)(it));
    let asked = asked.map(|probe| (probe.check, probe.name));
    let ends = ENDS.iter().map(|(name, _)| (Check::Ends, *name));
    let all = asked.chain(ends).chain([(Check::Stdout, FRAMES_ONLY)]);
    all.map(|(check, name)| outcome(it, check, name, Verdict::NotMade)).collect()
}

/// Whether a combination answers at all.
pub(super) fn has_answered(outcomes: &[Outcome]) -> bool {
    outcomes.iter().any(|it| it.check == Check::Ends && !matches!(it.verdict, Verdict::NotMade))
}

const FRAMES_ONLY: &str = "frames and nothing else";

/// What makes a daemon end.
#[derive(Clone, Copy)]
enum Trigger {
    Shutdown,
    Eof,
    Signal(Signal),
}

const ENDS: [(&str, Trigger); 5] = [
    ("shutdown", Trigger::Shutdown),
    ("end of stdin", Trigger::Eof),
    ("SIGTERM", Trigger::Signal(Signal::TERM)),
    ("SIGINT", Trigger::Signal(Signal::INT)),
    ("SIGHUP", Trigger::Signal(Signal::HUP)),
];

/// How long an end may take (L5).
const END_LIMIT: Duration = Duration::from_secs(2);

/// What came of a conversation, apart from the answers.
struct Conversation {
    /// Whether the first question had an answer, right or wrong.
    has_answer: bool,
    /// What is wrong with stdout.
    flaw: Option<Finding>,
}

/// Puts all questions to one process.
fn converse(subject: &Subject, it: Combination, outcomes: &mut Vec<Outcome>) -> Conversation {
    let mut has_answer = false;
    let mut flaw = None;
    // At debug level there is most that could go to the wrong place.
    let mut daemon = Daemon::start(subject, it, &["--log-level", "debug"], None).map_err(Some);
    for probe in PROBES.iter().filter(|probe| (probe.applies)(it)) {
        let result = match &mut daemon {
            Ok(daemon) => ask(daemon, probe, it, subject).map(|()| match has_answer {
                false => Note::Took(daemon.age()),
                true => Note::Nothing,
            }),
            Err(why) => match why.take() {
                Some(why) => Err(why),
                None => {
                    outcomes.push(outcome(it, probe.check, probe.name, Verdict::NotMade));
                    continue;
                }
            },
        };
        let is_lost = result.as_ref().is_err_and(|finding| finding.is_last);
        if is_lost {
            flaw = daemon.as_ref().ok().and_then(|daemon| daemon.flaw(false));
            daemon = Err(None);
        }
        has_answer |= !is_lost;
        outcomes.push(outcome(it, probe.check, probe.name, result.into()));
    }
    if let Ok(mut daemon) = daemon {
        daemon.close();
        flaw = match daemon.wait(Instant::now()) {
            Ok(ended) => ended.flaw,
            Err(finding) => Some(finding.sent("end of stdin").expected("the end of stdout")),
        };
    }
    Conversation { has_answer, flaw }
}

/// Puts a question, and looks at the answer.
fn ask(
    daemon: &mut Daemon,
    probe: &Probe,
    it: Combination,
    subject: &Subject,
) -> Result<(), Finding> {
    let version = subject.version.as_deref();
    let (sent, wanted) = match probe.sends {
        Sends::Call(method, params) => {
            (format!("{method} {params}"), Wanted::Answer(daemon.request(method, params)))
        }
        Sends::Callback => {
            let id = daemon.request("system.callback", CALLBACK);
            answer_callback(daemon, id).map_err(|finding| finding.sent("system.callback"))?;
            (format!("system.callback {CALLBACK}"), Wanted::Answer(id))
        }
        Sends::Text(text) => {
            daemon.send(text);
            (text.to_owned(), Wanted::Other)
        }
        Sends::Oversize => {
            let (told, bytes) = oversize(it);
            daemon.write(bytes);
            (told, Wanted::Other)
        }
        Sends::Garbage => {
            daemon.write(GARBAGE.into());
            (format!("{GARBAGE:?} before a request"), Wanted::Other)
        }
    };
    // Garbage ends only where a frame begins.
    let is_garbage = matches!(probe.sends, Sends::Garbage);
    let next = is_garbage.then(|| daemon.request("version", "null"));
    let nothing = |finding: Finding| finding.sent(&sent).expected(&probe.expected(version));
    let answer = daemon.receive(&wanted).map_err(nothing)?;
    probe.compare(&answer, it.profile, version).map_err(|finding| finding.sent(&sent))?;
    if probe.check != Check::Survives {
        return Ok(());
    }
    if it.spoken == Framing::Ndjson && matches!(probe.sends, Sends::Oversize) {
        daemon.write(b"\n".into());
    }
    let next = next.unwrap_or_else(|| daemon.request("version", "null"));
    let behind = |finding: Finding| finding.sent(&format!("version behind {sent}"));
    let nothing = |finding| behind(finding).expected("an answer");
    let answer = daemon.receive(&Wanted::Answer(next)).map_err(nothing)?;
    compare(&answer, r#"{"result":{"version":"VERSION"}}"#, version).map_err(behind)
}

const CALLBACK: &str = r#"{"method":"doctor.ask","params":{"question":7}}"#;
const GARBAGE: &str = "stray words\r\n";

/// Answers the request that the daemon has been asked for in a request of ours.
fn answer_callback(daemon: &mut Daemon, ours: u64) -> Result<(), Finding> {
    let nothing = |finding: Finding| finding.expected("a request");
    let request = daemon.receive(&Wanted::Request { or_answer: ours }).map_err(nothing)?;
    let expected: Value = serde_json::from_str(CALLBACK).unwrap_or_default();
    let is_asked = |name| request.get(name) == expected.get(name);
    let id = request.get("id").filter(|_| is_asked("method") && is_asked("params"));
    let Some(id) = id else {
        let finding = Finding::new("it does not call back as it was asked to");
        return Err(finding.expected(CALLBACK).saw(&request.to_string()));
    };
    daemon.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"answer":42}}}}"#));
    Ok(())
}

/// The beginning of a message that is one byte too long, with words for it.
fn oversize(it: Combination) -> (String, Vec<u8>) {
    let too_long: u32 = 1 + match it.profile {
        ProfileName::Editor => 10 * 1024 * 1024,
        ProfileName::Desktop | ProfileName::Agent => 1024 * 1024,
    };
    match it.spoken {
        Framing::Lsp => {
            let header = format!("Content-Length: {too_long}\r\n\r\n");
            (format!("the header Content-Length: {too_long} and no body"), header.into())
        }
        Framing::Length => {
            (format!("the length {too_long} and no payload"), too_long.to_be_bytes().into())
        }
        Framing::Ndjson => (format!("{too_long} bytes of a line"), vec![b'x'; too_long as usize]),
    }
}

/// Starts a daemon and ends it. Returns how long the end took.
fn end(
    subject: &Subject,
    it: Combination,
    (name, trigger): (&str, Trigger),
    flaw: &mut Option<Finding>,
) -> Result<Duration, Finding> {
    let mut daemon = Daemon::start(subject, it, &[], None)?;
    // Now it is known to be up.
    daemon.call("initialize", "{}")?;
    let begun = Instant::now();
    match trigger {
        Trigger::Eof => daemon.close(),
        Trigger::Signal(signal) => daemon.signal(signal),
        Trigger::Shutdown => {
            let answer = daemon.call("shutdown", "null")?;
            compare(&answer, r#"{"result":{"message":"Shutting down gracefully"}}"#, None)
                .map_err(|finding| finding.sent("shutdown"))?;
        }
    }
    let ended = daemon.wait(begun).map_err(|finding| finding.sent(name).expected("its end"))?;
    if flaw.is_none() {
        *flaw = ended.flaw;
    }
    if !ended.status.success() {
        let finding = Finding::new("it ended with another exit code");
        return Err(finding.sent(name).expected("exit status: 0").saw(&ended.status.to_string()));
    }
    if ended.took > END_LIMIT {
        let finding = Finding::new("it took too long to end").sent(name);
        let limit = format!("an end within {}", in_words(END_LIMIT));
        return Err(finding.expected(&limit).saw(&format!("one after {}", in_words(ended.took))));
    }
    Ok(ended.took)
}

fn outcome(it: Combination, check: Check, step: &'static str, verdict: Verdict) -> Outcome {
    Outcome { check, profile: it.profile.name(), framing: it.framing(), step, verdict }
}
