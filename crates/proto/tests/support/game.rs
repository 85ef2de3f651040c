//! Games of two sessions: any moves in any order, checked against the ledger after each move.
//!
//! A move is two bytes, and every pair of bytes is a move. So random bytes, or those of a fuzzer,
//! make a game.

use std::time::Duration;

use duet_rpc_proto::policy::{Dialect, Order};
use duet_rpc_proto::{Limits, Profile};

use super::pair::Pair;
use super::side::Side;

/// A move: the action, and its argument.
pub type Move = (u8, u8);

const METHODS: [&str; 10] = [
    "park.a", "park.b", "park.c/1", "park.d/1", "park.e/2", "now", "now/1", "now/2", "fail", "big",
];

/// Plays one game to its end.
struct Game {
    pair: Pair,
    /// The steps so far; shown if the game fails.
    steps: Vec<String>,
}

impl Game {
    fn new(a: &Profile, b: &Profile) -> Self {
        Game { pair: Pair::new(a, b), steps: Vec::new() }
    }

    fn step(&mut self, step: impl Into<String>) {
        self.steps.push(step.into());
        let step = self.steps.last().expect("it was pushed");
        let shown = self.pair.step(step);
        if !shown.is_empty() {
            self.steps.push(format!("    {shown}"));
        }
    }

    fn make(&mut self, (what, with): Move) {
        let who = if with & 1 == 0 { "a" } else { "b" };
        let with = usize::from(with >> 1);
        let method = METHODS[with % METHODS.len()];
        let side = if who == "a" { &self.pair.a } else { &self.pair.b };
        let words = match what % 64 {
            0..=7 => format!("call {method}"),
            8 => format!("call {method} timeout=150 token={} total=400", with % 3),
            9 => format!("call {method} timeout=none"),
            10..=13 => format!("send {method}"),
            14..=19 => format!("send {method}#{}", 100 + with % 4),
            20..=23 => format!("send {}", batch(with)),
            24..=26 => format!("send ~{}", 100 + with % 4),
            27 => format!("send %{}", with % 3),
            28 => "send {}".to_owned(),
            29 => format!("send {with}="),
            30 => r#"send {"jsonrpc":"2.0","method":"$/cancelRequest","params":[1]}"#.to_owned(),
            31..=36 => return self.step(if who == "a" { "->1" } else { "<-1" }),
            37..=39 => return self.step(if who == "a" { "->" } else { "<-" }),
            40..=47 => match pick(&side.parked(), with) {
                Some(name) => format!("end {name}"),
                None => return,
            },
            48..=49 => match pick(&side.parked(), with) {
                Some(name) => format!("fail {name}"),
                None => return,
            },
            50..=54 => match pick(&pending(side), with) {
                Some(call) => format!("drop {call}"),
                None => return,
            },
            55..=56 => return self.step(["+50", "+100", "+1000"][with % 3]),
            57 => "hold".to_owned(),
            58..=59 => "free".to_owned(),
            60 => "took".to_owned(),
            61 if with % 4 == 0 => "close".to_owned(),
            62 if with % 4 == 0 => "eof".to_owned(),
            63 if with % 4 == 0 => "gone".to_owned(),
            61 if with % 4 == 1 => match pick(&side.parked(), with) {
                Some(name) => format!("close {name}"),
                None => return,
            },
            62 if with % 4 == 1 => "fault".to_owned(),
            63 if with % 4 == 1 => format!("send shut#{}", 100 + with / 4 % 4),
            63 if with % 16 == 2 => "send shut".to_owned(),
            63 if with % 4 == 3 => {
                let (before, behind) = (batch(with / 4), batch(with / 4 + 3));
                let before = before.trim_end_matches(']');
                format!("send {before} shut#300 {}", behind.trim_start_matches('['))
            }
            _ => return self.step("+1"),
        };
        self.step(format!("{who} {words}"));
    }

    /// Lets everything end.
    fn end(mut self) {
        for who in ["a", "b"] {
            self.step(format!("{who} free"));
        }
        loop {
            let mut moved = self.pair.settle_link();
            for who in ["a", "b"] {
                let side = if who == "a" { &self.pair.a } else { &self.pair.b };
                for name in side.parked() {
                    moved = true;
                    self.step(format!("{who} end {name}"));
                }
            }
            if !moved {
                break;
            }
        }
        self.step("+100000");
        // Calls without a timeout end with the connection.
        self.step("a eof");
        self.step("b eof");
        while self.pair.settle_link() {}
        for side in [&self.pair.a, &self.pair.b] {
            side.finish();
        }
    }
}

impl Drop for Game {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.steps.join("\n"));
        }
    }
}

fn pick<T: Clone>(from: &[T], with: usize) -> Option<T> {
    from.get(with % from.len().max(1)).cloned()
}

fn pending(side: &Side) -> Vec<u64> {
    (1..=side.calls()).filter(|&call| side.settled(call).is_none()).collect()
}

/// A batch of one to four entries.
fn batch(with: usize) -> String {
    let entry = |place: usize| {
        let method = METHODS[(with + place * 3) % METHODS.len()];
        match (with + place * 5) % 8 {
            0 => method.to_owned(),
            1 => "7".to_owned(),
            2 => format!("~{}", 200 + with % 3),
            3 => "1=".to_owned(),
            _ => format!("{method}#{}", 200 + (with + place) % 3),
        }
    };
    let entries: Vec<_> = (0..=with % 4).map(entry).collect();
    format!("[{}]", entries.join(" "))
}

/// Small limits, so that games reach all of them.
fn profile(order: Order, size: u8) -> Profile {
    let size = usize::from(size);
    let limits = Limits::default().with(|it| {
        it.in_flight = 1 + size % 4;
        it.waiting = 1 + size / 4 % 4;
        it.waiting_bytes = [600, 1200, 4000][size / 16 % 3];
        it.pending_calls = 1 + size % 5;
        it.batch_bytes = [100, 200, 10_000][size % 3];
        it.answered_faults = 3;
    });
    let dialect = [Dialect::Dollar, Dialect::Notifications, Dialect::None][size / 64 % 3];
    let call_timeout = Some(Duration::from_millis(500));
    Profile::agent().with(|it| {
        it.order = order;
        it.dialect = dialect;
        it.call_timeout = call_timeout;
        it.limits = limits;
    })
}

/// Plays a game to its end: two sessions with these orders and sizes, and these moves.
pub fn play(orders: (Order, Order), sizes: (u8, u8), moves: &[Move]) {
    let mut game = Game::new(&profile(orders.0, sizes.0), &profile(orders.1, sizes.1));
    for &what in moves {
        game.make(what);
    }
    game.end();
}
