//! Signals, each in a process of its own.

use std::process::{Command, ExitStatus};

use super::tests::{Did, SHORT, all, tame};
use super::*;
use crate::sys::Signal;

/// The names of the tests below that run in a process of their own.
const HELPER: &str = "server::watchdog::signal_tests::helper";
const ROLE: &str = "DUET_RPC_TEST_ROLE";

fn as_a_process(role: &str) -> ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", HELPER, "--ignored", "--nocapture"]).env(ROLE, role);
    command.output().unwrap().status
}

#[test]
fn each_signal_is_reported_by_its_name() {
    assert_eq!(as_a_process("signals").code(), Some(0));
}

#[test]
fn a_signal_ends_a_process_whose_only_thread_spins() {
    assert_eq!(as_a_process("stuck").code(), Some(7));
}

#[test]
fn a_signal_that_nobody_receives_any_more_is_ignored() {
    assert_eq!(as_a_process("ignored signal").code(), Some(0));
}

#[test]
#[ignore = "the tests above run this in another process"]
fn helper() {
    let role = std::env::var(ROLE).unwrap_or_default();
    match role.as_str() {
        "signals" => {
            let (_watchdog, told) = tame(|_, _| {});
            for signal in [Signal::Terminate, Signal::HangUp, Signal::Interrupt, Signal::HangUp] {
                raise(signal);
                assert_eq!(told.recv(), Ok(Did::Hear(signal)));
                assert_eq!(
                    signal_hook::low_level::signal_name(signal.number()),
                    Some(signal.name())
                );
            }
        }
        "stuck" => {
            let on_signal =
                |_: ShutdownTrigger, alarm: &Alarm| alarm.arm(SHORT, CountsFrom::Trigger, 7);
            let _watchdog = Watchdog::start(Box::new(on_signal), Box::new(|| {})).unwrap();
            raise(Signal::Terminate);
            loop {
                std::hint::spin_loop();
            }
        }
        "ignored signal" => {
            let (watchdog, told) = tame(|_, _| {});
            drop(watchdog);
            assert_eq!(all(&told), []);
            raise(Signal::Terminate);
        }
        _ => {}
    }
}

fn raise(signal: Signal) {
    signal_hook::low_level::raise(signal.number()).unwrap();
}
