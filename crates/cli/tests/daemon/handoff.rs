//! The input hand-off: a thread reads while handlers are ready immediately, the runtime reads while they
//! wait. Nothing is lost, doubled or reordered at a hand-off (F1, L2, P4), and the daemon ends in time
//! with either reader (L3, L5).

use std::collections::BTreeSet;

use super::PROFILES;
use super::support::daemon::{Daemon, Trigger, frame, framing_of, request};

/// Deterministic pseudo-random numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The bytes of a burst of requests, some of which wait.
fn burst(profile: &str, ids: std::ops::Range<u64>, chance: &mut Chance) -> Vec<u8> {
    let waits = chance.below(3) == 0;
    ids.flat_map(|id| {
        let text = match waits && chance.below(2) == 0 {
            true => request(id, "test.sleep", r#"{"ms":1}"#),
            false => request(id, "version", "[]"),
        };
        frame(framing_of(profile), &text)
    })
    .collect()
}

#[test]
fn f1_l2_p4_every_request_is_answered_once_across_hand_offs() {
    for (profile, seed) in PROFILES.into_iter().zip(1..) {
        let mut chance = Chance(seed);
        let mut daemon = Daemon::start(profile);
        let mut next = 1;
        for _ in 0..150 {
            let ids = next..next + 1 + chance.below(8);
            next = ids.end;
            let bytes = burst(profile, ids.clone(), &mut chance);
            let cut = chance.below(bytes.len() as u64 + 1) as usize;
            daemon.send_raw(&bytes[..cut]);
            daemon.send_raw(&bytes[cut..]);
            let answers: Vec<_> = ids.clone().map(|_| daemon.answer()).collect();
            let answered: Vec<_> =
                answers.iter().filter_map(|answer| answer["id"].as_u64()).collect();
            assert!(answers.iter().all(|answer| answer["result"] != serde_json::Value::Null));
            assert_eq!(BTreeSet::from_iter(answered.clone()), BTreeSet::from_iter(ids.clone()));
            if profile != "agent" {
                assert_eq!(answered, Vec::from_iter(ids), "{profile}");
            }
        }
        assert!(daemon.end(Trigger::Eof).status.success());
    }
}

#[test]
fn l3_l5_the_daemon_ends_in_time_while_a_thread_waits_for_input() {
    for trigger in Trigger::ALL {
        let mut daemon = Daemon::start("agent");
        for id in 1..100 {
            daemon.ask(id, "version", "[]");
        }
        let end = daemon.end(trigger);
        assert!(end.status.success(), "{trigger:?}");
    }
}
