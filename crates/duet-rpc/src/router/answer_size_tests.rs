//! Tests of the answer size estimate, and of the wait for a computing handler.

use tokio::time::Instant;

use super::{AnswerSize, Beginning, LONGEST, STEP, wait_for};

#[test]
fn p9_a_thread_that_blocks_does_not_compute() {
    let (tell, told) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        tell.send(Beginning::here(Instant::now())).expect("the receiver exists");
        let _ = released.recv();
    });
    let there = told.recv().expect("the thread begins");
    // The thread blocks soon.
    while there.computes() {
        std::thread::yield_now();
    }
    assert!(wait_for(Some(&there), there.at + STEP).is_ok());
    let here = Beginning::here(Instant::now());
    assert_eq!(here.computes(), cfg!(target_os = "linux"));
    assert_eq!(wait_for(Some(&here), here.at), Err(Some(here.at + STEP)));
    assert_eq!(wait_for(Some(&here), here.at + LONGEST), Ok(()));
    drop(release);
    thread.join().expect("no panic");
}

#[test]
fn p9_estimate_follows_large_answers_immediately_and_small_ones_slowly() {
    let size = AnswerSize::default();
    assert!(!size.is_known());
    for (answer, estimate) in [(10, 10), (800, 800), (0, 700), (900, 900), (899, 899)] {
        size.record(answer);
        assert!(size.is_known());
        assert_eq!(size.estimate(), estimate, "after {answer}");
    }
}
