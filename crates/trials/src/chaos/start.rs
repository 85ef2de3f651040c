//! The start of a daemon: `trial.telling().start()?`, `trial.with(&["--flag"]).shell(SCRIPT).start()?`.

use super::prelude::*;

impl Trial<'_> {
    /// Uses the test bed, instead of a random choice.
    pub(super) fn testbed(&mut self) -> &mut Self {
        self.is_testbed = true;
        self
    }

    /// Uses the test bed, with handlers that print when they begin.
    pub(super) fn telling(&mut self) -> &mut Self {
        self.may_say.extend(["test.", "the exit hook begins"]);
        self.testbed().env("TESTBED_TELLS", "1")
    }

    /// The command of the next daemon, with random settings that do not affect its end.
    fn command(&mut self) -> &mut Command {
        if self.prepared.is_none() {
            let level = *self.random.pick(&["info", "info", "debug", "warn"]);
            self.at_level(level);
        }
        self.prepared.as_mut().expect("it is prepared")
    }

    /// Prepares the next daemon with this minimum severity.
    pub(super) fn at_level(&mut self, level: &'static str) -> &mut Self {
        self.level = level;
        let (profile, format) = (self.profile, *self.random.pick(&["text", "text", "json"]));
        let (program, words, name) = match self.is_testbed {
            true => (&self.world.testbed, &[][..], "testbed"),
            false => (&self.world.daemon, &["rpc"][..], "duet-rpc rpc"),
        };
        let mut command = Command::new(program);
        command.args(words).args(["--profile", &profile.to_string()]);
        command.args(["--log-level", level, "--log-format", format]);
        command.env_remove("DUET_RPC_LOG").env_remove("RUST_BACKTRACE").env_remove("NO_COLOR");
        command.current_dir(&self.folder);
        self.prepared = Some(command);
        self.tell(format_args!(
            "{name} --profile {profile} --log-level {level} --log-format {format}"
        ))
    }

    /// Adds arguments for the next daemon.
    pub(super) fn with(&mut self, words: &[&str]) -> &mut Self {
        self.command().args(words);
        self
    }

    pub(super) fn env(&mut self, name: &str, value: &str) -> &mut Self {
        self.command().env(name, value);
        self
    }

    /// Makes a program with these arguments start the next daemon.
    pub(super) fn wrap(&mut self, program: &str, words: &[&str]) -> &mut Self {
        let inner = self.command();
        let mut outer = Command::new(program);
        outer.args(words).arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => outer.env(name, value),
                None => outer.env_remove(name),
            };
        }
        outer.current_dir(&self.folder);
        self.prepared = Some(outer);
        self
    }

    /// Makes a shell start the next daemon with this script, in which `"$@"` is the command.
    pub(super) fn shell(&mut self, script: &str) -> &mut Self {
        self.wrap("sh", &["-c", script, "sh"]).tell(format_args!("sh -c '{script}'"))
    }

    /// Sets a limit for the next daemon, with a flag of `ulimit`.
    pub(super) fn limit(&mut self, flag: &str, most: usize) -> &mut Self {
        self.shell(&format!(r#"ulimit {flag} {most}; exec "$@""#))
    }

    /// Starts the daemon on pipes.
    pub(super) fn start(&mut self) -> io::Result<&mut Self> {
        self.start_on(PIPES)
    }

    /// Starts the daemon on these descriptors.
    pub(super) fn start_on(&mut self, on: [Channel; 3]) -> io::Result<&mut Self> {
        self.command();
        if let Some(tap) = self.tap.clone() {
            let (program, words) = (programs::duet_rpc(), tap.words());
            self.wrap(&program.to_string_lossy(), &words.each_ref().map(String::as_str));
        }
        let command = self.prepared.take().expect("it is prepared");
        let mut daemon = PipedDaemon::start(command, self.profile, on)?;
        daemon.link.passed = self.world.is_tapped.then(Default::default);
        self.daemon = Some(daemon);
        Ok(self)
    }
}
