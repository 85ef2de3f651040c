//! The checks of a server: what each sends, and how it judges the reaction.
//!
//! A fault is a reaction that hangs, loses or confuses a client of any protocol. A reaction that a protocol allows, or
//! that only some clients mind, is at most a warning:
//!
//! | reaction | verdict |
//! |---|---|
//! | no answer to a valid request; a second answer; an answer to a notification | fault |
//! | exit, or no answers any more, after a broken message | fault |
//! | silence about a broken message | warning: LSP and MCP libraries often only log it |
//! | another error code than that of JSON-RPC | warning |
//! | no answer to a cancelled request | fault for LSP; right for MCP |

mod ends;

use std::time::Duration;

use duet_rpc::transport::ExitReport;
use serde_json::{Value, json};

use super::process::{NoAnswer, ServerSetup, TestedServer, UNKNOWN};
use super::stand_in::StandIn;
use super::verdict::{Finding, Verdict};
use crate::args::ProtocolName;
use crate::cmd::handshake;
use crate::sys::processes::END_SIGNALS;

/// Time for helpers of the server, such as a linter, to end after it.
const HELPER_TIME: Duration = Duration::from_secs(5);

/// Time to wait for the exit of a server after the handshake, without a request.
const IDLE_TIME: Duration = Duration::from_secs(3);

/// Time for a reaction that need not come.
const REACTION_TIME: Duration = Duration::from_millis(200);

/// Size of the large message.
const LARGE: usize = 4 * 1024 * 1024;

/// Requests in one write.
const PIPELINED: usize = 16;

/// One run of all checks.
pub(super) struct Examination<'a> {
    setup: &'a ServerSetup,
    /// The server that the next check can use; `None` if it has to be started.
    server: Option<TestedServer>,
    /// The process that the next server should not outlive, in place of this one.
    client: Option<StandIn>,
    /// `_meta` for each request, for an MCP server without a handshake.
    meta: Option<Value>,
    /// The result of the handshake.
    greeting: Value,
    findings: Vec<Finding>,
    tally: Tally,
}

/// Faults that can come with any check.
#[derive(Default)]
struct Tally {
    stray: Vec<String>,
    invalid: Vec<String>,
    unasked: Vec<String>,
    left_behind: Vec<String>,
}

/// All findings, and the name and version that the server gave.
pub(super) struct Examined {
    pub(super) findings: Vec<Finding>,
    pub(super) name: Option<String>,
}

impl<'a> Examination<'a> {
    pub(super) fn new(setup: &'a ServerSetup, server: TestedServer) -> Self {
        Examination {
            setup,
            server: Some(server),
            client: None,
            meta: None,
            greeting: Value::Null,
            findings: Vec::new(),
            tally: Tally::default(),
        }
    }

    pub(super) async fn run(mut self) -> Examined {
        let start = self.greet().await;
        let is_up = !matches!(start, Verdict::Fault { .. });
        self.add("start", start);
        if is_up && self.converse().await {
            self.end().await;
        }
        self.drop_server().await;
        self.count();
        let info = ["/serverInfo", "/_meta/io.modelcontextprotocol~1serverInfo"];
        let info = info.iter().find_map(|path| self.greeting.pointer(path));
        let part = |name| info.and_then(|info| info.get(name)).and_then(Value::as_str);
        let name = part("name").map(|name| match part("version") {
            Some(version) => format!("{name} {version}"),
            None => name.to_owned(),
        });
        Examined { findings: self.findings, name }
    }

    fn add(&mut self, check: &'static str, verdict: Verdict) {
        self.findings.push(Finding { check, verdict });
    }

    /// The checks on running servers. Returns `false` if a server does not run long enough for any check.
    async fn converse(&mut self) -> bool {
        let verdict = self.unknown_method().await;
        // The other checks find out with such requests whether the server still answers.
        let is_answered = self.server.is_some();
        if !is_answered && let Some(verdict) = self.exit_after_greeting().await {
            self.findings.clear();
            self.add("start", verdict);
            return false;
        }
        self.add("unknown method", verdict);
        if !is_answered {
            return true;
        }
        let verdict = self.notification().await;
        self.add("notification", verdict);
        let verdict = self.ids().await;
        self.add("ids", verdict);
        let verdict = self.pipelined().await;
        self.add("pipelined", verdict);
        let verdict = self.large().await;
        self.add("large message", verdict);
        let verdict = self.cancellation().await;
        self.add("cancellation", verdict);
        let verdict = self.broken("{\"jsonrpc\": oops", -32700, "not JSON").await;
        self.add("not JSON", verdict);
        let verdict =
            self.broken(r#"{"jsonrpc":"2.0","id":"broken","method":42}"#, -32600, "not a request");
        let verdict = verdict.await;
        self.add("invalid request", verdict);
        true
    }

    /// Starts a server, and checks whether it exits after the handshake, without a request. Returns the verdict if so.
    async fn exit_after_greeting(&mut self) -> Option<Verdict> {
        self.server().await?.exit(IDLE_TIME).await?;
        let end = self.drop_server().await?;
        let after = match (self.setup.protocol, &self.meta) {
            (None, _) => "its first answer",
            (Some(_), None) => "the handshake",
            (Some(_), Some(_)) => "its answer to `server/discover`",
        };
        let stderr = wrote_to_stderr(&end).unwrap_or_default();
        Some(Verdict::fault(
            format!("exited after {after}, {}{stderr}", status(&end)),
            "keep running until stdin ends",
        ))
    }

    /// The checks that end a server.
    async fn end(&mut self) {
        if self.setup.protocol == Some(ProtocolName::Lsp) {
            let verdict = self.shutdown().await;
            self.add("shutdown", verdict);
        }
        let verdict = self.end_of_input().await;
        self.add("end of input", verdict);
        for (name, signal, may_be_ignored) in END_SIGNALS {
            let verdict = self.signal(signal, name, may_be_ignored).await;
            self.add(name, verdict);
        }
    }

    /// The running server, or a new one after its handshake.
    async fn server(&mut self) -> Option<&mut TestedServer> {
        if self.server.is_none() {
            self.server = TestedServer::start(self.setup).ok();
            if self.server.is_some() && matches!(self.greet().await, Verdict::Fault { .. }) {
                self.drop_server().await;
            }
        }
        // These do not belong to the next check.
        let server = self.server.as_mut()?;
        self.tally.unasked.extend(server.take_unasked().iter().map(Value::to_string));
        Some(server)
    }

    /// Stops the server, if there is one, and keeps what it did wrong. A process counts as left behind only if the
    /// server itself had exited, and if the process does not end a little later.
    async fn drop_server(&mut self) -> Option<ExitReport> {
        let mut server = self.server.take()?;
        let has_exited = server.exit(Duration::ZERO).await.is_some();
        if has_exited && self.tally.left_behind.is_empty() {
            server.wait_for_helpers(HELPER_TIME).await;
        }
        let end = server.close().await;
        self.tally.stray.append(&mut server.stray);
        self.tally.invalid.append(&mut server.invalid);
        let unasked = server.take_unasked().into_iter().chain(server.take_repeated());
        self.tally.unasked.extend(unasked.map(|answer| answer.to_string()));
        if has_exited {
            self.tally.left_behind.extend(end.stopped.iter().map(|it| it.program.clone()));
        }
        Some(end)
    }

    /// Sends the first messages, and judges the answer.
    async fn greet(&mut self) -> Verdict {
        let time = self.setup.answer_time;
        let Some(server) = &mut self.server else { return Verdict::gone() };
        let Some(protocol) = self.setup.protocol else {
            return match server.call(UNKNOWN, &json!({}), time).await {
                Ok(_) => Verdict::Ok(format!("answered after {:.1?}", server.started.elapsed())),
                Err(why) => self.no_greeting("a request", why).await,
            };
        };
        let mut params = handshake::initialize(protocol);
        if let (Some(client), true) = (&self.client, protocol == ProtocolName::Lsp) {
            params.insert("processId".to_owned(), client.id().into());
        }
        let params = Value::Object(params);
        let mut method = "initialize";
        let mut answer = server.call(method, &params, time).await;
        let is_error = answer.as_ref().is_ok_and(|answer| answer.get("error").is_some());
        if protocol == ProtocolName::Mcp && is_error {
            method = handshake::DISCOVER;
            let meta = handshake::stateless_meta();
            answer = server.call(method, &json!({"_meta": meta}), time).await;
            self.meta = Some(meta);
        }
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => return self.no_greeting(&format!("`{method}`"), why).await,
        };
        if let Some(error) = answer.get("error") {
            return Verdict::fault(
                format!("answered `{method}` with an error: {}", brief(error)),
                "answer it with a result; if it has another protocol, use `--handshake` or `--framing`",
            );
        }
        self.greeting = answer.get("result").cloned().unwrap_or_default();
        if method == "initialize" {
            let (method, params) = handshake::initialized(protocol);
            server.notify(method, &params);
        }
        let members: &[(&str, &str)] = match (protocol, method) {
            (ProtocolName::Lsp, _) => &[("capabilities", "an object")],
            (ProtocolName::Mcp, "initialize") => &[
                ("protocolVersion", "a string"),
                ("capabilities", "an object"),
                ("serverInfo", "an object"),
            ],
            (ProtocolName::Mcp, _) => &[("capabilities", "an object")],
        };
        for (name, expected) in members {
            let value = self.greeting.get(name);
            let is_right = match *expected {
                "a string" => value.is_some_and(Value::is_string),
                _ => value.is_some_and(Value::is_object),
            };
            if !is_right {
                return Verdict::fault(
                    format!("the result of `{method}` has no `{name}`"),
                    "return the members that the protocol requires",
                );
            }
        }
        let took = server.started.elapsed();
        Verdict::Ok(format!("answered `{method}` after {took:.1?}"))
    }

    /// The verdict about a server that did not answer the first request.
    async fn no_greeting(&mut self, what: &str, why: NoAnswer) -> Verdict {
        let time = self.setup.answer_time;
        let (mut stray, mut begins_with_length) = (None, false);
        if let Some(server) = &self.server {
            stray = server.stray.first().cloned();
            begins_with_length = server.begins_with_length();
        }
        let end = self.drop_server().await.unwrap_or_default();
        let mut text = match why {
            NoAnswer::Timeout => format!("no answer to {what} within {time:?}"),
            NoAnswer::Eof => format!("no answer to {what}, {}", status(&end)),
            NoAnswer::Flood => format!("no answer to {what}, but output without end"),
        };
        text.extend(stray.map(|stray| format!("; {stray}")));
        text.extend(wrote_to_stderr(&end));
        let advice = match why {
            _ if begins_with_length => {
                "its output begins with a length of four bytes: use `--framing length`"
            }
            NoAnswer::Timeout => {
                "check `--framing`, `--handshake` and the arguments of the server, such as --stdio; \
                 flush stdout after each message; for a server that starts slowly, raise `--timeout`"
            }
            NoAnswer::Eof | NoAnswer::Flood => {
                "check `--framing`, `--handshake` and the arguments of the server, such as --stdio"
            }
        };
        Verdict::fault(text, advice)
    }

    /// The params of a request of ours.
    fn params(&self, mut params: Value) -> Value {
        if let (Some(meta), Some(params)) = (&self.meta, params.as_object_mut()) {
            params.insert("_meta".to_owned(), meta.clone());
        }
        params
    }

    /// Checks that the server still answers; drops it if not.
    async fn probe(&mut self) -> Result<Value, String> {
        let (params, time) = (self.params(json!({})), self.setup.answer_time);
        let Some(server) = &mut self.server else { return Err("it does not start".to_owned()) };
        match server.call(UNKNOWN, &params, time).await {
            Ok(answer) => Ok(answer),
            Err(NoAnswer::Timeout) => {
                self.drop_server().await;
                Err(format!("it does not answer within {time:?}"))
            }
            Err(NoAnswer::Eof) => {
                let end = self.drop_server().await.unwrap_or_default();
                Err(match end.exit {
                    Some(status) => format!("it ended, {status}"),
                    None => status(&end),
                })
            }
            Err(NoAnswer::Flood) => {
                self.drop_server().await;
                Err("it writes without end".to_owned())
            }
        }
    }

    async fn unknown_method(&mut self) -> Verdict {
        if self.server().await.is_none() {
            return Verdict::gone();
        }
        let advice = "answer unknown methods with the error -32601 (Method not found)";
        let answer = match self.probe().await {
            Ok(answer) => answer,
            Err(why) => {
                return Verdict::fault(format!("a request for an unknown method: {why}"), advice);
            }
        };
        match code(&answer) {
            Some(-32601) => Verdict::Ok("error -32601".to_owned()),
            // The server wants a handshake, which nobody asked for.
            Some(-32002) if self.setup.protocol.is_none() => {
                Verdict::Ok("error -32002; `--handshake lsp` checks more".to_owned())
            }
            Some(other) => Verdict::warning(format!("error {other}, expected -32601"), advice),
            None => Verdict::fault(format!("no error, but {}", brief(&answer)), advice),
        }
    }

    async fn notification(&mut self) -> Verdict {
        let Some(server) = self.server().await else { return Verdict::gone() };
        server.notify(UNKNOWN, &json!({}));
        if let Err(why) = self.probe().await {
            let advice = "ignore notifications that the server does not know";
            return Verdict::fault(format!("after an unknown notification: {why}"), advice);
        }
        match self.reaction().await {
            Some(answer) => Verdict::fault(
                format!("answered a notification: {}", brief(&answer)),
                "send no answer to a message without an id",
            ),
            None => Verdict::Ok("ignored".to_owned()),
        }
    }

    /// An answer that does not belong to a request, if there is one.
    async fn reaction(&mut self) -> Option<Value> {
        let server = self.server.as_mut()?;
        server.listen(REACTION_TIME).await;
        server.take_unasked().into_iter().next()
    }

    async fn ids(&mut self) -> Verdict {
        let (params, time) = (self.params(json!({})), self.setup.answer_time);
        let ids = [json!("duet-ä"), json!("4711"), json!(4711), json!(0), json!(2_147_483_647)];
        for id in ids {
            let Some(server) = self.server().await else { return Verdict::gone() };
            let request = server.request_with_id(&id, UNKNOWN, &params);
            server.send(&request);
            let Err(why) = server.answer(&id, time).await else { continue };
            let other = server.take_unasked().into_iter().next();
            let end = self.drop_server().await.unwrap_or_default();
            let why = match (other, why) {
                (Some(answer), _) => format!("the answer is {}", brief(&answer)),
                (None, NoAnswer::Timeout) => format!("no answer within {time:?}"),
                (None, NoAnswer::Eof) => status(&end),
                (None, NoAnswer::Flood) => "output without end".to_owned(),
            };
            let advice = "answer with the id of the request, of the same type and value";
            return Verdict::fault(format!("a request with the id {id}: {why}"), advice);
        }
        Verdict::Ok("strings, 0 and large numbers come back unchanged".to_owned())
    }

    async fn pipelined(&mut self) -> Verdict {
        let (params, time) = (self.params(json!({})), self.setup.answer_time);
        let Some(server) = self.server().await else { return Verdict::gone() };
        let mut ids = Vec::new();
        for _ in 0..PIPELINED {
            let (request, id) = server.request(UNKNOWN, &params);
            server.send(&request);
            ids.push(id);
        }
        let mut answered = 0;
        for id in &ids {
            match server.answer(id, time).await {
                Ok(_) => answered += 1,
                // The others would cost as much time.
                Err(_) => break,
            }
        }
        server.listen(REACTION_TIME).await;
        let again = server.take_repeated();
        let advice = "answer each request exactly once, even if several arrive in one read";
        if let Some(again) = again.first() {
            return Verdict::fault(format!("a second answer: {}", brief(again)), advice);
        }
        if answered < PIPELINED {
            self.drop_server().await;
            let text = format!("{PIPELINED} requests in one write, and {answered} answers");
            return Verdict::fault(text, advice);
        }
        Verdict::Ok(format!("{PIPELINED} requests in one write, each answered once"))
    }

    async fn large(&mut self) -> Verdict {
        let (params, time) =
            (self.params(json!({"text": "x".repeat(LARGE)})), self.setup.answer_time);
        let Some(server) = self.server().await else { return Verdict::gone() };
        let (request, id) = server.request(UNKNOWN, &params);
        server.send(&request);
        let answer = server.answer(&id, time).await;
        // A server that refuses the size may not know the id.
        let refused = server.take_unasked().into_iter().next();
        let next = self.probe().await;
        let advice =
            "read until the message is complete, and answer a message over the limit with an error";
        match (answer.ok().or(refused), next) {
            (_, Err(why)) => Verdict::fault(format!("after a message of 4 MiB: {why}"), advice),
            (Some(_), Ok(_)) => Verdict::Ok("a message of 4 MiB is answered".to_owned()),
            (None, Ok(_)) => Verdict::warning("no answer to a message of 4 MiB", advice),
        }
    }

    async fn cancellation(&mut self) -> Verdict {
        let Some(protocol) = self.setup.protocol else {
            return Verdict::Skipped("it needs `--handshake`");
        };
        let time = self.setup.answer_time;
        let can_search = self.greeting.pointer("/capabilities/workspaceSymbolProvider");
        let can_search = can_search.is_some_and(|it| it.is_object() || *it == json!(true));
        let (method, params) = match protocol {
            ProtocolName::Lsp if can_search => ("workspace/symbol", json!({"query": "duet"})),
            ProtocolName::Lsp => (UNKNOWN, json!({})),
            ProtocolName::Mcp => ("tools/list", self.params(json!({}))),
        };
        let cancel = |id: &Value| match protocol {
            ProtocolName::Lsp => ("$/cancelRequest", json!({"id": id})),
            ProtocolName::Mcp => ("notifications/cancelled", json!({"requestId": id})),
        };
        let Some(server) = self.server().await else { return Verdict::gone() };
        let (request, id) = server.request(method, &params);
        server.send(&request);
        for id in [&id, &json!(987_654)] {
            let (method, params) = cancel(id);
            server.notify(method, &params);
        }
        let answer = match protocol {
            ProtocolName::Lsp => server.answer(&id, time).await.ok(),
            ProtocolName::Mcp => server.answer(&id, REACTION_TIME).await.ok(),
        };
        if let Err(why) = self.probe().await {
            let advice = "ignore the cancellation of a request that is not running";
            return Verdict::fault(format!("after a cancellation: {why}"), advice);
        }
        match (protocol, answer) {
            (ProtocolName::Lsp, None) => Verdict::fault(
                format!("no answer to a cancelled request within {time:?}"),
                "answer a cancelled request with a result, or the error -32800 (RequestCancelled)",
            ),
            (_, None) => Verdict::Ok("a cancelled request gets no answer".to_owned()),
            (_, Some(answer)) => Verdict::Ok(match code(&answer) {
                Some(code) => format!("a cancelled request is answered with the error {code}"),
                None => "a cancelled request is answered with its result".to_owned(),
            }),
        }
    }

    /// Sends a broken message, and checks that the server reports it and goes on.
    async fn broken(&mut self, body: &str, expected: i64, what: &str) -> Verdict {
        let Some(server) = self.server().await else { return Verdict::gone() };
        server.send_text(body);
        let advice = match expected {
            -32700 => "answer with the error -32700 (Parse error) and `\"id\": null`, and read on",
            _ => {
                "answer with the error -32600 (Invalid Request) and the id of the message, and read on"
            }
        };
        if let Err(why) = self.probe().await {
            return Verdict::fault(format!("after a message that is {what}: {why}"), advice);
        }
        match self.reaction().await {
            None => Verdict::warning("no answer; the next request is served", advice),
            Some(answer) => match code(&answer) {
                Some(code) if code == expected => Verdict::Ok(format!("error {code}")),
                Some(code) => {
                    Verdict::warning(format!("error {code}, expected {expected}"), advice)
                }
                None => Verdict::fault(format!("no error, but {}", brief(&answer)), advice),
            },
        }
    }

    /// The faults that can come with any check.
    fn count(&mut self) {
        let judge = |found: &[String], ok: &str, next| match found.first() {
            None => Verdict::Ok(ok.to_owned()),
            Some(first) => Verdict::fault(format!("{first}{}", and_more(found.len())), next),
        };
        let Tally { stray, invalid, unasked, left_behind } = std::mem::take(&mut self.tally);
        let stdout = judge(
            &stray,
            "frames and nothing else",
            "print to stderr, and check the lengths and encoding of messages",
        );
        let messages = judge(
            &invalid,
            "all of them are JSON-RPC 2.0",
            "send messages as JSON-RPC 2.0 defines them",
        );
        let unasked: Vec<_> =
            unasked.iter().map(|it| format!("an answer that nobody asked for: {it}")).collect();
        let next = "answer each request once, with the id of the request";
        let answers = judge(&unasked, "each belongs to a request", next);
        let left: Vec<_> =
            left_behind.iter().map(|it| format!("left behind after the exit: {it}")).collect();
        let next = "end child processes with the server; a shell before it starts it with `exec`";
        let processes = judge(&left, "none is left behind", next);
        self.add("stdout", stdout);
        self.add("messages", messages);
        self.add("answers", answers);
        self.add("processes", processes);
    }
}

fn and_more(count: usize) -> String {
    if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() }
}

fn code(answer: &Value) -> Option<i64> {
    answer.pointer("/error/code").and_then(Value::as_i64)
}

fn brief(value: &Value) -> String {
    value.to_string()
}

fn status(end: &ExitReport) -> String {
    end.exit
        .map_or("it closed stdout and had to be stopped".to_owned(), |status| status.to_string())
}

fn wrote_to_stderr(end: &ExitReport) -> Option<String> {
    telling_line(&end.last_stderr).map(|line| format!("; it wrote to stderr: {line}"))
}

/// The line of stderr that most likely tells the reason: the last one that names a failure, or else the last one. After
/// the reason, some runtimes print a stack trace or their version.
pub(super) fn telling_line(stderr: &[String]) -> Option<&String> {
    const SIGNS: [&str; 8] =
        ["error", "exception", "usage:", "cannot", "not found", "missing", "required", "invalid"];
    let names_failure = |line: &&String| {
        let line = line.to_lowercase();
        SIGNS.iter().any(|sign| line.contains(sign))
    };
    let is_text = |line: &&String| !line.trim().is_empty();
    stderr.iter().rfind(names_failure).or_else(|| stderr.iter().rfind(is_text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c10_the_line_of_stderr_that_names_the_failure_is_shown() {
        for (lines, expected) in [
            (&[][..], None),
            (&["one", "two", " "], Some("two")),
            (
                &["a.js:3", "Error: no such module", "    at load (a.js:3)", "Node.js v20"],
                Some("Error: no such module"),
            ),
            (&["Traceback", "  File a.py", "ValueError: wrong"], Some("ValueError: wrong")),
            (&["usage: server [--stdio]", "See the manual."], Some("usage: server [--stdio]")),
        ] {
            let lines: Vec<_> = lines.iter().map(|&line| line.to_owned()).collect();
            assert_eq!(telling_line(&lines).map(String::as_str), expected);
        }
    }
}
