//! Messages of the server.

use duet_rpc::proto::message::{Code, ErrorObject, Id, Incoming, Notification, Request};
use duet_rpc::proto::policy::BatchRule;
use duet_rpc::proto::text::{Member, Text};

use super::super::rewrite::{cancelled, is_last_progress, progress, replace};
use super::{
    ClientId, Handshake, MOST_SERVER_REQUESTS, MOST_SERVER_TOKENS, Out, Routes, TOKEN, Takes,
    error_answer, lost,
};

impl Routes {
    /// Takes a message of the server.
    pub(in super::super) fn handle_server(&mut self, text: &Text<'_>, out: &mut Vec<Out>) {
        match Incoming::classify(text, BatchRule::Allow, &self.limits) {
            Incoming::Batch(mut entries) => {
                while let Some((text, incoming)) = entries.next_entry() {
                    self.handle_one_of_server(&text, incoming, out);
                }
            }
            incoming => self.handle_one_of_server(text, incoming, out),
        }
    }

    fn handle_one_of_server(
        &mut self,
        text: &Text<'_>,
        incoming: Incoming<'_>,
        out: &mut Vec<Out>,
    ) {
        match incoming {
            Incoming::Response(_) | Incoming::InvalidResponse(_) => self.deliver(text, out),
            Incoming::Request(request) => self.ask_client(text, &request, out),
            Incoming::Notification(notification) => self.tell_clients(text, &notification, out),
            Incoming::Invalid(_) | Incoming::Batch(_) => {
                out.push(Out::Note("the server sent a message that is not JSON-RPC"));
            }
        }
    }

    /// Delivers an answer of the server to the client that asked.
    fn deliver(&mut self, text: &Text<'_>, out: &mut Vec<Out>) {
        let raw = text.member(Member::Id);
        let number = raw.and_then(|raw| raw.parse::<u64>().ok());
        if number.is_some() && number == self.repeated {
            self.repeated = None;
            out.extend(self.initialized.as_ref().map(|it| Out::Handshake(it.as_bytes().to_vec())));
            return;
        }
        let asked = number.and_then(|number| self.forget(number));
        let Some((raw, asked)) = raw.zip(asked) else {
            return out.push(Out::Note("the server answered a request that nobody waits for"));
        };
        if asked.is_initialize {
            self.end_handshake(Some(text), out);
        }
        if let Some(client) = asked.client {
            let answer = replace(text.as_str(), &[(raw, asked.id.as_raw())]);
            self.finish(client, asked.batch, answer, out);
        }
    }

    /// Gives the answer to everybody who waits for the first `initialize`; `None` if there is none. Without a result,
    /// the next one that a client sends goes to the server.
    pub(super) fn end_handshake(&mut self, answer: Option<&Text<'_>>, out: &mut Vec<Out>) {
        let (request, waiting) = match std::mem::take(&mut self.handshake) {
            Handshake::Asked { request, waiting } => (request, waiting),
            other => {
                self.handshake = other;
                return;
            }
        };
        let result = answer.and_then(|answer| answer.member(Member::Result));
        let same = answer.and_then(|answer| Some((answer, answer.member(Member::Id)?)));
        for (client, id, batch) in waiting {
            if result.is_some() {
                self.set_initialized(client);
            }
            let answer = match same {
                Some((answer, of)) => replace(answer.as_str(), &[(of, id.as_raw())]),
                None => error_answer(&id, &lost()),
            };
            self.finish(client, batch, answer, out);
        }
        match result {
            Some(result) => self.handshake = Handshake::Done { request, result: result.into() },
            None => self.initialized = None,
        }
    }

    /// Passes a request of the server to one client.
    fn ask_client(&mut self, text: &Text<'_>, request: &Request<'_>, out: &mut Vec<Out>) {
        let id = request.id.to_id();
        let running = self.running.values().filter_map(|asked| asked.client);
        let takes = |client: &ClientId| {
            self.clients.get(client).is_some_and(|it| it.takes == Takes::Everything)
        };
        let oldest = self.clients.keys().copied().filter(|it| self.is_ready(*it));
        let has_room = self.server_requests.len() < MOST_SERVER_REQUESTS;
        let Some(client) = running.chain(oldest).find(takes).filter(|_| has_room) else {
            let message = "No client can answer";
            let error = ErrorObject::application(Code::SERVER_BUSY, message, None);
            return out.push(Out::Server(error_answer(&id, &error)));
        };
        if request.method == "window/workDoneProgress/create"
            && self.server_tokens.len() < MOST_SERVER_TOKENS
            && let Some(token) = progress(&request.method, request.params.as_raw())
        {
            self.server_tokens.insert(token.to_owned(), client);
        }
        let number = self.next();
        let ours = number.to_string();
        let parts: Vec<_> = text.member(Member::Id).map(|raw| (raw, &*ours)).into_iter().collect();
        out.push(Out::Client(client, replace(text.as_str(), &parts)));
        self.server_requests.insert(number, (client, id));
    }

    fn tell_clients(
        &mut self,
        text: &Text<'_>,
        notification: &Notification<'_>,
        out: &mut Vec<Out>,
    ) {
        let (method, params) = (&*notification.method, notification.params.as_raw());
        if let Some(raw) = cancelled(method, params) {
            let id = Id::from_raw(raw);
            let mut asked = self.server_requests.iter();
            if let Some((number, (client, _))) = asked.find(|(_, (_, it))| Some(it) == id.as_ref())
            {
                let message = replace(text.as_str(), &[(raw, &number.to_string())]);
                out.push(Out::Client(*client, message));
            }
            return;
        }
        if let Some(raw) = progress(method, params) {
            if let Some(ours) = raw.strip_prefix(TOKEN) {
                let token = ours.strip_suffix('"').and_then(|number| number.parse().ok());
                let owner = token.and_then(|token: u64| self.tokens.get(&token));
                if let Some((client, token)) = owner
                    && self.clients.get(client).is_some_and(|it| it.takes != Takes::Answers)
                {
                    out.push(Out::Client(*client, replace(text.as_str(), &[(raw, token)])));
                }
                return;
            }
            if let Some(client) = self.server_tokens.get(raw).copied() {
                if params.is_some_and(is_last_progress) {
                    self.server_tokens.remove(raw);
                }
                return out.push(Out::Client(client, text.as_str().into()));
            }
        }
        for (&client, it) in &self.clients {
            if it.takes == Takes::Everything && self.is_ready(client) {
                out.push(Out::Client(client, text.as_str().into()));
            }
        }
    }
}
