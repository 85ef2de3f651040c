//! What is wanted, as it is said on the command line.

use std::path::PathBuf;
use std::str::FromStr;

/// How to call it.
pub const USAGE: &str = "\
Usage: chaos [OPTIONS]

  --seed N         what all that is random comes of (1)
  --lives N        how many lives (1000); the first are one of each kind
  --life N         this one alone, to have it again
  --only KIND      kinds whose name begins like this
  --patience X     allow times that are X times as long, on machines that have other things to do (1)
  --jobs N         lives at the same time (4)
  --daemon PATH    this program instead of duet-rpc
  --testbed PATH   this program instead of testbed
  --smallest       find the smallest memory limit with which each profile serves, and nothing else
  --list           print the kinds
  --help           print this

With CHAOS=required in the environment a kind that lacks a program, such as strace, has failed.
";

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Options {
    /// What all that is random comes of.
    pub seed: u64,
    /// How many lives.
    pub lives: usize,
    /// One of them alone.
    pub life: Option<usize>,
    /// How the names of kinds begin.
    pub only: Option<String>,
    /// Times are allowed to be so many times as long.
    pub patience: f64,
    /// Lives at the same time.
    pub jobs: usize,
    /// Whether a kind has failed if it lacks what can be installed.
    pub is_required: bool,
    /// Programs instead of those of the workspace.
    pub daemon: Option<PathBuf>,
    /// The same for the test bed.
    pub testbed: Option<PathBuf>,
    /// To do something else.
    pub instead: Option<Instead>,
}

/// What to do instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// Print how to call it.
    Help,
    /// Print the kinds.
    List,
    /// Look for the smallest memory limits.
    Smallest,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seed: 1,
            lives: 1000,
            life: None,
            only: None,
            patience: 1.0,
            jobs: 4,
            is_required: std::env::var_os("CHAOS").is_some_and(|value| value == "required"),
            daemon: None,
            testbed: None,
            instead: None,
        }
    }
}

impl Options {
    /// Reads the words of a command line.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Options::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--seed" => options.seed = number(&word, &value()?)?,
                "--lives" => options.lives = number(&word, &value()?)?,
                "--life" => options.life = Some(number(&word, &value()?)?),
                "--only" => options.only = Some(value()?),
                "--patience" => options.patience = number(&word, &value()?)?,
                "--jobs" => options.jobs = number(&word, &value()?)?,
                "--daemon" => options.daemon = Some(value()?.into()),
                "--testbed" => options.testbed = Some(value()?.into()),
                "--smallest" => options.instead = Some(Instead::Smallest),
                "--list" => options.instead = Some(Instead::List),
                "--help" | "-h" => options.instead = Some(Instead::Help),
                _ => return Err(format!("there is no option {word}")),
            }
        }
        let is_patient = options.patience.is_finite() && options.patience >= 1.0;
        if !is_patient || options.jobs == 0 {
            return Err("--patience and --jobs are at least 1".to_owned());
        }
        Ok(options)
    }

    /// The numbers of the lives.
    pub(super) fn numbers(&self) -> Vec<usize> {
        self.life.map_or_else(|| (0..self.lives).collect(), |one| vec![one])
    }

    /// Whether a kind is wanted.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.starts_with(only))
    }

    /// The words that bring this life back.
    pub fn again(&self, number: usize) -> String {
        let only = self.only.as_ref().map_or(String::new(), |only| format!(" --only {only}"));
        format!("scripts/chaos --seed {} --life {number}{only}", self.seed)
    }
}

fn number<T: FromStr>(word: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{word} needs a number, and not {value:?}"))
}
