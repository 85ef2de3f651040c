//! Injector: puts bytes that no peer would write on the link, between the messages of the peers.

use duet_rpc::proto::frame::Framing;

use crate::cutter::frame;
use crate::plan::Plan;
use crate::random::Random;

/// Bytes that are put on the link.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The receiving side.
    pub(crate) to: usize,
    pub(crate) at: u64,
    pub(crate) bytes: Vec<u8>,
    /// The ids of the requests in it.
    pub(crate) requests: Vec<String>,
    /// The numbers of its messages that a handler serves, in their order.
    pub(crate) messages: Vec<(u64, bool)>,
    /// Maximum number of answers to this piece with `id: null`.
    pub(crate) faults: usize,
}

/// The first number of its messages.
pub(crate) const STRANGERS: u64 = 500_000;

impl Piece {
    pub(crate) fn some(random: &mut Random, framing: Framing) -> Vec<Self> {
        (0..1 + random.below(6)).map(|n| Piece::random(random, framing, n)).collect()
    }

    fn random(random: &mut Random, framing: Framing, n: u64) -> Self {
        let (to, at) = (random.below(2) as usize, random.below(300));
        let mut piece = Piece {
            to,
            at,
            bytes: Vec::new(),
            requests: Vec::new(),
            messages: Vec::new(),
            faults: 0,
        };
        let body = match random.below(9) {
            0 => {
                piece.faults = 1;
                piece.bytes = garbage(random, framing);
                return piece;
            }
            1 => {
                piece.faults = 1;
                "{\"jsonrpc\":\"2.0\",".to_owned()
            }
            2 => {
                piece.faults = 1;
                random.pick(&["[]", "1", "{}", "{\"jsonrpc\":\"2.0\",\"method\":1}"]).to_owned()
            }
            // None of these is answered.
            3 => random
                .pick(&[
                    r#"{"jsonrpc":"2.0","id":"nobody","result":1}"#,
                    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#,
                    r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"nobody"}}"#,
                    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[7]}"#,
                    r#"{"jsonrpc":"2.0","method":"nothing"}"#,
                ])
                .to_owned(),
            4 => piece.request(random, n, 0),
            5 => {
                let request = piece.request(random, n, 0);
                format!("[{request}]")
            }
            _ => {
                let entries: Vec<_> = (0..1 + random.below(4))
                    .map(|place| match random.below(4) {
                        0 => {
                            piece.faults += 1;
                            "7".to_owned()
                        }
                        1 => piece.notification(n, place),
                        _ => piece.request(random, n, place),
                    })
                    .collect();
                format!("[{}]", entries.join(","))
            }
        };
        piece.bytes = frame(framing, &body);
        piece
    }

    fn request(&mut self, random: &mut Random, n: u64, place: u64) -> String {
        let number = STRANGERS + n * 100 + place * 10;
        let id = format!("\"x{number}\"");
        let plan = match random.below(4) {
            0 => Plan::After(random.below(10) * 10),
            1 => Plan::Panic,
            2 => Plan::Fail(-32001),
            _ => Plan::Now,
        };
        let plan = serde_json::to_string(&plan).expect("a plan is JSON");
        self.requests.push(id.clone());
        self.messages.push((number, true));
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"do","params":[{number},{plan},""]}}"#)
    }

    fn notification(&mut self, n: u64, place: u64) -> String {
        let number = STRANGERS + n * 100 + place * 10;
        self.messages.push((number, false));
        format!(r#"{{"jsonrpc":"2.0","method":"do","params":[{number},"Now",""]}}"#)
    }
}

/// Bytes that are not a frame, directly followed by the next frame.
fn garbage(random: &mut Random, framing: Framing) -> Vec<u8> {
    match framing {
        Framing::Lsp => match random.below(4) {
            0 => b"Content-Length: x\r\n\r\n".to_vec(),
            1 => b"panicked at src/main.rs\n".to_vec(),
            2 => b"Content-Length: 3\r\n\r\n{}".to_vec(),
            _ => b"\xff\x00".to_vec(),
        },
        Framing::Ndjson => match random.below(2) {
            0 => b"panicked at src/main.rs\n".to_vec(),
            _ => b"\x00\xff\r\n".to_vec(),
        },
        Framing::Length => match random.below(3) {
            0 => b"panicked at src/main.rs\n".to_vec(),
            1 => b"\x00\x00\x00\x00\n".to_vec(),
            _ => b"\x00\x00\x00\x05{}\n".to_vec(),
        },
    }
}
