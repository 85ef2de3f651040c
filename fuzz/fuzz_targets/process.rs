//! Invariant: whatever bytes come through its pipe, and in whatever pieces, the daemon answers exactly what the rules say, lives on, holds no more than before, and leaves with 0 when its stdin closes.

#![no_main]

use duet_rpc_fuzz::process;
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    if process::check(bytes) { Corpus::Keep } else { Corpus::Reject }
});
