//! Client scripts, each in the language and with the library of its kind. They start the server themselves,
//! and exit with 0 if everything went right.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::sabotage::{NOTHING, Sabotage};
use super::support::folder::Folder;
use super::support::programs::{DUET_RPC, example, root, testbed};
use super::{fetched, has, skip};

/// A script with everything that it needs.
pub(crate) struct Script {
    /// Client library, named if it is missing.
    pub(crate) client: &'static str,
    pub(crate) runs_in: Runs,
    /// Path in `tests/clients`, or from the root of the repository.
    pub(crate) file: &'static str,
    /// Example of the library to run as the server; `None` for the daemon.
    pub(crate) server: Option<&'static str>,
    /// Sabotage that the script must notice.
    pub(crate) notices: &'static [&'static str],
}

/// Interpreter of a script, with the package that `scripts/clients` fetches for it.
pub(crate) enum Runs {
    /// Node with this package; an empty name for none.
    Node(&'static str),
    /// Python with this package; `None` needs nothing fetched.
    Python(Option<&'static str>),
    /// Emacs with this feature.
    Emacs(&'static str),
    /// A program that needs this other program and this folder.
    Alone(&'static str, &'static str),
}

/// Checks that each script fails with every sabotage that concerns it, and succeeds with one that changes
/// nothing.
pub(crate) fn notice_what_is_broken(scripts: &[&Script]) {
    let here = scripts.iter().filter(|script| script.is_here());
    let tries = here.flat_map(|script| {
        [NOTHING].iter().chain(script.notices).map(move |mischief| (script, *mischief))
    });
    let tries: Vec<_> = tries.collect();
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        // Scripts wait most of the time, so eight can run concurrently.
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some((script, mischief)) = tries.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let found = script.misses(mischief);
                    missed.lock().expect("no thread panics").extend(found);
                }
            });
        }
    });
    let missed = missed.into_inner().expect("no thread panics");
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
}

impl Script {
    /// Checks that the script succeeds with the real server.
    pub(crate) fn succeeds(&self) {
        if self.is_here() {
            let output = self.run(&Stage::real(self.server), "60");
            assert!(output.status.success(), "{}: {}", self.file, said(&output));
        }
    }

    /// Checks that the script succeeds with a tap before the real server, and that the traces equal the bytes that
    /// the server got and sent. Returns the number of traces.
    pub(crate) fn succeeds_through_a_tap(&self) -> usize {
        if !self.is_here() {
            return 0;
        }
        let (folder, stage) = Stage::tapped(self.server);
        let output = self.run(&stage, "60");
        assert!(output.status.success(), "{}: {}", self.file, said(&output));
        let traces = std::fs::read_dir(folder.join("traces")).expect("a folder").flatten();
        let compared: Vec<_> = traces.filter(|trace| compare(&trace.path())).collect();
        assert!(!compared.is_empty(), "{}: no lossless trace", self.file);
        compared.len()
    }

    /// Checks that the script succeeds with the real server as a Windows program, under wine.
    pub(crate) fn succeeds_on_windows(&self) {
        if self.is_here() {
            let stage = Stage::windows(self.server);
            let mut command = self.prepare(&stage, "120");
            // wine passes SIGINT on as Ctrl-C. Of SIGTERM the program learns nothing.
            command.env("END_SIGNAL", "SIGINT");
            let output = command.output().expect("it is here");
            assert!(output.status.success(), "{}: {}", self.file, said(&output));
        }
    }

    /// Checks that the script succeeds with the real server over another transport.
    pub(crate) fn succeeds_over(&self, transport: &str) {
        if self.is_here() {
            let mut command = self.prepare(&Stage::real(self.server), "60");
            let output = command.env("TRANSPORT", transport).output().expect("it is here");
            assert!(output.status.success(), "{} {transport}: {}", self.file, said(&output));
        }
    }

    /// Returns the script's output if it does not notice this sabotage.
    fn misses(&self, mischief: &'static str) -> Option<String> {
        let output = self.run(&Stage::sabotaged(self.server, mischief), patience_with(mischief));
        let has_failed = output.status.code().is_some_and(|code| code != 0);
        (has_failed == (mischief == NOTHING)).then(|| {
            format!("{} with {mischief}: {:?} {}", self.file, output.status, said(&output))
        })
    }

    /// Returns true if everything that it needs is installed.
    fn is_here(&self) -> bool {
        let is_here = match self.runs_in {
            Runs::Node(package) => {
                has("node") && fetched(&format!("node_modules/{package}")).is_some()
            }
            Runs::Python(None) => has("python3"),
            Runs::Python(Some(package)) => fetched_python().is_some_and(|python| {
                let find = format!("import importlib.util as u; assert u.find_spec('{package}')");
                let mut command = Command::new(python);
                command.args(["-c", &find]).stderr(Stdio::null());
                command.status().is_ok_and(|status| status.success())
            }),
            Runs::Emacs(feature) => has("emacs") && emacs_has(feature),
            Runs::Alone(program, folder) => has(program) && root().join(folder).exists(),
        };
        if !is_here {
            skip(self.client, "it is not installed (see scripts/clients)");
        }
        is_here
    }

    fn command(&self) -> Command {
        let mut command = match self.runs_in {
            Runs::Alone(..) => return Command::new(self.path()),
            Runs::Node(_) => Command::new("node"),
            Runs::Python(None) => Command::new("python3"),
            Runs::Python(Some(_)) => {
                Command::new(fetched_python().expect("python was found before"))
            }
            Runs::Emacs(_) => {
                let mut command = Command::new("emacs");
                command.args(["-Q", "--batch", "--load"]);
                command
            }
        };
        command.arg(self.path());
        command
    }

    fn path(&self) -> PathBuf {
        match self.runs_in {
            Runs::Alone(..) => root().join(self.file),
            _ => root().join("crates/cli/tests/clients").join(self.file),
        }
    }

    fn run(&self, stage: &Stage, patience: &str) -> Output {
        self.prepare(stage, patience).output().expect("it is here")
    }

    fn prepare(&self, stage: &Stage, patience: &str) -> Command {
        let mut command = self.command();
        for (variable, program) in &stage.programs {
            command.env(variable, program);
        }
        if let Some(modules) = fetched("node_modules") {
            command.env("NODE_MODULES", modules);
        }
        command.env("PATIENCE", patience);
        if stage.folder.is_some() {
            // The run with the real server has done the build steps already.
            command.env("BUILT", "1");
        }
        command.env_remove("DUET_RPC_LOG").env_remove("NO_COLOR");
        command.stdin(Stdio::null());
        command
    }
}

/// Seconds that a script waits. With a sabotaged server the wait is useless, so the time is short.
pub(crate) fn patience_with(mischief: &str) -> &'static str {
    if mischief == NOTHING { "60" } else { "5" }
}

/// The programs that a script starts.
pub(crate) struct Stage {
    /// Environment variables, each with its program.
    programs: Vec<(&'static str, PathBuf)>,
    /// The folder of programs that stand in for the real ones.
    folder: Option<Folder>,
}

impl Stage {
    pub(crate) fn real(server: Option<&str>) -> Self {
        let mut programs = vec![("DUET_RPC", PathBuf::from(DUET_RPC)), ("TESTBED", testbed())];
        programs.extend(server.map(|server| ("SERVER", example("duet-rpc", server))));
        Stage { programs, folder: None }
    }

    /// The programs for Windows that `scripts/windows` has built, under wine.
    pub(crate) fn windows(server: Option<&str>) -> Self {
        let wine = std::env::var("WINE").expect("scripts/windows sets it");
        let built = root().join("target/x86_64-pc-windows-gnu/debug");
        let example = |name: &str| built.join("examples").join(name).with_extension("exe");
        let mut programs = vec![("DUET_RPC", built.join("duet-rpc.exe"))];
        programs.push(("TESTBED", example("testbed")));
        programs.extend(server.map(|server| ("SERVER", example(server))));
        Self::with_scripts(Folder::new(), programs, |program, _| {
            format!("#!/bin/sh\nexec {wine} {program} \"$@\"\n")
        })
    }

    /// The programs with a sabotage.
    pub(crate) fn sabotaged(server: Option<&str>, sabotage: &str) -> Self {
        let sabotage = Sabotage::named(sabotage);
        Self::with_scripts(Folder::new(), Self::real(server).programs, |program, _| {
            sabotage.script(program)
        })
    }

    /// A foreign server with a sabotage.
    pub(crate) fn foreign(server: &Path, sabotage: &str) -> Self {
        let (sabotage, real) = (Sabotage::named(sabotage), vec![("SERVER", server.to_owned())]);
        Self::with_scripts(Folder::new(), real, |program, _| sabotage.script(program))
    }

    /// A tap before each program, with a spy behind it, which copies the bytes to files. Returns the folder too.
    pub(crate) fn tapped(server: Option<&str>) -> (PathBuf, Self) {
        let (folder, spy) = (Folder::new(), example("duet-rpc-cli", "spy"));
        for name in ["traces", "captured"] {
            std::fs::create_dir(folder.path(name)).expect("a folder can be made");
        }
        let root = folder.text("");
        let root = root.trim_end_matches('/').to_owned();
        let spy = spy.display();
        let stage = Self::with_scripts(folder, Self::real(server).programs, |program, root| {
            format!(
                "#!/bin/sh\nexec {DUET_RPC} tap --to {root}/traces/$$.jsonl -- \
                 env CAPTURE={root}/captured/$$ {spy} {program} \"$@\"\n"
            )
        });
        (PathBuf::from(root), stage)
    }

    /// Puts a shell script under the name of each program. `script` gets the path of the program and the folder.
    fn with_scripts(
        folder: Folder,
        real: Vec<(&'static str, PathBuf)>,
        script: impl Fn(&str, &str) -> String,
    ) -> Self {
        let root = folder.text("");
        let root = root.trim_end_matches('/');
        let stand_in = |(variable, program): (&'static str, PathBuf)| {
            let name = program.file_name().and_then(|name| name.to_str()).expect("a plain name");
            let path = folder.write(name, script(program.to_str().expect("a plain path"), root));
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&path, mode).expect("our file");
            (variable, PathBuf::from(path))
        };
        let programs = real.into_iter().map(stand_in).collect();
        Stage { programs, folder: Some(folder) }
    }

    /// The program in this variable.
    pub(crate) fn program(&self, variable: &str) -> &Path {
        let named = self.programs.iter().find(|(name, _)| *name == variable);
        &named.expect("the variable is set").1
    }
}

/// Compares a trace with the bytes on the other side of the tap. `false` if there is nothing to
/// compare, because the client killed the tap or the server listens.
fn compare(trace: &Path) -> bool {
    for dir in ["c2s", "s2c"] {
        let mut command = Command::new(DUET_RPC);
        command.args(["trace", "cat", "--dir", dir]).arg(trace);
        let output = command.output().expect("it starts");
        if !output.status.success() {
            let text = std::fs::read_to_string(trace).expect("a trace");
            assert!(!text.contains(r#""kind":"end""#), "{}", said(&output));
            return false;
        }
        let name = trace.with_extension(dir);
        let captured = trace.parent().and_then(Path::parent).expect("a folder").join("captured");
        // A server that listens has no messages on stdin and stdout.
        let captured = std::fs::read(captured.join(name.file_name().expect("a name")));
        let Ok(captured) = captured else { return false };
        assert!(captured == output.stdout, "{} {dir}: the bytes differ", trace.display());
    }
    true
}

fn fetched_python() -> Option<PathBuf> {
    fetched("python/bin/python")
}

fn emacs_has(feature: &str) -> bool {
    let find = format!("(kill-emacs (if (locate-library \"{feature}\") 0 1))");
    let mut command = Command::new("emacs");
    command.args(["--batch", "--eval", &find]).stdin(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn said(output: &Output) -> String {
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    format!("{stdout}{stderr}")
}
