//! Invariants: an HTTP request is read the same in any pieces; a served request has one length,
//! which a plain reader finds too, so that no request can hide in a body; and only requests that
//! name this machine, do not come from a foreign page and carry the token are accepted.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [step, bytes @ ..] = bytes else { return };
    duet_rpc_fuzz::net::check(bytes, usize::from(*step) % 40 + 1);
});
