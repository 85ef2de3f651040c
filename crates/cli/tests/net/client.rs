//! Clients for every transport, written without the library.

use std::io::{BufRead, BufReader, Read, Write};

use duet_rpc::proto::frame::Framing;

use crate::http::Http;
use crate::stream::Stream;
use crate::support::daemon::request;
use crate::support::listening::{Server, Url};
use crate::websocket::WebSocket;

/// Operations of every client.
pub(crate) trait Client: Send {
    /// Sends a message.
    fn send(&mut self, text: &[u8]);

    /// Receives the next message, or `None` after an orderly close.
    fn receive(&mut self) -> Option<String>;

    /// Sends a request, and returns the next message.
    fn ask(&mut self, id: u64, method: &str, params: &str) -> String {
        self.send(request(id, method, params).as_bytes());
        self.receive().expect("it answers")
    }

    /// Checks that this connection is served.
    fn check(&mut self, id: u64) {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":[{id}]}}"#);
        assert_eq!(self.ask(id, "system.echo", &format!("[{id}]")), answer);
    }
}

/// Transport and framing of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Tcp(Framing),
    Unix(Framing),
    WebSocket,
    /// A WebSocket whose client sends binary messages.
    Binary,
    Http,
}

impl Way {
    /// One for each transport, in the framing of the agent profile.
    pub(crate) const ALL: [Way; 4] =
        [Way::Tcp(Framing::Ndjson), Way::Unix(Framing::Ndjson), Way::WebSocket, Way::Http];

    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Way::Tcp(_) => "tcp",
            Way::Unix(_) => "unix",
            Way::WebSocket | Way::Binary => "ws",
            Way::Http => "http",
        }
    }

    /// Connects to a daemon that listens on such an address.
    pub(crate) fn connect(self, server: &Server) -> Box<dyn Client> {
        self.connect_to(server.url(self.scheme()))
    }

    pub(crate) fn connect_to(self, url: &Url) -> Box<dyn Client> {
        match self {
            Way::Tcp(framing) | Way::Unix(framing) => Box::new(Framed::connect(url, framing)),
            Way::WebSocket => Box::new(WebSocket::connect(url)),
            Way::Binary => {
                let mut client = WebSocket::connect(url);
                client.sends_binary = true;
                Box::new(client)
            }
            Way::Http => Box::new(Http::connect(url)),
        }
    }
}

/// A client on a byte stream.
pub(crate) struct Framed {
    input: BufReader<Box<dyn Read + Send>>,
    output: Box<dyn Write + Send>,
    framing: Framing,
}

impl Framed {
    pub(crate) fn connect(url: &Url, framing: Framing) -> Self {
        let stream = Stream::connect(url);
        Self::over(stream.try_clone(), stream, framing)
    }

    pub(crate) fn over(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        framing: Framing,
    ) -> Self {
        Framed { input: BufReader::new(Box::new(input)), output: Box::new(output), framing }
    }

    /// Sends raw bytes.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.output.write_all(bytes).and_then(|()| self.output.flush()).expect("it reads");
    }

    /// A line without its end, or `None` at the end of the stream.
    fn line(&mut self, end: &str) -> Option<String> {
        let mut line = String::new();
        self.input.read_line(&mut line).expect("a line comes");
        if line.is_empty() {
            return None;
        }
        Some(line.strip_suffix(end).unwrap_or_else(|| panic!("a torn line: {line:?}")).to_owned())
    }

    fn exactly(&mut self, count: usize) -> String {
        let mut bytes = vec![0; count];
        self.input.read_exact(&mut bytes).expect("the rest comes");
        String::from_utf8(bytes).expect("UTF-8")
    }
}

/// Frames a message.
pub(crate) fn framed(framing: Framing, text: &[u8]) -> Vec<u8> {
    match framing {
        Framing::Lsp => {
            [format!("Content-Length: {}\r\n\r\n", text.len()).as_bytes(), text].concat()
        }
        Framing::Ndjson => [text, b"\n"].concat(),
        Framing::Length => {
            let length = u32::try_from(text.len()).expect("a length of 4 bytes");
            [&length.to_be_bytes(), text, b"\n"].concat()
        }
    }
}

impl Client for Framed {
    fn send(&mut self, text: &[u8]) {
        self.send_raw(&framed(self.framing, text));
    }

    fn receive(&mut self) -> Option<String> {
        match self.framing {
            Framing::Lsp => {
                let header = self.line("\r\n")?;
                let length =
                    header.strip_prefix("Content-Length: ").expect("that and nothing else");
                assert_eq!(self.line("\r\n").as_deref(), Some(""), "one header line alone");
                Some(self.exactly(length.parse().expect("a number")))
            }
            Framing::Ndjson => self.line("\n"),
            Framing::Length => {
                if self.input.fill_buf().expect("something comes").is_empty() {
                    return None;
                }
                let mut length = [0; 4];
                self.input.read_exact(&mut length).expect("the rest comes");
                let length = u32::from_be_bytes(length) as usize;
                let text = self.exactly(length + 1);
                Some(text.strip_suffix('\n').expect("a line end that is not counted").to_owned())
            }
        }
    }
}
