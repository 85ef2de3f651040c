//! A short soak: a fixed amount of work on any machine. Also checks that soak finds each of many faults.
#![cfg(unix)]

use std::fs;
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

#[test]
fn every_sabotage_is_noticed() {
    // The sabotage, and a word of the expected failure.
    let rows = [
        ("mute", "does not come"),
        ("answer-lost", "does not come"),
        ("wrong-id", "nothing is due with this id"),
        ("wrong-result", "due"),
        ("error-code", "due"),
        ("error-data", "due"),
        ("short-count", ""),
        ("stray-print", ""),
        ("call-lost", "does not"),
        ("event-lost", ""),
        ("event-twice", ""),
        ("cancel-lost", "does not come"),
        ("notice-lost", "the errors in the log"),
        ("status", "ends badly"),
        ("misspelled", "differs from the due one"),
    ];
    // A folder in which the saboteur has the name of the test bed.
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("soak");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("real")).expect("a folder can be made");
    let links = [(programs::saboteur(), "testbed"), (programs::testbed(), "real/testbed")];
    for (program, place) in links {
        std::os::unix::fs::symlink(program, folder.join(place)).expect("a link can be made");
    }
    let sabotaged = |mischief: &str, patience: u64| {
        // The saboteur reads its task from the environment.
        let program =
            vec!["env".into(), format!("SABOTAGE={mischief}").into(), folder.join("testbed")];
        let patience = Duration::from_secs(patience);
        // One round with this seed contains everything that can be sabotaged.
        run(&Plan { seed: 2, program, patience, ..plan(Profile::Agent, Transport::Stdio, 1) })
    };
    if let Err(broken) = sabotaged("nothing", 60) {
        panic!("it fails for another reason: {broken}");
    }
    thread::scope(|scope| {
        for (mischief, word) in rows {
            let sabotaged = &sabotaged;
            scope.spawn(move || {
                let broken = sabotaged(mischief, 3).expect_err(mischief);
                assert!(broken.what.contains(word), "{mischief}: {broken}");
            });
        }
    });
}
