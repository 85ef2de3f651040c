//! A short soak: a fixed amount of work on any machine. Also checks that soak finds each of many faults.
#![cfg(unix)]

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use duet_rpc_trials::soak::{Plan, run};
use duet_rpc_trials::{Group, Profile, Transport, programs};

const PROFILES: [Profile; 3] = [Profile::Editor, Profile::Desktop, Profile::Agent];

/// A plan for this number of rounds.
fn plan(profile: Profile, over: Transport, rounds: u64) -> Plan {
    let rounds = Some(rounds);
    Plan { profile, over, rounds, quiet: true, connections: 3, ..Plan::default() }
}

fn check(plan: &Plan) {
    let played = run(plan);
    played.unwrap_or_else(|broken| panic!("{} over {}: {broken}", plan.profile, plan.over));
}

#[test]
fn l1_f2_m2_the_soak_holds_over_stdio() {
    thread::scope(|scope| {
        for profile in PROFILES {
            scope.spawn(move || check(&plan(profile, Transport::Stdio, 8)));
        }
    });
}

#[test]
fn t2_the_soak_holds_for_connections_that_come_and_go() {
    thread::scope(|scope| {
        for (over, profile) in [
            (Transport::Tcp, Profile::Editor),
            (Transport::Unix, Profile::Desktop),
            (Transport::Ws, Profile::Agent),
            (Transport::Http, Profile::Agent),
        ] {
            scope.spawn(move || check(&plan(profile, over, 2)));
        }
    });
}

#[test]
fn the_same_seed_repeats_the_same_steps() {
    let plan = plan(Profile::Editor, Transport::Stdio, 4);
    let game = || {
        let report = run(&plan).unwrap_or_else(|broken| panic!("{broken}"));
        let all =
            [Group::Answers, Group::BadInput, Group::Actions].map(|it| report.counters.group(it));
        // The number of marks in the log depends on the machine.
        let is_played = |count: &(&str, u64)| count.0 != "marks in the log";
        all.concat().into_iter().filter(is_played).collect::<Vec<_>>()
    };
    assert_eq!(game(), game());
}

/// The server ends with another status.
const STATUS: &str = "status";

#[test]
fn every_sabotage_is_noticed() {
    const CANCEL: &str = "$/cancelRequest|notifications/cancelled";
    let (cancel, notice) = (
        format!("drop dir:c2s method:{CANCEL}"),
        format!("drop dir:c2s kind:notification -method:{CANCEL}"),
    );
    // A fault rule, and a word of the expected failure.
    let rows = [
        ("drop dir:s2c", "does not come"),
        ("drop dir:s2c kind:response|error nth:2", "does not come"),
        ("corrupt=id dir:s2c kind:response|error nth:2", "nothing is due with this id"),
        ("set=/result=\"sabotage\" dir:s2c kind:response nth:2", "due"),
        ("set=/error/code=-32099 dir:s2c", "due"),
        ("unset=/error/data dir:s2c", "due"),
        ("corrupt=length dir:s2c nth:2", ""),
        ("corrupt=print dir:s2c nth:2", ""),
        ("drop dir:s2c kind:request", "does not"),
        ("drop dir:s2c kind:notification", ""),
        ("dup dir:s2c kind:notification", ""),
        (&cancel, "does not come"),
        (&notice, "the errors in the log"),
        (STATUS, "ends badly"),
        ("unset=/result dir:s2c", "differs from the due one"),
    ];
    let sabotaged = |rule: &str, patience: u64| {
        let mut program = vec![programs::duet_rpc()];
        let is_status = rule == STATUS;
        let rule = if is_status { "delay=0s dir:s2c" } else { rule };
        program.extend(["tap", "--no-record", "--fault", rule, "--"].map(PathBuf::from));
        if is_status {
            program.extend(["sh", "-c", "\"$0\" \"$@\"; exit 3"].map(PathBuf::from));
        }
        program.push(programs::testbed());
        let patience = Duration::from_secs(patience);
        // One round with this seed contains everything that can be sabotaged.
        run(&Plan { seed: 2, program, patience, ..plan(Profile::Agent, Transport::Stdio, 1) })
    };
    if let Err(broken) = sabotaged("delay=0s dir:s2c", 60) {
        panic!("it fails for another reason: {broken}");
    }
    thread::scope(|scope| {
        for (rule, word) in rows {
            let sabotaged = &sabotaged;
            scope.spawn(move || {
                let broken = sabotaged(rule, 3).expect_err(rule);
                assert!(broken.what.contains(word), "{rule}: {broken}");
            });
        }
    });
}
