//! A short run of vanishing clients: five of each shape.
#![cfg(target_os = "linux")]

use duet_rpc_trials::orphans::shapes::SHAPES;
use duet_rpc_trials::vanish::{VanishOptions, run};

#[test]
fn b2_b4_clients_that_vanish_leave_neither_processes_nor_memory() {
    let clients = 5 * SHAPES.len();
    let report = run(&VanishOptions { seed: 3, clients, jobs: 8 }).expect("bridges start");
    assert_eq!(report.clients, clients);
    assert!(report.complaints.is_empty(), "{:#?}", report.complaints);
}
