//! One life, as a chain of steps: `trial.start()?.greet()?.traffic().close_stdin().finish(complete())`.

use std::fmt::Display;

use super::prelude::*;
use super::signals::obeyed;
use super::tapped::Tap;

/// The outcome of a life's steps: an error if it could not continue. Failed checks are in the life.
pub(super) type Lived = io::Result<()>;

/// A life in progress.
pub(super) struct Trial<'w> {
    pub(super) world: &'w World,
    pub(super) random: Random,
    /// Current folder of the daemon. Files in it at the end are leftovers.
    pub(super) folder: PathBuf,
    pub(super) profile: Profile,
    /// True for the test bed, which has more methods.
    pub(super) is_testbed: bool,
    /// Minimum severity that the daemon logs.
    pub(super) level: &'static str,
    /// Command of the next daemon, if prepared.
    pub(super) prepared: Option<Command>,
    /// The tap between the client and the daemon, if any.
    pub(super) tap: Option<Tap>,
    pub(super) daemon: Option<PipedDaemon>,
    pub(super) life: Life,
    /// Files that may be left over.
    pub(super) may_leave: Vec<&'static str>,
    /// Lines on stderr that may be there besides records; the flag also allows empty lines.
    pub(super) may_say: Vec<&'static str>,
    pub(super) may_say_nothing: bool,
    /// Words of lines that the loader writes, or the Rust runtime when memory is short.
    pub(super) excused: Vec<&'static str>,
}

impl<'w> Trial<'w> {
    /// A life without any steps yet, with a random profile and program.
    pub(super) fn new(world: &'w World, mut random: Random, folder: PathBuf) -> Self {
        let profile = *random.pick(Profile::value_variants());
        let is_testbed = random.once_in(2);
        Trial {
            world,
            random,
            folder,
            profile,
            is_testbed,
            level: "info",
            prepared: None,
            tap: None,
            daemon: None,
            life: Life::default(),
            may_leave: Vec::new(),
            may_say: Vec::new(),
            may_say_nothing: false,
            excused: Vec::new(),
        }
    }
}

impl Trial<'_> {
    /// Records a step for the reader of a failure.
    pub(super) fn tell(&mut self, what: impl Display) -> &mut Self {
        self.life.story.push(what.to_string());
        self
    }

    pub(super) fn complain(&mut self, what: impl Display) {
        self.life.complaints.push(what.to_string());
    }

    /// Records a failed check unless `holds`.
    pub(super) fn check(&mut self, holds: bool, what: impl Display) -> &mut Self {
        if !holds {
            self.complain(what);
        }
        self
    }

    /// Like `check`, as the last step.
    pub(super) fn conclude(&mut self, holds: bool, what: impl Display) -> Lived {
        self.check(holds, what);
        Ok(())
    }

    /// Skips the life unless `is_there`.
    pub(super) fn need(&mut self, is_there: bool, lacking: Skipped) -> io::Result<()> {
        self.life.skipped = (!is_there).then_some(lacking);
        if is_there { Ok(()) } else { Err(io::Error::other(lacking.why)) }
    }

    /// Time limit for a wait: longer counts as hanging.
    pub(super) fn hang(&self) -> Duration {
        Duration::from_secs(10).mul_f64(self.world.patience)
    }

    /// Reads and writes until `until` holds, at most for `hang`. Returns true if it holds.
    pub(super) fn wait(&mut self, until: impl FnMut(&PipedDaemon) -> bool) -> bool {
        let hang = self.hang();
        self.daemon().pump(hang, until)
    }

    /// A path in the folder of this life.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The daemon that was started last.
    pub(super) fn daemon(&mut self) -> &mut PipedDaemon {
        self.daemon.as_mut().expect("it was started")
    }

    /// Sends a request and waits for its answer, so that the daemon is up.
    pub(super) fn greet(&mut self) -> io::Result<&mut Self> {
        self.ask("version", &json!([]), Outcome::Any).await_answers();
        if self.daemon().is_settled() {
            return Ok(self);
        }
        self.complain("it does not answer the first request");
        self.check_output(&Ending::code(0));
        self.check_stderr();
        self.tell_stderr();
        Err(io::Error::other("not up"))
    }

    /// Sends a request, without waiting for the answer.
    pub(super) fn ask(&mut self, method: &str, params: &Value, outcome: Outcome) -> &mut Self {
        let text = self.daemon().link.ledger.ask(method, params, outcome);
        self.daemon().say(&text);
        self
    }

    /// Sends `count` requests with any result, without waiting.
    pub(super) fn ask_many(&mut self, count: usize, method: &str) -> &mut Self {
        (0..count).for_each(|_| _ = self.ask(method, &json!([]), Outcome::Any));
        self
    }

    /// Requests an answer of `least` bytes and up to `more` above that.
    pub(super) fn ask_big(&mut self, least: usize, more: usize) -> &mut Self {
        let bytes = least + self.random.below(more);
        self.ask("test.big", &json!({"bytes": bytes}), Outcome::Xs(bytes))
    }

    /// Makes a handler run for this time.
    pub(super) fn ask_slow(&mut self, method: &str, ms: usize) -> &mut Self {
        self.tell(format_args!("{method} for {ms} ms"));
        self.ask(method, &json!({"ms": ms}), Outcome::result(&json!(ms)))
    }

    /// Waits until a handler of a telling test bed begins.
    pub(super) fn await_begin(&mut self, method: &str) -> &mut Self {
        let begins = format!("{method} begins");
        let has_begun = self.wait(|daemon| daemon.has_said(&begins));
        self.check(has_begun, "the handler does not begin")
    }

    /// Repeats a request until the daemon ends: a failing output shows at the next answer. One request may
    /// not be enough, because another life that is just starting also holds our ends for a moment.
    pub(super) fn ask_until_it_ends(&mut self) -> &mut Self {
        for _ in 0..100 {
            self.ask_many(1, "version").mark();
            if self.daemon().pump_to_end(Duration::from_millis(50)) {
                break;
            }
        }
        self
    }

    /// Sends a random number of random messages.
    pub(super) fn traffic(&mut self) -> &mut Self {
        let most = *self.random.pick(&[1, 5, 5, 30, 30, 300]);
        let count = self.random.below(most + 1);
        self.tell(format_args!("{count} messages")).messages(count)
    }

    /// Sends random messages, some of them in pieces, and waits for some of the answers.
    pub(super) fn messages(&mut self, count: usize) -> &mut Self {
        let is_patient = self.random.once_in(2);
        for _ in 0..count {
            let frame = self.random_frame();
            let cut = self.random.below(frame.len());
            let (begin, end) = frame.split_at(if self.random.once_in(4) { cut } else { 0 });
            self.daemon().send(begin);
            if !begin.is_empty() {
                self.daemon().run_for(Duration::from_micros(300));
            }
            self.daemon().send(end);
            if is_patient && self.random.once_in(3) {
                self.await_answers();
            }
        }
        self
    }

    /// Sends random messages, without waiting for an answer.
    pub(super) fn unwaited(&mut self, count: usize) -> &mut Self {
        for _ in 0..count {
            let frame = self.random_frame();
            self.daemon().send(&frame);
        }
        self
    }

    fn random_frame(&mut self) -> Vec<u8> {
        let daemon = self.daemon.as_mut().expect("it was started");
        let text = daemon.link.ledger.random(&mut self.random, self.profile, self.is_testbed);
        daemon.link.carrier.frame(text.as_bytes())
    }

    /// Waits a little, while the daemon continues.
    pub(super) fn pause(&mut self) -> &mut Self {
        let most = *self.random.pick(&[0, 200, 2_000, 20_000]);
        let time = Duration::from_micros(self.random.below(most + 1) as u64);
        self.daemon().run_for(time);
        self
    }

    /// Continues for this many milliseconds, or until the end.
    pub(super) fn run_for(&mut self, ms: u64) -> &mut Self {
        self.daemon().run_for(Duration::from_millis(ms));
        self
    }

    /// Waits until every due answer is there.
    pub(super) fn settle(&mut self) -> &mut Self {
        self.await_answers();
        let missing = self.daemon().link.ledger.missing();
        let is_settled = self.daemon().is_settled();
        self.check(is_settled, format_args!("while it lives, {missing}"))
    }

    /// Waits until all is answered, or nothing more can come.
    fn await_answers(&mut self) {
        self.wait(|it| it.is_settled() || it.garbage.is_some() || it.has_ended());
    }

    /// Marks that nothing is in flight, so the end should be quick.
    pub(super) fn idle(&mut self) -> &mut Self {
        self.life.was_idle = true;
        self
    }

    /// Stops reading the answers, or resumes.
    pub(super) fn leave_stdout(&mut self, is_unread: bool) -> &mut Self {
        self.daemon().link.is_unread = is_unread;
        self
    }

    /// Waits until everything is sent.
    pub(super) fn flush(&mut self) -> &mut Self {
        let is_sent = self.wait(|daemon| daemon.link.is_sent() || daemon.has_ended());
        self.check(is_sent, "it does not read its input")
    }

    /// Records that the cause of the end happens now.
    pub(super) fn mark(&mut self) -> &mut Self {
        self.daemon().trigger = Instant::now();
        self
    }

    /// Closes stdin after everything is sent.
    pub(super) fn close_stdin(&mut self) -> &mut Self {
        self.flush().tell("stdin is closed");
        self.daemon().link.input = None;
        self.daemon().counts_from_last_byte = true;
        self.mark()
    }

    /// Sends a signal.
    pub(super) fn signal(&mut self, signal: Signal) -> &mut Self {
        self.daemon().process.signal(signal);
        self
    }

    /// Sends a signal that ends the daemon.
    pub(super) fn end_by(&mut self, signal: Signal) -> &mut Self {
        let signal = obeyed(signal);
        self.tell(format_args!("signal {}", signal.as_raw())).mark().signal(signal)
    }

    /// Ends the daemon with this signal after all is answered, or with the end of its input; nothing may be
    /// lost.
    pub(super) fn end_either_way(&mut self, signal: Signal) -> Lived {
        match self.random.once_in(2) {
            true => self.settle().end_by(signal).finish(complete()),
            false => self.close_stdin().finish(complete()),
        }
    }
}
