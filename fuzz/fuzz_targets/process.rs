//! Invariants, for any bytes in its pipe, in any pieces: the daemon answers exactly as the rules
//! say, stays alive, holds no more resources than before, and exits with 0 when its stdin closes.

#![no_main]

use duet_rpc_fuzz::process;
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    if process::check(bytes) { Corpus::Keep } else { Corpus::Reject }
});
