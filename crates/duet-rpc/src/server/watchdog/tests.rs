use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use super::*;
use crate::sys::Signal;

pub(super) const SHORT: Duration = Duration::from_millis(30);
const LONG: Duration = Duration::from_secs(600);

/// The actions of a watchdog, in order.
#[derive(Debug, PartialEq)]
pub(super) enum Did {
    Hear(Signal),
    BeforeExit,
    End(i32),
}

/// A watchdog that does not end this process.
pub(super) fn tame(
    on_signal: impl Fn(Signal, &Alarm) + Send + 'static,
) -> (Watchdog, Receiver<Did>) {
    let (tell, told) = channel();
    let (of_signal, before_exit) = (tell.clone(), tell.clone());
    let watchdog = Watchdog::start_with_end(
        Box::new(move |call, alarm| {
            let ShutdownTrigger::Signal(signal) = call else { return };
            on_signal(signal, alarm);
            let _ = of_signal.send(Did::Hear(signal));
        }),
        Box::new(move || before_exit.send(Did::BeforeExit).unwrap()),
        Box::new(move |code| tell.send(Did::End(code)).unwrap()),
    );
    (watchdog.unwrap(), told)
}

/// Its actions until its thread ended.
pub(super) fn all(told: &Receiver<Did>) -> Vec<Did> {
    told.iter().collect()
}

#[test]
fn the_process_ends_at_the_deadline_and_not_before() {
    let (watchdog, told) = tame(|_, _| {});
    let start = Instant::now();
    watchdog.alarm().arm(SHORT, CountsFrom::Trigger, 3);
    assert_eq!(all(&told), [Did::BeforeExit, Did::End(3)]);
    assert!(start.elapsed() >= SHORT);
}

#[test]
fn of_two_deadlines_the_earlier_counts() {
    for (first, second) in [(SHORT, LONG), (LONG, SHORT)] {
        for kinds in [
            [CountsFrom::Trigger, CountsFrom::Trigger],
            [CountsFrom::Trigger, CountsFrom::LastByte],
            [CountsFrom::LastByte, CountsFrom::Trigger],
            [CountsFrom::LastByte, CountsFrom::LastByte],
        ] {
            let (watchdog, told) = tame(|_, _| {});
            watchdog.alarm().arm(first, kinds[0], first.subsec_millis() as i32);
            watchdog.alarm().arm(second, kinds[1], second.subsec_millis() as i32);
            assert_eq!(all(&told), [Did::BeforeExit, Did::End(30)]);
        }
    }
}

#[test]
fn progress_gives_time_to_a_slow_reader() {
    let (mut deadlines, progress) = (Deadlines::default(), WriteProgress::new());
    let start = Instant::now();
    deadlines.add(start, SHORT, CountsFrom::LastByte, 1, &progress);
    assert_eq!(deadlines.next(&progress), Some((start + SHORT, 1)));
    progress.now();
    let later = deadlines.next(&progress).unwrap();
    assert!(later.0 > start + SHORT, "{later:?} {start:?}");
    // A signal during that time leaves less time.
    deadlines.add(start, SHORT, CountsFrom::Trigger, 2, &progress);
    assert_eq!(deadlines.next(&progress), Some((start + SHORT, 2)));
}

#[test]
fn progress_gives_no_time_after_a_signal() {
    let (watchdog, told) = tame(|_, _| {});
    watchdog.alarm().arm(LONG, CountsFrom::LastByte, 1);
    watchdog.alarm().arm(SHORT, CountsFrom::Trigger, 2);
    while let Err(RecvTimeoutError::Timeout) = told.recv_timeout(Duration::from_millis(1)) {
        watchdog.alarm().progress();
    }
    assert_eq!(all(&told), [Did::End(2)]);
}

#[test]
fn progress_from_before_does_not_count() {
    let (watchdog, told) = tame(|_, _| {});
    watchdog.alarm().progress();
    let start = Instant::now();
    watchdog.alarm().arm(SHORT, CountsFrom::LastByte, 0);
    assert_eq!(all(&told), [Did::BeforeExit, Did::End(0)]);
    assert!(start.elapsed() >= SHORT);
}

#[test]
fn an_unlimited_deadline_does_not_panic() {
    let (watchdog, told) = tame(|_, _| {});
    watchdog.alarm().arm(Duration::MAX, CountsFrom::Trigger, 1);
    watchdog.alarm().arm(Duration::MAX, CountsFrom::LastByte, 1);
    watchdog.alarm().arm(Duration::ZERO, CountsFrom::LastByte, 2);
    assert_eq!(all(&told), [Did::BeforeExit, Did::End(2)]);
}

#[test]
fn when_it_is_dropped_its_thread_ends_unless_it_is_armed() {
    let (watchdog, told) = tame(|_, _| {});
    drop(watchdog);
    assert_eq!(all(&told), []);

    let (watchdog, told) = tame(|_, _| {});
    watchdog.alarm().arm(SHORT, CountsFrom::Trigger, 0);
    drop(watchdog);
    assert_eq!(all(&told), [Did::BeforeExit, Did::End(0)]);
}

#[test]
fn many_wake_ups_do_not_block() {
    let (watchdog, told) = tame(|_, _| {});
    let alarm = watchdog.alarm();
    for _ in 0..10_000 {
        alarm.arm(LONG, CountsFrom::Trigger, 0);
    }
    alarm.arm(SHORT, CountsFrom::Trigger, 5);
    assert_eq!(all(&told), [Did::BeforeExit, Did::End(5)]);
}

#[test]
fn a_panic_in_a_callback_does_not_stop_it() {
    let (tell, told) = channel();
    let watchdog = Watchdog::start_with_end(
        Box::new(|_, _| {}),
        Box::new(|| panic!("before the forced exit")),
        Box::new(move |code| tell.send(code).unwrap()),
    );
    watchdog.unwrap().alarm().arm(Duration::ZERO, CountsFrom::Trigger, 4);
    assert_eq!(told.recv(), Ok(4));
}
