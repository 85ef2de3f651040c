//! What was asked, and what is to be answered: random messages with answers that are known before.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::random::Random;

/// What an answer has to say.
#[derive(Clone, Debug, PartialEq)]
pub enum Expect {
    /// This result.
    Result(Value),
    /// A string of this many letters.
    Letters(usize),
    /// An error with this code.
    Code(i64),
    /// Any result: it would be long to say which.
    Anything,
}

/// Who has asked what, and what has come.
#[derive(Debug, Default)]
pub struct Ledger {
    last_id: u64,
    due: BTreeMap<u64, Expect>,
    /// The ids that were answered, in the order that they were.
    answered: Vec<u64>,
    /// Messages that are answered without an id.
    faults: usize,
    faults_answered: usize,
    /// What nobody asks for, and may come all the same: a method, how many times, and how many came.
    events: Option<(&'static str, usize, usize)>,
    /// What came that nobody is waiting for.
    pub wrong: Vec<String>,
}

impl Ledger {
    /// Notes a request, and returns its text.
    pub fn ask(&mut self, method: &str, params: &Value, expect: Expect) -> String {
        self.last_id += 1;
        self.due.insert(self.last_id, expect);
        json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
            .to_string()
    }

    /// Notes that something was sent which is answered with an error that has no id.
    pub fn expect_fault(&mut self) {
        self.faults += 1;
    }

    /// Notes that so many notifications may come, which are numbered from 1 on.
    pub fn expect_events(&mut self, method: &'static str, count: usize) {
        self.events = Some((method, count, 0));
    }

    /// A message came.
    pub fn note(&mut self, message: &Value) {
        if message["jsonrpc"] != "2.0" {
            self.wrong.push(format!("no message of JSON-RPC: {}", short(message)));
        } else if message.get("method").is_some() {
            self.note_event(message);
        } else if message["id"].is_null() {
            self.note_fault(message);
        } else {
            self.note_answer(message);
        }
    }

    /// Nobody subscribes, and nobody has anything asked of us: what comes unasked was announced, or is wrong.
    fn note_event(&mut self, message: &Value) {
        if let Some((method, count, came)) = &mut self.events {
            *came += 1;
            let event = json!({"jsonrpc": "2.0", "method": method, "params": [*came]});
            if *came <= *count && *message == event {
                return;
            }
        }
        self.wrong.push(format!("nobody asked for this: {}", short(message)));
    }

    /// What cannot be read, or is no request, is answered so; nothing else has no id.
    fn note_fault(&mut self, message: &Value) {
        let is_right = matches!(message["error"]["code"].as_i64(), Some(-32700 | -32600))
            && message.get("result").is_none();
        if is_right {
            self.faults_answered += 1;
        } else {
            self.wrong.push(format!("no answer to a fault: {}", short(message)));
        }
    }

    fn note_answer(&mut self, message: &Value) {
        let known = message["id"].as_u64().and_then(|id| Some((id, self.due.remove(&id)?)));
        let Some((id, expect)) = known else {
            self.wrong
                .push(format!("nobody asked for this, or it came before: {}", short(message)));
            return;
        };
        self.answered.push(id);
        let (result, code) = (&message["result"], &message["error"]["code"]);
        let is_right = match &expect {
            Expect::Result(value) => result == value && code.is_null(),
            Expect::Letters(count) => result
                .as_str()
                .is_some_and(|text| text.len() == *count && text.bytes().all(|b| b == b'x')),
            Expect::Code(expected) => *code == *expected && message.get("result").is_none(),
            Expect::Anything => !result.is_null() && code.is_null(),
        };
        if !is_right {
            self.wrong.push(format!("{} instead of {expect:?}", short(message)));
        }
    }

    /// How many requests were answered.
    pub fn answers(&self) -> usize {
        self.answered.len()
    }

    /// Whether a request was answered.
    pub fn is_answered(&self, id: u64) -> bool {
        self.answered.contains(&id)
    }

    /// The id of the last request.
    pub fn last_id(&self) -> u64 {
        self.last_id
    }

    /// Whether nothing is due any more.
    pub fn is_settled(&self) -> bool {
        self.due.is_empty() && self.faults_answered >= self.faults
    }

    /// What is due, in words.
    pub fn missing(&self) -> Option<String> {
        let faults = self.faults.saturating_sub(self.faults_answered);
        let ids: Vec<_> = self.due.keys().take(5).collect();
        (!self.is_settled()).then(|| {
            format!("{} requests ({ids:?} …) and {faults} faults are unanswered", self.due.len())
        })
    }

    /// What is wrong with the answers as a whole.
    pub fn complaints(&self, is_in_order: bool) -> Vec<String> {
        let mut complaints = self.wrong.clone();
        if self.faults_answered > self.faults {
            let more = self.faults_answered - self.faults;
            complaints.push(format!("{more} faults more than were made"));
        }
        if is_in_order && !self.answered.is_sorted() {
            complaints.push(format!("answers out of order: {:?}", self.answered));
        }
        complaints
    }
}

fn short(message: &Value) -> String {
    message.to_string().chars().take(200).collect()
}

/// A message at random, as text; what it is answered with is noted. `can_test` where the methods of the
/// test bed are there.
pub fn random_message(
    random: &mut Random,
    ledger: &mut Ledger,
    profile: &str,
    can_test: bool,
) -> String {
    let version = json!({"version": env!("CARGO_PKG_VERSION")});
    let has_system = profile != "editor";
    match random.below(if can_test { 16 } else { 11 }) {
        0 | 1 => ledger.ask("version", &json!([]), Expect::Result(version)),
        2 => ledger.ask("initialize", &json!({}), Expect::Anything),
        3 => ledger.ask("listMethods", &Value::Null, Expect::Anything),
        4 => ledger.ask("no.such", &json!([1]), Expect::Code(-32601)),
        5 => ledger.ask("setLogLevel", &json!({"level": 5}), Expect::Code(-32602)),
        6 => {
            ledger.expect_fault();
            r#"{"jsonrpc":"2.0","id":[],"method":"version"}"#.to_owned()
        }
        7 => {
            ledger.expect_fault();
            "{no JSON}".to_owned()
        }
        8 => r#"{"jsonrpc":"2.0","method":"version"}"#.to_owned(),
        9 if has_system => {
            let params = json!([random.bits(), "€", {"deep": [[[random.bits()]]]}]);
            ledger.ask("system.echo", &params, Expect::Result(params.clone()))
        }
        10 if has_system => {
            let params = json!(["x".repeat(random.below(30_000))]);
            ledger.ask("system.echo", &params, Expect::Result(params.clone()))
        }
        11 | 12 => {
            let ms = random.below(5);
            let method = *random.pick(&["test.sleep", "test.sleep", "test.block", "test.spin"]);
            ledger.ask(method, &json!({"ms": ms}), Expect::Result(json!(ms)))
        }
        13 => ledger.ask("test.panic", &Value::Null, Expect::Code(-32603)),
        14 => {
            let params = json!({"code": -32050, "message": "as was wanted"});
            ledger.ask("test.fail", &params, Expect::Code(-32050))
        }
        15 => {
            let most = *random.pick(&[600_000, 2_000, 2_000, 2_000]);
            let bytes = random.below(most);
            ledger.ask("test.big", &json!({"bytes": bytes}), Expect::Letters(bytes))
        }
        _ => ledger.ask("describeMethods", &json!([]), Expect::Anything),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(prepare: impl Fn(&mut Ledger), messages: &[Value]) -> Vec<String> {
        let mut ledger = Ledger::default();
        prepare(&mut ledger);
        messages.iter().for_each(|message| ledger.note(message));
        ledger.complaints(true)
    }

    #[test]
    fn l1_what_comes_unasked_is_found() {
        let event = |number: u64| json!({"jsonrpc": "2.0", "method": "e", "params": [number]});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "e", "params": [1]});
        assert_eq!(complaints(|_| (), &[event(1)]).len(), 1);
        let two = |ledger: &mut Ledger| ledger.expect_events("e", 2);
        assert_eq!(complaints(two, &[event(1), event(2)]), [""; 0]);
        for wrong in [&[event(1), event(2), event(3)][..], &[event(1), event(1)], &[request]] {
            assert_eq!(complaints(two, wrong).len(), 1, "{wrong:?}");
        }
    }

    #[test]
    fn m5_an_answer_without_an_id_is_one_to_a_fault() {
        let one = |ledger: &mut Ledger| ledger.expect_fault();
        let fault = |code: i64| json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": ""}});
        let result = json!({"jsonrpc": "2.0", "id": null, "result": 1});
        for code in [-32700, -32600] {
            assert_eq!(complaints(one, &[fault(code)]), [""; 0]);
        }
        let wrong = [&[fault(-32603)][..], &[result], &[fault(-32700), fault(-32700)]];
        for messages in wrong {
            assert_eq!(complaints(one, messages).len(), 1, "{messages:?}");
        }
    }
}
