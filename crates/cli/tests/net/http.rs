//! An HTTP/1.1 client that sends any bytes, and reads responses strictly.

use std::io::{BufRead, BufReader, Write};

use crate::client::Client;
use crate::stream::Stream;
use crate::support::listening::Url;

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Response {
    /// The value of a header that comes at most once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} comes twice: {self:?}");
        value
    }

    /// Reads a response, or returns `None` if the connection was closed before its first byte.
    pub(crate) fn read(input: &mut impl BufRead) -> Option<Self> {
        let first = line(input)?;
        let status = first.strip_prefix("HTTP/1.1 ").or_else(|| first.strip_prefix("HTTP/1.0 "));
        let status = status.unwrap_or_else(|| panic!("{first:?}"));
        let (status, reason) = status.split_once(' ').expect("a space stands behind the status");
        assert!(!reason.is_empty(), "people read the reason: {first:?}");
        let mut response = Response {
            status: status.parse().expect(status),
            headers: vec![],
            body: String::new(),
        };
        loop {
            let line = line(input).expect("a head ends with an empty line");
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("{line:?}"));
            response.headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let has_body = response.status >= 200 && response.status != 204;
        if has_body {
            let length = response.header("content-length").expect("every body has a length");
            let mut body = vec![0; length.parse().expect("a number")];
            input.read_exact(&mut body).expect("the body comes whole");
            response.body = String::from_utf8(body).expect("UTF-8");
        }
        Some(response)
    }
}

fn line(input: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    input.read_line(&mut line).expect("a line comes");
    if line.is_empty() {
        return None;
    }
    Some(line.strip_suffix("\r\n").unwrap_or_else(|| panic!("a torn line: {line:?}")).to_owned())
}

/// The head of a request with exactly these headers.
pub(crate) fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let lines: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{method} {path} HTTP/1.1\r\n{lines}\r\n")
}

/// A POST of this body to the daemon's address, with further headers.
pub(crate) fn post(url: &Url, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let length = body.len().to_string();
    let own = [
        ("Host", url.authority.as_str()),
        ("Content-Type", "application/json"),
        ("Content-Length", &length),
    ];
    [head("POST", &url.path, &[&own, headers].concat()).as_bytes(), body].concat()
}

/// Sends bytes on a new connection, and returns the response.
pub(crate) fn once(url: &Url, bytes: &[u8]) -> Response {
    let mut stream = Stream::connect(url);
    // A request may be refused before everything is written.
    let _ = stream.write_all(bytes);
    Response::read(&mut BufReader::new(stream)).expect("it answers")
}

/// A client that keeps its connection, and may pipeline requests.
pub(crate) struct Http {
    pub(crate) input: BufReader<Stream>,
    pub(crate) output: Stream,
    url: Url,
    /// Further headers of every request.
    pub(crate) headers: Vec<(String, String)>,
}

impl Http {
    pub(crate) fn connect(url: &Url) -> Self {
        let stream = Stream::connect(url);
        let input = BufReader::new(stream.try_clone());
        Http { input, output: stream, url: url.clone(), headers: Vec::new() }
    }

    /// Sends raw bytes.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.output.write_all(bytes).expect("it reads");
    }

    pub(crate) fn response(&mut self) -> Option<Response> {
        Response::read(&mut self.input)
    }
}

impl Client for Http {
    fn send(&mut self, text: &[u8]) {
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let request = post(&self.url, &headers, text);
        self.send_raw(&request);
    }

    /// Receives the next answer. Messages without an answer are confirmed by an empty response.
    fn receive(&mut self) -> Option<String> {
        loop {
            let response = self.response()?;
            match response.status {
                200 => {
                    assert_eq!(response.header("content-type"), Some("application/json"));
                    return Some(response.body);
                }
                202 => assert_eq!(response.body, "", "{response:?}"),
                _ => panic!("{response:?}"),
            }
        }
    }
}
