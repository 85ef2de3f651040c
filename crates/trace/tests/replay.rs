//! Properties of replays and mocks: random sessions, a server with state, and servers that misbehave.

use std::collections::{HashMap, VecDeque};
use std::io::Cursor;
use std::sync::Arc;

use duet_rpc_trace::{
    Action, DiffOptions, Difference, Dir, Ending, Entry, Header, Mock, MockAction, MockOptions,
    OnMiss, Options, Reader, Record, Replay, ReplayOptions, Script, Session, Writer, diff,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A message, and its direction.
type Said = (Dir, String);

/// The messages as a trace.
fn trace(messages: &[Said]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    writer.header(&Header::new("s")).expect("memory can be written");
    let sink = |record: &Record<'_>| {
        writer.record(record).expect("memory can be written");
    };
    let mut session = Session::new(Options::default(), sink);
    for (at, (dir, json)) in messages.iter().enumerate() {
        session.handle_bytes(*dir, at as u64, format!("{json}\n").as_bytes());
    }
    let _ = session.handle_end(messages.len() as u64);
    writer.into_inner()
}

fn script(file: &[u8]) -> Arc<Script> {
    let (mut reader, mut script) = (Reader::new(file), Script::new());
    while let Some(entry) = reader.next_entry().expect("memory can be read") {
        if let Entry::Record(record) = entry {
            script.handle(&record);
        }
    }
    Arc::new(script)
}

fn options() -> ReplayOptions {
    let mut options = ReplayOptions::default();
    (options.timeout, options.patience, options.linger) = (10_000, 1_000, 10);
    options
}

fn differences(old: &[u8], new: &[Said]) -> Vec<Difference> {
    let mut found = Vec::new();
    let new = Cursor::new(trace(new));
    diff(Cursor::new(old), new, &DiffOptions::default(), |difference| match difference {
        Difference::Same(_) => {}
        difference => found.push(difference),
    })
    .expect("memory can be read");
    found
}

/// A server with sessions. It works through its messages in order, so the same messages give the same answers,
/// except for the names of the sessions.
struct ModelServer {
    seed: u64,
    sessions: Vec<String>,
    /// The requests that wait for an answer of the client, by the id of our request.
    asking: HashMap<u64, Value>,
}

impl ModelServer {
    fn new(seed: u64) -> Self {
        ModelServer { seed, sessions: Vec::new(), asking: HashMap::new() }
    }

    fn handle(&mut self, json: &str) -> Vec<String> {
        let message: Value = serde_json::from_str(json).expect("JSON");
        let id = message.get("id").cloned().unwrap_or_default();
        let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        let answers = match message["method"].as_str() {
            Some("echo") => vec![result(message["params"].clone())],
            Some("open") => {
                let number = self.sessions.len() as u64;
                let name = format!("session-{}-{number}", self.seed);
                self.sessions.push(name.clone());
                let event = json!({"method": "opened", "params": {"path": format!("/s/{name}/x")}});
                vec![result(json!({"session": name, "n": number})), event]
            }
            Some("use") => {
                let place =
                    self.sessions.iter().position(|it| message["params"]["session"] == **it);
                vec![result(json!({"place": place}))]
            }
            Some("ask") => {
                let number = self.seed + self.asking.len() as u64;
                self.asking.insert(number, message.clone());
                vec![json!({"id": number, "method": "config", "params": message["params"]})]
            }
            None => {
                let number = message["id"].as_u64().expect("our id");
                let asked = self.asking.remove(&number).expect("it was asked");
                let (id, params) = (&asked["id"], &message["result"]);
                vec![
                    json!({"method": "log", "params": params}),
                    json!({"id": id, "result": params}),
                ]
            }
            _ => vec![json!({"method": "noted", "params": message["params"]})],
        };
        answers.iter().map(ToString::to_string).collect()
    }
}

/// Records a client: each step is a kind of message, and whether the client then reads what has come.
fn record(steps: &[(u8, bool)]) -> Vec<Said> {
    let (mut server, mut queue, mut said) = (ModelServer::new(1_000), VecDeque::new(), Vec::new());
    // The sessions that the client knows, and those that it has not used.
    let (mut known, mut unused) = (Vec::<Value>::new(), Vec::<Value>::new());
    // At the end, the client reads everything, and uses each session: a value that it never sends back is no
    // variable.
    let end = std::iter::once((0, true)).chain(steps.iter().map(|_| (2, true)));
    for (number, (kind, reads)) in steps.iter().copied().chain(end).enumerate() {
        let is_end = number > steps.len();
        if is_end && unused.is_empty() {
            break;
        }
        let method = ["echo", "open", "use", "ask", "note"][usize::from(kind % 5)];
        let mut message = json!({"jsonrpc": "2.0", "method": method, "params": {"n": number}});
        if method != "note" {
            message["id"] = number.into();
        }
        let session = if is_end { unused.pop() } else { known.last().cloned() };
        if let ("use", Some(session)) = (method, session) {
            unused.retain(|it| *it != session);
            message["params"]["session"] = session;
        }
        let mut out = VecDeque::from([message.to_string()]);
        while let Some(json) = out.pop_front() {
            queue.extend(server.handle(&json));
            said.push((Dir::C2s, json));
            while reads && let Some(json) = queue.pop_front() {
                let message: Value = serde_json::from_str(&json).expect("JSON");
                if let Some(name) = message["result"].get("session") {
                    known.push(name.clone());
                    unused.push(name.clone());
                }
                if message["method"] == "config" {
                    let answer = json!({"id": message["id"], "result": message["params"]});
                    out.push_back(answer.to_string());
                }
                said.push((Dir::S2c, json));
                if !out.is_empty() {
                    break;
                }
            }
        }
    }
    said
}

/// Plays a script against a server. Returns the end, its time, and the session with the values of the recording.
fn play(
    script: Arc<Script>,
    mut server: impl FnMut(&str) -> Vec<String>,
    mut portions: impl FnMut() -> usize,
) -> (Ending, u64, Vec<Said>) {
    let mut replay = Replay::new(script, options());
    let (mut now, mut queue, mut said) = (0, VecDeque::new(), Vec::new());
    for _ in 0..100_000 {
        match replay.poll(now) {
            Action::Finished(ending) => return (ending, now, said),
            Action::Send(outgoing) => {
                queue.extend(server(&outgoing.json));
                said.push((Dir::C2s, outgoing.recorded));
            }
            Action::Wait(until) if queue.is_empty() => now = until,
            Action::Wait(_) => {
                for _ in 0..portions().max(1) {
                    if let Some(json) = queue.pop_front() {
                        said.push((Dir::S2c, replay.handle_message(now, &json)));
                    }
                }
            }
        }
    }
    panic!("it makes no progress: waiting for {}", replay.missing());
}

/// A random session: messages of both sides that belong together, and are not caused by anything.
fn random_session(steps: &[(u8, u8)]) -> Vec<Said> {
    let mut said = Vec::new();
    let mut open: [Vec<(u64, u8)>; 2] = [Vec::new(), Vec::new()];
    for (number, (kind, name)) in steps.iter().enumerate() {
        let side = usize::from(kind % 2);
        let dir = [Dir::C2s, Dir::S2c][side];
        let (id, method) = (number as u64, format!("m{}", name % 3));
        let params = json!([name % 2]);
        let message = match kind / 2 % 3 {
            0 => json!({"method": method, "params": params}),
            1 => {
                open[side].push((id, *name));
                json!({"id": id, "method": method, "params": params})
            }
            _ if !open[1 - side].is_empty() => {
                let place = usize::from(*name) % open[1 - side].len();
                let (id, name) = open[1 - side].remove(place);
                json!({"id": id, "result": name})
            }
            _ => continue,
        };
        said.push((dir, message.to_string()));
    }
    said
}

proptest! {
    #[test]
    fn y1_y3_y4_replays_of_a_deterministic_server_are_the_same(
        steps in vec((any::<u8>(), any::<bool>()), 0..40),
        portions in vec(1_usize..5, 1..8),
    ) {
        let recorded = record(&steps);
        let file = trace(&recorded);
        let mut server = ModelServer::new(77_000);
        let mut next = portions.iter().cycle();
        let (ending, now, said) =
            play(script(&file), |json| server.handle(json), || *next.next().unwrap_or(&1));
        prop_assert_eq!(ending, Ending::Complete);
        // Nothing had to be given up.
        prop_assert!(now <= 10, "{}", now);
        prop_assert_eq!(differences(&file, &said), vec![]);
    }

    #[test]
    fn y2_replays_end_whatever_the_server_does(
        steps in vec((any::<u8>(), any::<bool>()), 0..30),
        mischief in vec(0_u8..8, 1..20),
    ) {
        let file = trace(&record(&steps));
        let (mut server, mut next) = (ModelServer::new(5_000), mischief.iter().cycle());
        let mut held = Vec::new();
        let (ending, now, _) = play(
            script(&file),
            |json| {
                // The model cannot answer an answer that it did not ask for, and a refusal is one.
                let is_known = !json.contains("\"error\"");
                let mut out = Vec::new();
                for json in if is_known { server.handle(json) } else { Vec::new() } {
                    match next.next() {
                        Some(0) => {}
                        Some(1) => out.extend([r#"{"method":"extra"}"#.to_owned(), json]),
                        Some(2) => out.extend([r#"{"id":"x","method":"unknown"}"#.to_owned(), json]),
                        Some(3) => held.push(json),
                        Some(4) => {
                            out.push(json);
                            out.append(&mut held);
                        }
                        _ => out.push(json),
                    }
                }
                out
            },
            || 1,
        );
        match ending {
            Ending::Complete => {}
            Ending::TimedOut(what) => prop_assert!(!what.is_empty()),
            other => prop_assert!(false, "{:?}", other),
        }
        prop_assert!(now < 1_000_000);
    }

    #[test]
    fn y1_k2_a_recorded_client_and_its_recorded_server_play_the_session_again(
        steps in vec((any::<u8>(), any::<u8>()), 1..60),
    ) {
        let said = random_session(&steps);
        prop_assume!(said.iter().any(|(dir, _)| *dir == Dir::C2s));
        let file = trace(&said);
        let script = script(&file);
        let mut settings = MockOptions::default();
        settings.on_miss = OnMiss::Error;
        let mut mock = Mock::new(Arc::clone(&script), settings);
        let mut notes = 0;
        let mut first = Vec::new();
        let drain = |mock: &mut Mock, notes: &mut u32| {
            let mut out = Vec::new();
            while let Some(action) = mock.poll() {
                match action {
                    MockAction::Send(json) => out.push(json),
                    _ => *notes += 1,
                }
            }
            out
        };
        first.extend(drain(&mut mock, &mut notes));
        let mut replay = Replay::new(script, options());
        let (mut now, mut queue, mut new) = (0, VecDeque::from(first), Vec::new());
        let ending = loop {
            match replay.poll(now) {
                Action::Finished(ending) => break ending,
                Action::Send(outgoing) => {
                    mock.handle_message(&outgoing.json);
                    queue.extend(drain(&mut mock, &mut notes));
                    new.push((Dir::C2s, outgoing.recorded));
                }
                Action::Wait(until) => match queue.pop_front() {
                    Some(json) => new.push((Dir::S2c, replay.handle_message(now, &json))),
                    None => now = until,
                },
            }
        };
        prop_assert_eq!(ending, Ending::Complete);
        prop_assert!(now <= 10, "it waited until {}", now);
        prop_assert_eq!(notes, 0);
        prop_assert_eq!(differences(&file, &new), vec![]);
    }
}
