//! Writer of HTTP responses.

use super::status::{HttpRefusal, Status};

/// Tells a client which asks first that it may send the body.
pub(in crate::net) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The content type of messages.
pub(in crate::net) const JSON: &str = "application/json";

/// The whole response to a request that is not served, behind which the connection ends.
pub(in crate::net) fn final_response(refusal: &HttpRefusal) -> Vec<u8> {
    OutgoingResponse { closes: true, ..OutgoingResponse::to_refusal(refusal) }
        .write_refusal(refusal, false)
}

/// The head of a response, and what decides how it looks.
#[derive(Clone, Copy, Debug)]
pub(in crate::net) struct OutgoingResponse<'a> {
    pub(in crate::net) status: Status,
    /// Header lines of its own, with their line ends.
    pub(in crate::net) header: &'static str,
    /// Headers of a refusal.
    pub(in crate::net) headers: &'static [(&'static str, &'static str)],
    /// The content type, if there is a body.
    pub(in crate::net) content_type: Option<&'static str>,
    /// `true` if the connection ends behind it.
    pub(in crate::net) closes: bool,
    /// Says so if the connection does not end: a client of HTTP/1.0 has to be told.
    pub(in crate::net) keeps: bool,
    /// The web page's origin that may read it.
    pub(in crate::net) origin: Option<&'a str>,
}

impl<'a> OutgoingResponse<'a> {
    /// A response with no body, behind which the connection goes on.
    pub(in crate::net) fn new(status: Status) -> Self {
        OutgoingResponse {
            status,
            header: "",
            headers: &[],
            content_type: None,
            closes: false,
            keeps: false,
            origin: None,
        }
    }

    /// The response to a request that is not served; its body is the refusal's text.
    pub(in crate::net) fn to_refusal(refusal: &HttpRefusal) -> Self {
        let content_type = Some("text/plain; charset=utf-8");
        OutgoingResponse {
            headers: refusal.headers,
            content_type,
            ..OutgoingResponse::new(Status(refusal.status.as_u16()))
        }
    }

    /// Writes the head of a response whose body has so many bytes.
    pub(in crate::net) fn write_head(&self, length: usize, out: &mut Vec<u8>) {
        let mut add = |parts: &[&str]| {
            for part in parts {
                out.extend_from_slice(part.as_bytes());
            }
        };
        match self.status {
            // Most are, and these need no formatting.
            Status::OK => add(&["HTTP/1.1 200 OK\r\n"]),
            status => add(&["HTTP/1.1 ", &status.to_string(), "\r\n"]),
        }
        if let Some(content_type) = self.content_type {
            add(&["Content-Type: ", content_type, "\r\n"]);
        }
        // A response that never has a body must not say how long it is.
        if self.status != Status::NO_CONTENT {
            add(&["Content-Length: ", &length.to_string(), "\r\n"]);
        }
        if let Some(origin) = self.origin {
            add(&["Access-Control-Allow-Origin: ", origin, "\r\nVary: Origin\r\n"]);
        }
        add(&[self.header]);
        for (name, value) in self.headers {
            add(&[name, ": ", value, "\r\n"]);
        }
        if self.closes {
            add(&["Connection: close\r\n"]);
        } else if self.keeps {
            add(&["Connection: keep-alive\r\n"]);
        }
        add(&["\r\n"]);
    }

    /// The whole response to a request that is not served. The response to `HEAD` has no body.
    pub(in crate::net) fn write_refusal(&self, refusal: &HttpRefusal, is_head: bool) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_head(refusal.why.len() + 1, &mut out);
        if !is_head {
            out.extend_from_slice(refusal.why.as_bytes());
            out.push(b'\n');
        }
        out
    }
}
