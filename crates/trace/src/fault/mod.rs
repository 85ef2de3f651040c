//! Faults on purpose: rules that delay, drop, change or break messages on their way.
//!
//! | fault | effect on the message |
//! |---|---|
//! | `delay=TIME`, `delay=TIME..TIME` | comes later, and everything behind it too |
//! | `throttle=RATE` | comes with so many bytes in a second |
//! | `slice=SIZE`, `slice=SIZE,TIME` | comes in pieces, with a pause after each |
//! | `stall`, `stall=TIME` | comes, with everything behind it, after this time, or never |
//! | `drop` | does not come |
//! | `dup`, `dup=N` | comes twice, or N times |
//! | `reorder`, `reorder=N,TIME` | comes after the next one, or after the next N, or after this time |
//! | `cut` | both directions end instead |
//! | `half-close` | its direction ends instead |
//! | `kill`, `kill=SIGNAL` | the server gets a signal instead |
//! | `corrupt=HOW` | is broken: `json`, `utf8`, `length`, `truncate`, `bit`, `id`, `print` |
//! | `error=CODE:TEXT`, `answer=JSON` | a request gets this answer and does not pass; an answer becomes this one |
//! | `set=/POINTER=JSON`, `unset=/POINTER` | has another value, or one value less |
//!
//! Behind the fault stand a [filter](crate::Filter) and the terms `nth:`, `every:`, `p:` and `after:`, which
//! choose among the messages that the filter matches. A message in which the fault cannot be made does not
//! match.

mod engine;
mod frame;
mod json_edit;
mod line;
mod parse;
mod plan;
mod random;
mod rule;
#[cfg(test)]
mod tests;

pub use engine::{FaultNote, Faults};
pub use line::FaultStep;
pub(crate) use rule::FaultReach;
pub use rule::FaultRule;
