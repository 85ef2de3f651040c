//! Two sessions, a link and a virtual clock: no socket, no task, no sleeping.
//!
//! Besides the steps of a [`Side`], each with `a` or `b` before it, there are:
//!
//! | step | what it does |
//! |---|---|
//! | `->`, `<-` | all that is on its way from a to b, or back, arrives |
//! | `->1`, `<-1` | one message arrives |
//! | `+MS` | time passes for both |

use duet_rpc_proto::Profile;

use super::side::Side;

pub struct Pair {
    pub a: Side,
    pub b: Side,
}

impl Pair {
    pub fn new(a: &Profile, b: &Profile) -> Self {
        let (a, mut b) = (Side::new(a), Side::new(b));
        b.now = a.now;
        Pair { a, b }
    }

    /// Takes a step, and shows what came of it.
    pub fn step(&mut self, step: &str) -> String {
        let (who, rest) = step.split_once(' ').unwrap_or((step, ""));
        match who {
            "a" => self.a.step(rest),
            "b" => self.b.step(rest),
            "->" => deliver(&mut self.a, &mut self.b, usize::MAX),
            "<-" => deliver(&mut self.b, &mut self.a, usize::MAX),
            "->1" => deliver(&mut self.a, &mut self.b, 1),
            "<-1" => deliver(&mut self.b, &mut self.a, 1),
            _ if step.starts_with('+') => {
                let (a, b) = (self.a.step(step), self.b.step(step));
                format!("{a} {b}").trim().to_owned()
            }
            _ => panic!("no such step: {step}"),
        }
    }

    /// Lets everything arrive, and checks that nothing is left and nobody waits.
    pub fn finish(mut self) {
        while self.settle_link() {}
        self.a.finish();
        self.b.finish();
    }

    /// Delivers what is on the link; `false` if nothing moved.
    pub fn settle_link(&mut self) -> bool {
        let before = self.a.link.len() + self.b.link.len();
        deliver(&mut self.a, &mut self.b, usize::MAX);
        deliver(&mut self.b, &mut self.a, usize::MAX);
        before > 0 && before != self.a.link.len() + self.b.link.len()
    }
}

/// Messages arrive as long as they are wanted, as a driver would have it.
fn deliver(from: &mut Side, to: &mut Side, most: usize) -> String {
    for _ in 0..most {
        if !to.session.wants_input() {
            break;
        }
        let Some(text) = from.link.pop_front() else { break };
        to.hear(&text);
    }
    to.take_shown()
}

/// Takes the steps one after the other, and checks what came of each; then that all has ended.
pub fn race(profile: &Profile, rows: &[(&str, &str)]) {
    let mut pair = Pair::new(profile, profile);
    for (number, &(step, expect)) in rows.iter().enumerate() {
        assert_eq!(pair.step(step), expect, "row {number}: {step}");
    }
    pair.finish();
}

/// The same for one side alone.
pub fn check(profile: &Profile, rows: &[(&str, &str)]) {
    let side = play(profile, rows);
    side.finish();
}

/// The same, where things may be under way at the end.
pub fn play(profile: &Profile, rows: &[(&str, &str)]) -> Side {
    let mut side = Side::new(profile);
    for (number, &(step, expect)) in rows.iter().enumerate() {
        assert_eq!(side.step(step), expect, "row {number}: {step}");
    }
    side
}
