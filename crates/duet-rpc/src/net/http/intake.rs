//! HTTP request parser of a server, one request after the other: takes bytes in any pieces, and returns the
//! next step.

use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;

use duet_rpc_proto::fault::{Fault, FaultKind};
use duet_rpc_proto::message;
use http::StatusCode;

use super::terms::{Terms, Then};
use crate::net::web::{
    AccessPolicy, Body, Expect, Flaw, HeadReader, HttpRefusal, HttpRequest, JSON, Length,
    OutgoingResponse, Status,
};
use crate::remote::Identity;
use crate::transport::Inbox;

/// Reads requests, and puts their bodies into the inbox.
pub(super) struct Intake {
    rules: Rules,
    stage: ReadStage,
}

/// What is served, to whom, and up to which size.
pub(super) struct Rules {
    pub(super) access: Arc<AccessPolicy>,
    pub(super) path: Box<str>,
    pub(super) header_bytes: usize,
    pub(super) message_bytes: usize,
}

enum ReadStage {
    Head(HeadReader),
    /// With the identity of its sender.
    Body(Body, Terms, Option<Arc<Identity>>),
    /// The rest of a body that nobody wants.
    Unwanted(u64),
}

/// How much of a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestProgress {
    /// Nothing.
    Idle,
    /// A part of its head.
    Head,
    /// Its head, and not all of its body.
    Body,
}

/// What is to be done with what came.
pub(super) enum RequestStep {
    /// Nothing: more is needed.
    More,
    /// The client waits to hear that it may send the body.
    Continue,
    /// A message is whole.
    Message(Terms),
    /// This is to be sent: there is no message.
    Answer(HttpAnswer),
}

/// A response that answers no message.
pub(super) struct HttpAnswer {
    pub(super) bytes: Vec<u8>,
    pub(super) then: Then,
}

impl HttpAnswer {
    /// Says nothing, and closes.
    pub(super) fn close() -> Self {
        HttpAnswer { bytes: Vec::new(), then: Then::Close }
    }
}

/// The body of an unwanted request is skipped if it is no longer than this. To skip a longer one
/// would cost more than a new connection.
const SHORT: u64 = 8 * 1024;

const METHOD: HttpRefusal = HttpRefusal::new(
    StatusCode::METHOD_NOT_ALLOWED,
    "Only POST is served: each body is one message.",
);
const EXPECT: HttpRefusal = HttpRefusal::new(
    StatusCode::EXPECTATION_FAILED,
    "This expectation is not served. Use Expect: 100-continue, or none.",
);
const LENGTH: HttpRefusal = HttpRefusal::new(
    StatusCode::LENGTH_REQUIRED,
    "The length of the body is missing. Use Content-Length or chunked.",
);
const OVERSIZE: HttpRefusal =
    HttpRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, "The body is longer than a message may be.");
const CHUNKS: HttpRefusal = HttpRefusal::malformed("The chunks of the body are malformed.");

/// What a page is told that asks beforehand what it may send.
const PREFLIGHT: &str = "Access-Control-Allow-Methods: POST\r\n\
    Access-Control-Allow-Headers: Authorization, Content-Type\r\n\
    Access-Control-Allow-Private-Network: true\r\n\
    Access-Control-Max-Age: 600\r\n";

/// A request that is served: its body, and the identity of its sender.
type AdmittedBody = (Body, Option<Arc<Identity>>);

impl Intake {
    pub(super) fn new(rules: Rules) -> Self {
        Intake { stage: rules.start(), rules }
    }

    /// How much of a request has come.
    pub(super) fn progress(&self) -> RequestProgress {
        match &self.stage {
            ReadStage::Head(reader) if reader.has_begun() => RequestProgress::Head,
            ReadStage::Head(_) => RequestProgress::Idle,
            ReadStage::Body(..) | ReadStage::Unwanted(_) => RequestProgress::Body,
        }
    }

    /// The request that is being read took too long.
    pub(super) fn give_up(&mut self, inbox: &mut Inbox) -> io::Result<HttpAnswer> {
        inbox.drop_message()?;
        let before = mem::replace(&mut self.stage, self.rules.start());
        // One that is unwanted was answered already.
        let is_answered = matches!(before, ReadStage::Unwanted(_));
        let bytes = if is_answered { Vec::new() } else { respond(&HttpRefusal::LATE, None) };
        Ok(HttpAnswer { bytes, then: Then::Linger })
    }

    /// Takes what belongs to the request, and says how much of the piece that was.
    pub(super) fn take(
        &mut self,
        piece: &[u8],
        inbox: &mut Inbox,
    ) -> io::Result<(usize, RequestStep)> {
        let mut used = 0;
        loop {
            let rest = piece.get(used..).unwrap_or_default();
            match &mut self.stage {
                ReadStage::Unwanted(length) => {
                    let skipped = (*length).min(rest.len() as u64);
                    *length -= skipped;
                    used += skipped as usize;
                    if *length > 0 {
                        return Ok((used, RequestStep::More));
                    }
                    self.stage = self.rules.start();
                }
                ReadStage::Head(reader) => {
                    let taken = reader.take(rest);
                    used += taken.used;
                    let (stage, step) = match taken.head {
                        Ok(None) => return Ok((used, RequestStep::More)),
                        Ok(Some(head)) => self.rules.begin(head),
                        Err(refusal) => self.rules.hang_up(&refusal),
                    };
                    self.stage = stage;
                    match step {
                        // What it asks leave for is here already.
                        Some(RequestStep::Continue) if used < piece.len() => {}
                        Some(step) => return Ok((used, step)),
                        None => {}
                    }
                }
                ReadStage::Body(body, ..) => match body.take(rest, inbox.message()?) {
                    Ok(count) => {
                        used += count;
                        if !body.is_whole() {
                            return Ok((used, RequestStep::More));
                        }
                        let whole = mem::replace(&mut self.stage, self.rules.start());
                        if let ReadStage::Body(_, terms, identity) = whole {
                            inbox.note_sender(identity)?;
                            inbox.end_message()?;
                            return Ok((used, RequestStep::Message(terms)));
                        }
                    }
                    Err(flaw) => {
                        inbox.drop_message()?;
                        let refusal = refusal_of(flaw);
                        let bytes = match mem::replace(&mut self.stage, self.rules.start()) {
                            ReadStage::Body(_, mut terms, _) => {
                                terms.then = Then::Linger;
                                respond(&refusal, Some((&terms, false)))
                            }
                            _ => respond(&refusal, None),
                        };
                        let answer = HttpAnswer { bytes, then: Then::Linger };
                        return Ok((piece.len(), RequestStep::Answer(answer)));
                    }
                },
            }
        }
    }
}

impl fmt::Debug for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intake").field("progress", &self.progress()).finish_non_exhaustive()
    }
}

impl Rules {
    fn start(&self) -> ReadStage {
        ReadStage::Head(HeadReader::new(self.header_bytes))
    }

    /// What follows from a head.
    fn begin(&self, head: &[u8]) -> (ReadStage, Option<RequestStep>) {
        let request = match HttpRequest::read(head) {
            Ok(request) => request,
            Err(refusal) => return self.hang_up(&refusal),
        };
        let terms = Terms::new(&request, &self.access);
        match self.judge(&request) {
            Ok(Some((body, identity))) => {
                let waits = request.expect() == Some(Expect::Continue) && !body.is_whole();
                (ReadStage::Body(body, terms, identity), waits.then_some(RequestStep::Continue))
            }
            Ok(None) => self.preflight(&request, terms),
            Err(refusal) => self.refuse(&request, terms, &refusal),
        }
    }

    /// The body that is to be read, and the identity of its sender; `None` if the request only asks what
    /// it may send.
    fn judge(&self, request: &HttpRequest<'_>) -> Result<Option<AdmittedBody>, HttpRefusal> {
        self.access.check_origin(request)?;
        let is_preflight = request.method == "OPTIONS"
            && request.headers.asks_for_method.is_some()
            && self.access.allowed_origin(request).is_some();
        let identity = match is_preflight {
            // A page cannot show a token before it was told that it may.
            true => None,
            false => self.access.check_token(request)?,
        };
        if request.path != &*self.path {
            return Err(HttpRefusal::NO_SUCH_PATH);
        }
        if is_preflight {
            return Ok(None);
        }
        if request.method != "POST" {
            return Err(METHOD.with_headers(match self.access.has_origins() {
                true => &[("allow", "POST, OPTIONS")],
                false => &[("allow", "POST")],
            }));
        }
        if request.expect() == Some(Expect::Unknown) {
            return Err(EXPECT);
        }
        let length = request.length.ok_or(LENGTH)?;
        let body = Body::new(length, self.message_bytes).map_err(refusal_of)?;
        Ok(Some((body, identity)))
    }

    /// Answers a head that is none: nobody knows where the next one would begin.
    fn hang_up(&self, refusal: &HttpRefusal) -> (ReadStage, Option<RequestStep>) {
        let answer = HttpAnswer { bytes: respond(refusal, None), then: Then::Linger };
        (self.start(), Some(RequestStep::Answer(answer)))
    }

    fn preflight(
        &self,
        request: &HttpRequest<'_>,
        mut terms: Terms,
    ) -> (ReadStage, Option<RequestStep>) {
        let stage = self.skip_body(request, &mut terms, false);
        let mut bytes = Vec::new();
        let reply = OutgoingResponse { header: PREFLIGHT, ..terms.reply(Status::NO_CONTENT) };
        reply.write_head(0, &mut bytes);
        (stage, Some(RequestStep::Answer(HttpAnswer { bytes, then: terms.then })))
    }

    fn refuse(
        &self,
        request: &HttpRequest<'_>,
        mut terms: Terms,
        refusal: &HttpRefusal,
    ) -> (ReadStage, Option<RequestStep>) {
        let stage =
            self.skip_body(request, &mut terms, refusal.status == StatusCode::PAYLOAD_TOO_LARGE);
        let bytes = respond(refusal, Some((&terms, request.method == "HEAD")));
        (stage, Some(RequestStep::Answer(HttpAnswer { bytes, then: terms.then })))
    }

    /// Goes on behind the body of a request that is not taken, if that is known to be near.
    fn skip_body(&self, request: &HttpRequest<'_>, terms: &mut Terms, ends: bool) -> ReadStage {
        match request.length {
            None | Some(Length::Fixed(0)) if !ends => self.start(),
            // Who asks first may not send it at all.
            Some(Length::Fixed(length))
                if length <= SHORT
                    && terms.then == Then::GoOn
                    && request.expect().is_none()
                    && !ends =>
            {
                ReadStage::Unwanted(length)
            }
            _ => {
                terms.then = Then::Linger;
                self.start()
            }
        }
    }
}

fn refusal_of(flaw: Flaw) -> HttpRefusal {
    match flaw {
        Flaw::TooLarge => OVERSIZE,
        Flaw::Malformed => CHUNKS,
    }
}

/// The response to a request that is not served, and a record of it. What has no terms ends the
/// connection, and so does a body that is not read. The response to `HEAD` has no body.
fn respond(refusal: &HttpRefusal, terms: Option<(&Terms, bool)>) -> Vec<u8> {
    refusal.log();
    let mut reply = OutgoingResponse::to_refusal(refusal);
    let is_head = terms.is_some_and(|(_, is_head)| is_head);
    match terms {
        Some((terms, _)) => terms.apply_to(&mut reply),
        None => reply.closes = true,
    }
    if refusal.status != StatusCode::PAYLOAD_TOO_LARGE {
        return reply.write_refusal(refusal, is_head);
    }
    // This one is told as every transport tells it.
    reply.closes = true;
    reply.content_type = Some(JSON);
    let (mut body, mut bytes) = (Vec::new(), Vec::new());
    let fault = Fault { kind: FaultKind::Oversize, body: None };
    message::Reply::to_fault(&fault).write(&mut body);
    reply.write_head(body.len(), &mut bytes);
    bytes.extend_from_slice(&body);
    bytes
}
