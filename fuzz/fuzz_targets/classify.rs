//! Invariant: our code and the reference rules classify every text alike. They agree on its kind
//! (request, notification, response, invalid response or batch), on its id, method and params, and
//! on the error response to an invalid message.

#![no_main]

use duet_rpc_fuzz::support::reference::Rules;
use duet_rpc_fuzz::support::reference::against::check_text;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [how, text @ ..] = bytes else { return };
    let rules = Rules {
        allow_batch: how & 1 == 0,
        depth: [3, 8, 128, 1024][usize::from(how >> 1) % 4],
        batch_entries: [1000, 4, 1, 0][usize::from(how >> 3) % 4],
    };
    check_text(text, rules);
});
