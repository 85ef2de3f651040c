//! Scripts that do with a server what programs of their kind do, each in the language and with the library
//! of its kind. They start the server themselves, and end with 0 if all came as it should.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::support::folder::Folder;
use super::support::programs::{DUET_RPC, example, testbed};
use super::{fetched, has, skip};

/// Something that can be run, with all that it needs.
pub(crate) struct Script {
    /// What it speaks with, for who reads that it is missing.
    pub(crate) client: &'static str,
    pub(crate) runs_in: Runs,
    /// In `tests/clients`, or from the root of the repository.
    pub(crate) file: &'static str,
    /// The example of the library that it speaks with, where that is not the daemon.
    pub(crate) server: Option<&'static str>,
    /// The mischief of the saboteur that it must notice.
    pub(crate) notices: &'static [&'static str],
}

/// What runs a script, with what `scripts/clients` has fetched for it.
pub(crate) enum Runs {
    /// With this package, if it has a name.
    Node(&'static str),
    /// With this package; none needs nothing to be fetched.
    Python(Option<&'static str>),
    /// With this feature.
    Emacs(&'static str),
    /// A program by itself, which needs this program and this folder.
    Alone(&'static str, &'static str),
}

impl Script {
    /// It ends well with the server as it is.
    pub(crate) fn succeeds(&self) {
        let Some(command) = self.command() else { return };
        let output = self.run(command, &Stage::real(self.server), "60");
        assert!(output.status.success(), "{}: {}", self.file, said(&output));
    }

    /// It fails with a server that is broken in any of the ways that concern it, but not because somebody
    /// stands between.
    pub(crate) fn notices_what_is_broken(&self) {
        if self.command().is_none() {
            return;
        }
        let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let check = |mischief: &'static str| {
            let command = self.command().expect("it was there a moment ago");
            // Most wait in vain for something, and need not do that for long.
            let patience = if mischief == "nothing" { "60" } else { "5" };
            let output = self.run(command, &Stage::sabotaged(self.server, mischief), patience);
            let has_failed = output.status.code().is_some_and(|code| code != 0);
            (has_failed == (mischief == "nothing"))
                .then(|| format!("{mischief}: {:?} {}", output.status, said(&output)))
        };
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| {
                    let all = || ["nothing"].iter().chain(self.notices);
                    while let Some(mischief) = all().nth(next.fetch_add(1, Ordering::Relaxed)) {
                        missed.lock().expect("nobody panics here").extend(check(mischief));
                    }
                });
            }
        });
        let missed = missed.into_inner().expect("nobody panics here");
        assert!(missed.is_empty(), "{} does not notice {}", self.file, missed.join("\n"));
    }

    /// What runs it, if that is here.
    fn command(&self) -> Option<Command> {
        let (command, is_here) = match self.runs_in {
            Runs::Node(package) => {
                let modules = fetched(&format!("node_modules/{package}")).filter(|_| has("node"));
                (Command::new("node"), modules.is_some())
            }
            Runs::Python(None) => (Command::new("python3"), has("python3")),
            Runs::Python(Some(package)) => {
                let found = fetched("python/bin/python").filter(|python| {
                    let mut command = Command::new(python);
                    command.args([
                        "-c",
                        &format!("import importlib.util as u; assert u.find_spec('{package}')"),
                    ]);
                    command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
                });
                (Command::new(found.as_deref().unwrap_or(Path::new("python3"))), found.is_some())
            }
            Runs::Emacs(feature) => {
                let mut command = Command::new("emacs");
                command.args(["-Q", "--batch", "--load"]);
                (command, has("emacs") && emacs_has(feature))
            }
            Runs::Alone(program, folder) => {
                (Command::new(self.path()), has(program) && root().join(folder).exists())
            }
        };
        if !is_here {
            skip(self.client, "it is not here (scripts/clients fetches what can be fetched)");
            return None;
        }
        Some(command)
    }

    fn path(&self) -> PathBuf {
        match self.runs_in {
            Runs::Alone(..) => root().join(self.file),
            _ => root().join("crates/cli/tests/clients").join(self.file),
        }
    }

    fn run(&self, mut command: Command, stage: &Stage, patience: &str) -> Output {
        if !matches!(self.runs_in, Runs::Alone(..)) {
            command.arg(self.path());
        }
        for (variable, program) in &stage.programs {
            command.env(variable, program);
        }
        if let Some(modules) = fetched("node_modules") {
            command.env("NODE_MODULES", modules);
        }
        command.env("PATIENCE", patience).env("SABOTAGE", stage.mischief);
        if !stage.mischief.is_empty() {
            // Once is enough for what is the same each time.
            command.env("BUILT", "1");
        }
        command.env_remove("DUET_RPC_LOG").env_remove("NO_COLOR");
        command.stdin(Stdio::null()).output().expect("it is here")
    }
}

/// The programs that a script starts.
pub(crate) struct Stage {
    /// With the variables that name them.
    programs: Vec<(&'static str, PathBuf)>,
    /// For the saboteur.
    pub(crate) mischief: &'static str,
    _folder: Option<Folder>,
}

impl Stage {
    pub(crate) fn real(server: Option<&str>) -> Self {
        let mut programs = vec![("DUET_RPC", PathBuf::from(DUET_RPC)), ("TESTBED", testbed())];
        programs.extend(server.map(|server| ("SERVER", example("duet-rpc", server))));
        Stage { programs, mischief: "", _folder: None }
    }

    pub(crate) fn sabotaged(server: Option<&str>, mischief: &'static str) -> Self {
        Stage { mischief, ..Self::with_stand_ins(Self::real(server).programs) }
    }

    /// A server of other people's making that is sabotaged; the mischief is for who starts it to say.
    pub(crate) fn of_foreign(server: &Path) -> Self {
        Self::with_stand_ins(vec![("SERVER", server.to_owned())])
    }

    /// The saboteur under the name of each, which finds the real ones in a folder beside it.
    fn with_stand_ins(real: Vec<(&'static str, PathBuf)>) -> Self {
        let (folder, saboteur) = (Folder::new(), example("duet-rpc-cli", "saboteur"));
        std::fs::create_dir(folder.path("real")).expect("a folder can be made");
        let stand_in = |(variable, program): (&'static str, PathBuf)| {
            let name = program.file_name().and_then(|name| name.to_str()).expect("a plain name");
            symlink(&program, folder.path("real").join(name)).expect("a link can be made");
            symlink(&saboteur, folder.path(name)).expect("a link can be made");
            (variable, folder.path(name))
        };
        let programs = real.into_iter().map(stand_in).collect();
        Stage { programs, mischief: "", _folder: Some(folder) }
    }

    /// The program that this variable names.
    pub(crate) fn program(&self, variable: &str) -> &Path {
        let named = self.programs.iter().find(|(name, _)| *name == variable);
        &named.expect("it has a name").1
    }
}

fn emacs_has(feature: &str) -> bool {
    let find = format!("(kill-emacs (if (locate-library \"{feature}\") 0 1))");
    let mut command = Command::new("emacs");
    command.args(["--batch", "--eval", &find]).stdin(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it is there")
}

fn said(output: &Output) -> String {
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    format!("{stdout}{stderr}")
}
