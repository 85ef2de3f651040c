//! Two sessions, a link and a virtual clock: no sockets, no tasks, no sleeping.
//!
//! Steps are those of a [`Side`], each with `a` or `b` before it, and:
//!
//! | step | effect |
//! |---|---|
//! | `->`, `<-` | everything on its way from a to b, or back, arrives |
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

    /// Takes a step, and returns its effects.
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

    /// Takes the steps, checks the effects of each, and checks that everything has ended. Returns
    /// the first side.
    pub fn race(mut self, rows: Rows<'_>) -> Side {
        check_rows(rows, |step| self.step(step));
        self.finish()
    }

    /// Lets everything arrive, and checks that nothing is left and nothing waits.
    pub fn finish(mut self) -> Side {
        while self.settle_link() {}
        self.a.finish();
        self.b.finish();
        self.a
    }

    /// Delivers everything on the link; `false` if nothing moved.
    pub fn settle_link(&mut self) -> bool {
        let before = self.a.link.len() + self.b.link.len();
        deliver(&mut self.a, &mut self.b, usize::MAX);
        deliver(&mut self.b, &mut self.a, usize::MAX);
        before > 0 && before != self.a.link.len() + self.b.link.len()
    }
}

/// Delivers messages while the receiver wants them, like a driver.
fn deliver(from: &mut Side, to: &mut Side, most: usize) -> String {
    for _ in 0..most {
        if !to.session.wants_input() {
            break;
        }
        let Some(text) = from.link.pop_front() else { break };
        to.receive(&text);
    }
    to.take_shown()
}

/// Steps, and the effects of each. A row may hold several steps, `hold; a#1; free`: only the last
/// has effects.
type Rows<'a> = &'a [(&'a str, &'a str)];

/// Runs rows on sessions with a profile.
pub trait Checks {
    /// Two sides race: takes the steps one after the other, checks the effects of each, and then
    /// that everything has ended.
    fn race(&self, rows: Rows<'_>);

    /// Like `race`, for one side alone.
    fn check(&self, rows: Rows<'_>);

    /// Like `check`, but work may be unfinished at the end.
    fn play(&self, rows: Rows<'_>) -> Side;
}

impl Checks for Profile {
    fn race(&self, rows: Rows<'_>) {
        Pair::new(self, self).race(rows);
    }

    fn check(&self, rows: Rows<'_>) {
        self.play(rows).finish();
    }

    fn play(&self, rows: Rows<'_>) -> Side {
        let mut side = Side::new(self);
        check_rows(rows, |step| side.step(step));
        side
    }
}

fn check_rows(rows: Rows<'_>, mut take: impl FnMut(&str) -> String) {
    for (number, &(steps, expect)) in rows.iter().enumerate() {
        let mut steps = steps.split("; ").peekable();
        while let Some(step) = steps.next() {
            let expect = if steps.peek().is_some() { "" } else { expect };
            assert_eq!(take(step), expect, "row {number}: {step}");
        }
    }
}
