//! Messages of clients.

use duet_rpc::proto::message::{
    Code, ErrorObject, Id, Incoming, Notification, Request, write_raw_result,
};
use duet_rpc::proto::policy::BatchRule;
use duet_rpc::proto::text::{Member, Text};

use super::super::rewrite::{cancelled, member, progress, replace, tokens};
use super::{
    Asked, ClientId, Gathering, Handshake, MOST_ID_BYTES, MOST_RUNNING, Out, Protocol, Routes,
    TOKEN, error_answer,
};

impl Routes {
    /// Takes a message of a client.
    pub(in super::super) fn handle_client(
        &mut self,
        client: ClientId,
        text: &Text<'_>,
        out: &mut Vec<Out>,
    ) {
        match Incoming::classify(text, BatchRule::Allow, &self.limits) {
            Incoming::Batch(mut entries) => {
                let batch = self.next();
                // One more than there are, so that it is not whole before its last entry.
                let gathering = Gathering { client, left: 1, answers: Vec::new() };
                self.batches.insert(batch, gathering);
                while let Some((text, incoming)) = entries.next_entry() {
                    self.handle_one(client, &text, incoming, Some(batch), out);
                }
                self.gather(batch, None, out);
            }
            incoming => self.handle_one(client, text, incoming, None, out),
        }
        self.settle(client, out);
    }

    fn handle_one(
        &mut self,
        client: ClientId,
        text: &Text<'_>,
        incoming: Incoming<'_>,
        batch: Option<u64>,
        out: &mut Vec<Out>,
    ) {
        match incoming {
            Incoming::Request(request) => self.ask(client, text, &request, batch, out),
            Incoming::Notification(notification) => self.tell(client, text, &notification, out),
            Incoming::Response(_) | Incoming::InvalidResponse(_) => {
                self.pass_answer_on(client, text, out);
            }
            Incoming::Invalid(reply) => {
                let mut answer = Vec::new();
                reply.write(&mut answer);
                self.count_in(batch);
                self.answer(client, batch, answer, out);
            }
            // A batch has no batches in it.
            Incoming::Batch(_) => {}
        }
    }

    fn ask(
        &mut self,
        client: ClientId,
        text: &Text<'_>,
        request: &Request<'_>,
        batch: Option<u64>,
        out: &mut Vec<Out>,
    ) {
        let id = request.id.to_id();
        let params = request.params.as_raw();
        let wanted = tokens(params.unwrap_or_default());
        let id_bytes = id.as_raw().len() + wanted.iter().map(|raw| raw.len()).sum::<usize>();
        let Some(asker) = self.clients.get_mut(&client) else { return };
        asker.running += 1;
        let is_full = asker.running > MOST_RUNNING || asker.id_bytes + id_bytes > MOST_ID_BYTES;
        self.count_in(batch);
        if is_full {
            let error = ErrorObject::server_busy(Code::SERVER_BUSY, MOST_RUNNING as u64);
            return self.finish(client, batch, error_answer(&id, &error), out);
        }
        let is_initialize = request.method == "initialize";
        if is_initialize {
            match &mut self.handshake {
                Handshake::None => {
                    self.begin_handshake(text, params);
                    // Some notifications may come before the answer.
                    self.set_initialized(client);
                }
                Handshake::Asked { waiting, .. } => return waiting.push((client, id, batch)),
                Handshake::Done { result, .. } => {
                    let mut answer = Vec::new();
                    write_raw_result(&mut answer, &id, result);
                    self.set_initialized(client);
                    return self.finish(client, batch, answer, out);
                }
            }
        } else if self.protocol == Protocol::Lsp && request.method == "shutdown" {
            let mut answer = Vec::new();
            write_raw_result(&mut answer, &id, "null");
            return self.finish(client, batch, answer, out);
        }
        let number = self.next();
        let (ours, mut parts) = (number.to_string(), Vec::new());
        parts.extend(text.member(Member::Id).map(|id| (id, ours.as_str())));
        let asked: Vec<(&str, u64, String)> = wanted
            .into_iter()
            .map(|raw| {
                let token = self.next();
                (raw, token, format!("{TOKEN}{token}\""))
            })
            .collect();
        parts.extend(asked.iter().map(|(raw, _, ours)| (*raw, ours.as_str())));
        out.push(Out::Server(replace(text.as_str(), &parts)));
        let numbers = asked.iter().map(|(_, token, _)| *token).collect();
        for (raw, token, _) in &asked {
            self.tokens.insert(*token, (client, (*raw).to_owned()));
        }
        if let Some(asker) = self.clients.get_mut(&client) {
            asker.id_bytes += id_bytes;
        }
        self.numbers.insert((client, id.clone()), number);
        let client = Some(client);
        let asked = Asked { client, id, batch, tokens: numbers, id_bytes, is_initialize };
        self.running.insert(number, asked);
    }

    fn begin_handshake(&mut self, text: &Text<'_>, params: Option<&str>) {
        let is_mcp = params.is_some_and(|params| member(params, "protocolVersion").is_some());
        self.protocol = if is_mcp { Protocol::Mcp } else { Protocol::Lsp };
        self.handshake = Handshake::Asked { request: text.as_str().into(), waiting: Vec::new() };
    }

    fn tell(
        &mut self,
        client: ClientId,
        text: &Text<'_>,
        notification: &Notification<'_>,
        out: &mut Vec<Out>,
    ) {
        let (method, params) = (&*notification.method, notification.params.as_raw());
        if let Some(raw) = cancelled(method, params) {
            return self.cancel(client, text, raw, out);
        }
        match method {
            "initialized" | "notifications/initialized"
                if !matches!(self.handshake, Handshake::None) =>
            {
                if self.initialized.is_some() {
                    return;
                }
                self.initialized = Some(text.as_str().into());
            }
            "exit" if self.protocol == Protocol::Lsp => return out.push(Out::Close(client)),
            "window/workDoneProgress/cancel" => {
                return self.cancel_progress(client, text, progress(method, params), out);
            }
            _ => {}
        }
        out.push(Out::Server(text.as_str().into()));
    }

    /// Passes the cancellation of progress on, if this client gave the token, or was asked to show its progress.
    fn cancel_progress(
        &self,
        client: ClientId,
        text: &Text<'_>,
        token: Option<&str>,
        out: &mut Vec<Out>,
    ) {
        let Some(raw) = token else { return };
        let own = |(_, (owner, it)): &(&u64, &(ClientId, String))| *owner == client && it == raw;
        if let Some((ours, _)) = self.tokens.iter().find(own) {
            let ours = format!("{TOKEN}{ours}\"");
            out.push(Out::Server(replace(text.as_str(), &[(raw, &ours)])));
        } else if self.server_tokens.get(raw) == Some(&client) {
            out.push(Out::Server(text.as_str().into()));
        }
    }

    /// Passes a cancellation on, if it is about a running request of this client.
    fn cancel(&mut self, client: ClientId, text: &Text<'_>, raw: &str, out: &mut Vec<Out>) {
        let Some(id) = Id::from_raw(raw) else { return };
        let group = self.clients.get(&client).map(|it| it.group);
        let others = self.clients.iter().filter(|(_, it)| Some(it.group) == group);
        let number = others.filter_map(|(&of, _)| self.numbers.get(&(of, id.clone()))).next();
        let Some(&number) = number else { return };
        out.push(Out::Server(replace(text.as_str(), &[(raw, &number.to_string())])));
        // A server of MCP does not answer a cancelled request.
        if self.protocol == Protocol::Mcp
            && let Some(asked) = self.forget(number)
            && let Some(asker) = asked.client
        {
            if let Some(of) = self.clients.get_mut(&asker) {
                of.running -= 1;
            }
            if let Some(batch) = asked.batch {
                self.gather(batch, None, out);
            }
            self.settle(asker, out);
        }
    }

    /// Passes the answer of a client to the server.
    fn pass_answer_on(&mut self, client: ClientId, text: &Text<'_>, out: &mut Vec<Out>) {
        let raw = text.member(Member::Id);
        let number = raw.and_then(|raw| raw.parse().ok());
        let is_asked = |number: &u64| {
            self.server_requests.get(number).is_some_and(|(asked, _)| *asked == client)
        };
        let Some((raw, number)) = raw.zip(number.filter(is_asked)) else {
            return out.push(Out::Note("a client answered a request that it was not asked"));
        };
        if let Some((_, id)) = self.server_requests.remove(&number) {
            out.push(Out::Server(replace(text.as_str(), &[(raw, id.as_raw())])));
        }
    }
}
