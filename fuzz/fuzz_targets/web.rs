//! Invariant: a request over HTTP is read the same in whatever pieces; one that is served has one length, which a plain reader finds too, so that nobody can hide a request in a body; and only who names this machine, comes from no page of elsewhere and bears the token is let in.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [step, bytes @ ..] = bytes else { return };
    duet_rpc_fuzz::net::check(bytes, usize::from(*step) % 40 + 1);
});
