//! A short orphans run: two calls of each shape.
#![cfg(target_os = "linux")]

use duet_rpc_trials::orphans::shapes::SHAPES;
use duet_rpc_trials::orphans::{OrphansOptions, run};

#[test]
fn t1_no_process_outlives_the_call_that_started_it() {
    let lives = 2 * SHAPES.len();
    let report = run(&OrphansOptions { seed: 3, lives, jobs: lives }).expect("calls can be made");
    assert_eq!(report.lives, lives);
    assert!(report.complaints.is_empty(), "{:#?}", report.complaints);
    assert!(report.signalled > 0, "no call was signalled");
}
