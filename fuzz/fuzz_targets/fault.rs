//! Invariants, for any rule and any bytes: a wrong rule is an error whose position is in the rule; a right one
//! prints itself; a rule that matched nothing changes no byte; every message ends, and the same seed repeats.

#![no_main]

use duet_rpc_trace::{Dir, FaultRule, FaultStep, Faults};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [step, seed, rest @ ..] = bytes else { return };
    let line = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let Ok(text) = std::str::from_utf8(&rest[..line]) else { return };
    let rule: FaultRule = match text.parse() {
        Ok(rule) => rule,
        Err(error) => {
            let error: duet_rpc_trace::FilterError = error;
            assert!(error.position <= text.chars().count(), "{error}");
            return;
        }
    };
    assert_eq!(rule.to_string().parse::<FaultRule>().as_ref(), Ok(&rule));
    let input = rest.get(line + 1..).unwrap_or_default();
    let step = usize::from(*step) % 60 + 1;
    let (faults, written) = run(&rule, *seed, step, input);
    assert_eq!(run(&rule, *seed, step, input).1, written);
    if faults.counts()[0].1 == 0 {
        assert_eq!(written, input);
    }
});

/// The bytes that the client gets.
fn run(rule: &FaultRule, seed: u8, step: usize, input: &[u8]) -> (Faults, Vec<u8>) {
    let mut faults = Faults::new(vec![rule.clone()], u64::from(seed));
    for piece in input.chunks(step) {
        faults.handle_bytes(Dir::S2c, 0, piece);
    }
    faults.handle_eof(Dir::S2c, 0);
    let (mut now, mut written) = (0, Vec::new());
    loop {
        match faults.poll(Dir::S2c, now) {
            FaultStep::Write(bytes) => written.extend(bytes),
            FaultStep::Wait(Some(next)) => {
                assert!(next > now);
                now = next;
            }
            FaultStep::Wait(None) => panic!("it waits for ever"),
            FaultStep::Kill(_) => {}
            FaultStep::HalfClose | FaultStep::Cut | FaultStep::End => return (faults, written),
        }
    }
}
