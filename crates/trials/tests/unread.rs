//! Clients that never read cost bounded memory: a short version of `scripts/unread`, which has all cases and
//! also measures pings.
#![cfg(unix)]

use std::time::Duration;

use duet_rpc_trials::unread::{Case, play};
use duet_rpc_trials::{Profile, Transport};

const TIME: Duration = Duration::from_secs(2);

fn check(over: Transport, connections: usize, answer: usize) {
    for profile in [Profile::Editor, Profile::Agent] {
        let case = Case { profile, over, connections, answer };
        let measured = play(&case, TIME).unwrap_or_else(|error| panic!("{case}: {error}"));
        let (peak, bound) = (measured.peak, case.bound());
        assert!(peak <= bound, "{case}: {peak} bytes, and {bound} are the bound");
    }
}

#[test]
fn l8_p9_a_client_on_stdio_that_never_reads_costs_bounded_memory() {
    check(Transport::Stdio, 1, 5_000_000);
}

#[test]
fn l8_p9_many_clients_that_never_read_cost_bounded_memory() {
    check(Transport::Tcp, 50, 5_000_000);
}
