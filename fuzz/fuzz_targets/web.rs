//! Invariant: only requests that name this machine, do not come from a foreign page and carry the token are
//! accepted.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| duet_rpc_fuzz::net::check(bytes));
