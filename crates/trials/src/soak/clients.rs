//! Generations of clients of one daemon, each with its own random steps. After a generation has left, the
//! daemon must be as it was before.

use super::log::Log;
use super::prelude::*;

/// State shared by all connections.
pub(super) struct Clients {
    pub(super) config: Config,
    pub(super) url: String,
    pub(super) log: Arc<Log>,
    pub(super) pages: Arc<Pages>,
    pub(super) counters: Arc<Counters>,
    pub(super) patience: Duration,
}

impl Clients {
    /// Runs a generation: `count` concurrent connections, each with its own random numbers.
    pub(super) fn generation(&self, random: &mut Random, count: usize) -> Result<(), Failure> {
        let randoms: Vec<_> = (0..count).map(|_| random.fork()).collect();
        thread::scope(|scope| {
            let lives: Vec<_> =
                randoms.into_iter().map(|random| scope.spawn(|| self.live(random))).collect();
            let ends = lives.into_iter().map(|life| {
                let end = life.join().unwrap_or_else(|_| Err(Failure::new("a client panicked")));
                end.inspect_err(|failure| self.counters.fail(failure.clone()))
            });
            // Wait for all, and return the first failure.
            let ends: Vec<_> = ends.collect();
            ends.into_iter().collect()
        })
    }

    /// Runs one connection, from its beginning to its end.
    fn live(&self, random: Random) -> Result<(), Failure> {
        self.connect(random, |client, raw| {
            client.greet()?;
            for _ in 0..1 + client.random.below(3) {
                client.mix()?;
                if client.random.once_in(3) && !self.config.is_http() {
                    client.scenario()?;
                }
            }
            client.unsubscribe()?;
            client.disconnect(raw)
        })
    }

    /// Sends a frame that never completes. Runs alone, because its log record belongs to the whole daemon.
    pub(super) fn stall(&self, random: Random) -> Result<(), Failure> {
        self.connect(random, |client, _| {
            client.greet()?;
            if self.config.is_http() {
                return client.stall_post();
            }
            client.stall()?;
            if !self.config.is_ws() {
                client.part();
            }
            Ok(())
        })
    }

    /// Runs as many slow handlers as there are threads for them.
    pub(super) fn warm_up(&self, random: Random) -> Result<(), Failure> {
        self.connect(random, |client, _| {
            match self.config.is_http() {
                true => client.post_slow()?,
                false => client.many_slow()?,
            }
            client.part();
            Ok(())
        })
    }

    fn connect(
        &self,
        random: Random,
        play: impl FnOnce(&mut Client<'_>, &RawClient) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let failure = |error: io::Error| Failure::new(format!("no connection: {error}"));
        let raw = RawClient::connect(&self.url, self.config.framing, self.patience);
        let mut raw = raw.map_err(failure)?;
        let end = || raw.socket.try_clone().map(OwnedFd::from).map_err(failure);
        let mut client = Client::new(self, [end()?, end()?], random)?;
        client.send_bytes(&std::mem::take(&mut raw.handshake), &[]);
        let played = play(&mut client, &raw);
        if played.is_err() {
            client.link.ledger.is_over = true;
            raw.shut_down(Shutdown::Both);
        }
        let ended = client.finish();
        played.and(ended)
    }

    /// Counts a connection with this end.
    pub(super) fn count_end(&self, how: &'static str) {
        self.counters.count(Group::Connections, how);
    }
}
