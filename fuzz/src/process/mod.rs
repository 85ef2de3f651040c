//! The daemon as a process, compared with the rules: bytes go into its pipe, and it must return the
//! expected answers.
//!
//! Our own decoder, in this process, splits the bytes into frames, so that the fuzzer sees which of
//! its paths were taken. The reference rules decide the meaning of each text.

mod answer;
mod child;
mod expect;

use std::cell::RefCell;

use child::Child;
use duet_rpc_proto::frame::Framing;

use crate::support::framed;

/// Settings of a daemon, and the rules that follow from them.
#[derive(Debug)]
struct Setting {
    flags: &'static [&'static str],
    framing: Framing,
    profile: Profile,
    allow_batch: bool,
    message_bytes: usize,
    /// True if one message is answered before the next starts.
    is_sequential: bool,
    /// True if its log is read, line by line.
    is_log_read: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Profile {
    Editor,
    Desktop,
    Agent,
}

const SETTINGS: [Setting; 6] = [
    Setting {
        flags: &["--log-level", "debug"],
        framing: Framing::Lsp,
        profile: Profile::Editor,
        allow_batch: false,
        message_bytes: 10 * 1024 * 1024,
        is_sequential: true,
        is_log_read: true,
    },
    Setting {
        flags: &["--profile", "desktop"],
        framing: Framing::Length,
        profile: Profile::Desktop,
        allow_batch: true,
        message_bytes: 1024 * 1024,
        is_sequential: true,
        is_log_read: false,
    },
    Setting {
        flags: &["--profile", "agent"],
        framing: Framing::Ndjson,
        profile: Profile::Agent,
        allow_batch: true,
        message_bytes: 1024 * 1024,
        is_sequential: false,
        is_log_read: false,
    },
    Setting {
        flags: &["--profile", "agent", "--framing", "lsp", "--max-message-bytes", "300"],
        framing: Framing::Lsp,
        profile: Profile::Agent,
        allow_batch: true,
        message_bytes: 300,
        is_sequential: false,
        is_log_read: false,
    },
    Setting {
        flags: &[
            "--profile=editor",
            "--framing=length",
            "--max-message-bytes=200",
            "--batch=allow",
            "--max-in-flight=1000",
            "--log-format=json",
            "--log-level=debug",
        ],
        framing: Framing::Length,
        profile: Profile::Editor,
        allow_batch: true,
        message_bytes: 200,
        is_sequential: false,
        is_log_read: true,
    },
    Setting {
        flags: &[
            "--profile=desktop",
            "--framing=ndjson",
            "--batch=reject",
            "--max-message-bytes=200",
        ],
        framing: Framing::Ndjson,
        profile: Profile::Desktop,
        allow_batch: false,
        message_bytes: 200,
        is_sequential: true,
        is_log_read: false,
    },
];

/// The number of inputs that a daemon serves before its stdin is closed and it must exit with 0.
const INPUTS_OF_A_LIFE: usize = 3000;

thread_local! {
    static CHILDREN: RefCell<[Option<Child>; SETTINGS.len()]> = const {
        RefCell::new([const { None }; SETTINGS.len()])
    };
}

/// Feeds one input to a daemon. `false` if the answers cannot be predicted.
pub fn check(bytes: &[u8]) -> bool {
    let [how, step, bytes @ ..] = bytes else { return false };
    let which = usize::from(how % 8) % SETTINGS.len();
    let setting = &SETTINGS[which];
    let ends = how >> 4 == 15;
    CHILDREN.with_borrow_mut(|children| {
        let child = children[which].get_or_insert_with(|| Child::start(setting));
        let (id, tail) = tail(setting.framing, child.inputs());
        let stream = if ends { bytes.to_vec() } else { [bytes, &tail].concat() };
        let owed = expect::owed(setting, child.catalog(), &stream, ends);
        let Some(owed) = owed else { return false };
        // A daemon that shuts down need not read everything, so write it all as one piece.
        child.write(&stream, if owed.shuts_down { 0 } else { usize::from(*step) });
        if owed.shuts_down || ends || child.inputs() >= INPUTS_OF_A_LIFE {
            let child = children[which].take().expect("it was just there");
            // A daemon that shuts down waits a little for its stdin to close, so most runs close it.
            let found = child.end(!owed.shuts_down || step % 8 != 0);
            owed.check(setting, &found, true);
        } else {
            let found = child.read(&id, owed.count());
            owed.check(setting, &found, false);
            child.check_resources();
        }
        true
    })
}

/// A request that ends any stream at a known position: it must be served.
fn tail(framing: Framing, number: usize) -> (String, Vec<u8>) {
    let id = format!("\"end of {number}\"");
    let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"version"}}"#);
    let before: &[u8] = match framing {
        Framing::Lsp => b"\r\n\r\n",
        Framing::Ndjson => b"\n",
        Framing::Length => b"",
    };
    (id, [before, &framed(framing, request)].concat())
}
