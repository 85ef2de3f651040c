//! The flags of the command.

use std::time::Duration;

use super::config::{PROFILES, TRANSPORTS};
use super::{Amount, Plan};
use crate::wire::Framing;

/// How it is called.
pub const USAGE: &str = "\
Puts one daemon group a random mix of all that clients do, and checks every byte that comes back.

usage: soak [--seed N] [--seconds N | --rounds N] [--profile editor|desktop|agent]
            [--over stdio|tcp|unix|ws|http] [--framing lsp|ndjson|length]
            [--connections N] [--read-timeout SECONDS] [--patience SECONDS] [--quiet]

  --seed          the game that is played; the same seed plays the same one (1)
  --seconds       how long (60)
  --rounds        how much, in place of how long
  --profile       who the client is (agent)
  --over          what carries the messages (stdio)
  --framing       how messages are cut out of the stream (the profile's)
  --connections   how many there are at a time, where it listens (8)
  --read-timeout  how long the daemon waits for the rest of a frame (3)
  --patience      how long an answer may take before it counts as lost (30)
  --quiet         no word on the way

exit: 0 all held, 1 something broke, 2 bad flags";

/// Reads the flags.
///
/// # Errors
///
/// If one is not known, or its value is not.
pub fn read(flags: impl IntoIterator<Item = String>) -> Result<Plan, String> {
    let mut plan = Plan::default();
    let mut flags = flags.into_iter();
    while let Some(flag) = flags.next() {
        if flag == "--quiet" {
            plan.is_quiet = true;
            continue;
        }
        let value = flags.next().ok_or_else(|| format!("{flag} has no value, or is no flag"))?;
        let seconds = || value.parse().ok().and_then(|it| Duration::try_from_secs_f64(it).ok());
        let is_known = match flag.as_str() {
            "--seed" => set(&mut plan.seed, value.parse().ok()),
            "--seconds" => set(&mut plan.amount, seconds().map(Amount::Time)),
            "--rounds" => set(&mut plan.amount, value.parse().ok().map(Amount::Rounds)),
            "--profile" => set(&mut plan.profile, named(&PROFILES, &value)),
            "--over" => set(&mut plan.over, named(&TRANSPORTS, &value)),
            "--framing" => {
                let all = [Framing::Lsp, Framing::Ndjson, Framing::Length];
                let framing = all.into_iter().find(|framing| framing.name() == value);
                set(&mut plan.framing, framing.map(Some))
            }
            "--connections" => {
                set(&mut plan.connections, value.parse().ok().filter(|count| *count > 0))
            }
            "--read-timeout" => set(&mut plan.read_timeout, seconds().filter(|it| !it.is_zero())),
            "--patience" => set(&mut plan.patience, seconds()),
            _ => return Err(format!("{flag} is no flag")),
        };
        if !is_known {
            return Err(format!("{flag} cannot be {value}"));
        }
    }
    Ok(plan)
}

fn set<T>(place: &mut T, value: Option<T>) -> bool {
    value.map(|value| *place = value).is_some()
}

fn named<T: Copy>(all: &[(&str, T)], name: &str) -> Option<T> {
    all.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::soak::{Amount, Over, Profile};

    #[test]
    fn flags_are_read_and_bad_ones_are_named() {
        let read = |flags: &str| read(flags.split_whitespace().map(str::to_owned));
        let plan = read("--seed 7 --rounds 3 --profile editor --over tcp").expect("all are known");
        assert_eq!((plan.seed, plan.profile, plan.over), (7, Profile::Editor, Over::Tcp));
        assert!(matches!(plan.amount, Amount::Rounds(3)));
        for bad in ["--seed", "--seed x", "--over carrier-pigeon", "-x", "--seconds -1", "7"] {
            let why = read(bad).expect_err("it is bad");
            assert!(why.contains(bad.split_whitespace().next().expect("a word")), "{why}");
        }
    }
}
