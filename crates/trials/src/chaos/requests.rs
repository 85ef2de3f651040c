//! Requests to the daemon with known answers, as methods of the ledger.

use super::prelude::*;

impl Ledger {
    /// A ledger for a daemon with this profile. The id of a request is its position in the ledger.
    pub(super) fn for_profile(profile: Profile) -> Self {
        let (pages, counters) = Default::default();
        Ledger::new(profile.is_sequential(), &pages, &counters)
    }

    /// Records a request, and returns its text.
    pub(super) fn ask(&mut self, method: &str, params: &Value, outcome: Outcome) -> String {
        let emitted = params["count"].as_u64().filter(|_| method == "test.emit");
        let effect = emitted.map_or(Effect::None, Effect::Emitted);
        let id = (self.last + 1).to_string();
        self.expect(Due { effect, ..Due::new("requests", &id, outcome) });
        let head = format!(r#""jsonrpc":"2.0","id":{id},"method":{}"#, json!(method));
        format!(r#"{{{head},"params":{params}}}"#)
    }

    /// Records invalid input. Its error response has `id: null`, and may arrive before earlier responses.
    pub(super) fn expect_fault(&mut self) {
        let due = Due::refusal(Outcome::Code(-32700)).or(Outcome::Code(-32600));
        self.expect(due.overtaking());
    }

    /// Returns true if a request was answered.
    pub(super) fn is_answered(&self, id: u64) -> bool {
        id <= self.last && !self.is_due(&id.to_string())
    }

    /// Makes a random message, and records the answer that it must get. Only the test bed has the methods `test.…`.
    pub(super) fn random(
        &mut self,
        random: &mut Random,
        profile: Profile,
        is_testbed: bool,
    ) -> String {
        let version = Outcome::result(&json!({"version": env!("CARGO_PKG_VERSION")}));
        let has_system = profile != Profile::Editor;
        let mut fault = |text: &str| {
            self.expect_fault();
            text.to_owned()
        };
        match random.below(if is_testbed { 16 } else { 11 }) {
            0 | 1 => self.ask("version", &json!([]), version),
            2 => self.ask("initialize", &json!({}), Outcome::Any),
            3 => self.ask("listMethods", &Value::Null, Outcome::Any),
            4 => self.ask("no.such", &json!([1]), Outcome::Code(-32601)),
            5 => self.ask("setLogLevel", &json!({"level": 5}), Outcome::Code(-32602)),
            6 => fault(r#"{"jsonrpc":"2.0","id":[],"method":"version"}"#),
            7 => fault("{no JSON}"),
            8 => r#"{"jsonrpc":"2.0","method":"version"}"#.to_owned(),
            it @ (9 | 10) if has_system => {
                let params = match it {
                    9 => json!([random.bits(), "€", {"deep": [[[random.bits()]]]}]),
                    _ => json!(["x".repeat(random.below(30_000))]),
                };
                self.ask("system.echo", &params, Outcome::result(&params))
            }
            11 | 12 => {
                let ms = random.below(5);
                let method = *random.pick(&["test.sleep", "test.sleep", "test.block", "test.spin"]);
                self.ask(method, &json!({"ms": ms}), Outcome::result(&json!(ms)))
            }
            13 => self.ask("test.panic", &Value::Null, Outcome::Code(-32603)),
            14 => {
                let params = json!({"code": -32050, "message": "as was wanted"});
                self.ask("test.fail", &params, Outcome::Code(-32050))
            }
            15 => {
                let most = *random.pick(&[600_000, 2_000, 2_000, 2_000]);
                let bytes = random.below(most);
                self.ask("test.big", &json!({"bytes": bytes}), Outcome::Xs(bytes))
            }
            _ => self.ask("describeMethods", &json!([]), Outcome::Any),
        }
    }
}
