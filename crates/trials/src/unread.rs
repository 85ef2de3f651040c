//! Unread: the memory of a server whose clients request large answers and never read them (L8, P9).
//!
//! Each case starts the test bed, opens connections that request answers without reading them, and takes the
//! peak of its memory. While the test bed listens, another connection measures ping times.

use crate::harness::prelude::*;

const SIZES: [usize; 4] = [1000, 1_000_000, 10_000_000, 100_000_000];
const CONNECTIONS: [usize; 2] = [1, 200];
const LONGEST_PING: Duration = Duration::from_millis(100);
/// Pause between two pings of the other connection.
const PAUSE: Duration = Duration::from_millis(5);
/// Time limit for a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Measure the memory of a server whose clients request large answers and never read them.
///
/// Prints one row per case. Exit code: 1 if the memory of a case exceeds the bound in docs/limits.md, or if a
/// ping of another connection took longer than 100 ms. The first ping is on a connection opened after all
/// requests were sent.
#[derive(Clone, Debug, Parser)]
#[command(name = "unread")]
struct UnreadOptions {
    /// Seconds for each case
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// Run only this profile
    #[arg(long)]
    profile: Option<Profile>,
    /// Run only this transport
    #[arg(long)]
    over: Option<Transport>,
    /// Run only with this number of connections
    #[arg(long)]
    connections: Option<usize>,
    /// Run only with answers of this size
    #[arg(long, value_name = "BYTES")]
    answer: Option<usize>,
}

/// Runs the command.
pub fn main() -> ExitCode {
    let options = UnreadOptions::parse();
    say(
        "| profile | transport | connections | answer | peak | bound | slowest ping | first ping |",
    );
    say("|---|---|---:|---:|---:|---:|---:|---:|");
    let mut failures = 0;
    for case in options.cases() {
        match play(&case, Duration::from_secs(options.seconds)) {
            Ok(measured) => {
                say(row(&case, &measured));
                let is_slow = measured.worst_ping.is_some_and(|ping| ping > LONGEST_PING);
                failures += u32::from(is_slow || measured.peak > case.bound());
            }
            Err(error) => {
                eprintln!("unread: {case}: {error}");
                failures += 1;
            }
        }
    }
    if failures > 0 {
        eprintln!("unread: {failures} cases exceeded their bounds");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

impl UnreadOptions {
    fn cases(&self) -> Vec<Case> {
        fn chosen<T: Copy>(only: Option<T>, all: &[T]) -> Vec<T> {
            only.map_or(all.to_vec(), |it| vec![it])
        }
        let mut cases = Vec::new();
        for over in chosen(self.over, Transport::value_variants()) {
            for profile in chosen(self.profile, Profile::value_variants()) {
                for connections in chosen(self.connections, &CONNECTIONS) {
                    // stdio has only one connection.
                    if over != Transport::Stdio || connections == 1 {
                        let case = |answer| Case { profile, over, connections, answer };
                        cases.extend(chosen(self.answer, &SIZES).into_iter().map(case));
                    }
                }
            }
        }
        cases
    }
}

fn row(case: &Case, measured: &Measured) -> String {
    let mib = |bytes: u64| bytes.div_ceil(MIB);
    let answer = match case.answer {
        small @ 0..1_000_000 => format!("{} KB", small / 1000),
        large => format!("{} MB", large / 1_000_000),
    };
    let ping =
        |it: Option<Duration>| it.map_or(String::new(), |it| format!("{} ms ", it.as_millis()));
    let [worst, first] = [measured.worst_ping, measured.first_ping].map(ping);
    let Case { profile, over, connections, .. } = case;
    let (peak, bound) = (mib(measured.peak), mib(case.bound()));
    let left = format!("| {profile} | {over} | {connections} | {answer} |");
    format!("{left} {peak} MiB | {bound} MiB | {worst}| {first}|")
}

/// One case: profile, transport, connections and answer size.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The profile of the daemon.
    pub profile: Profile,
    /// The transport of the clients.
    pub over: Transport,
    /// The number of clients.
    pub connections: usize,
    /// The size of each answer, in bytes.
    pub answer: usize,
}

const MIB: u64 = 1024 * 1024;

// The parts of the bound in `docs/limits.md`.

/// Memory of an idle daemon, with its threads.
const AT_REST: u64 = 24 * MIB;
/// `outgoing_bytes`: bytes that may wait on one connection before further requests wait.
const OUTGOING: u64 = MIB;
/// Other memory of a connection: waiting requests, and buffers.
const PER_CONNECTION: u64 = MIB;
/// Bytes that may wait to be sent on all connections of a server together.
const BUDGET: u64 = 64 * MIB;
/// Number of answers larger than the limit that exist together: one waits to be sent, and the others were
/// begun before that.
const MADE_AT_ONCE: u64 = 4;
/// Copies of an answer while it is made: as a value, and as JSON.
const COPIES: u64 = 2;
/// A handler with a smaller answer is quick, and runs on the thread of its connection.
const QUICK: u64 = 4 * MIB;

impl Case {
    /// Maximum memory of the daemon, in bytes.
    pub fn bound(&self) -> u64 {
        let (connections, answer) = (self.connections as u64, self.answer as u64);
        let on_each = OUTGOING + PER_CONNECTION + if answer < QUICK { answer } else { 0 };
        let shared = if self.over == Transport::Stdio { 0 } else { BUDGET };
        AT_REST + connections * on_each + COPIES * (shared + MADE_AT_ONCE * answer)
    }

    /// Number of requests per client: more than are ever answered.
    fn requests(&self) -> usize {
        match self.answer {
            0..100_000 => 20_000 / self.connections.min(10),
            _ => 64,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { profile, over, connections, answer } = self;
        write!(f, "{profile} over {over}, {connections} x {answer} bytes")
    }
}

/// The outcome of a case.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Peak memory of the daemon, in bytes.
    pub peak: u64,
    /// Slowest ping of another connection, measured from before the requests.
    pub worst_ping: Option<Duration>,
    /// First ping of a connection opened after all requests were sent.
    pub first_ping: Option<Duration>,
}

/// Runs a case for this time.
///
/// # Errors
///
/// If the daemon cannot be started or reached, or does not end.
pub fn play(case: &Case, time: Duration) -> io::Result<Measured> {
    let folder = TempFolder::new("unread")?;
    let mut command = Command::new(programs::testbed());
    let profile = case.profile.to_string();
    command.args(["--profile", &profile, "--framing", "ndjson", "--log-level", "error"]);
    let listen = case.over.url(folder.path());
    command.args(listen.iter().flat_map(|url| ["--listen", url]));
    let mut daemon = Daemon::start(command, PIPES)?;
    daemon.theirs.clear();
    let url = listen.map(|_| daemon.listening_url(PING_TIMEOUT)).transpose()?;
    if let Some(mut stderr) = daemon.stderr.take().map(fs::File::from) {
        // Drain the log, although the daemon never waits for its reader.
        thread::spawn(move || _ = stderr.read_to_end(&mut Vec::new()));
    }
    let stdin = daemon.stdin.take();
    let connect = |url: &str| RawClient::connect(url, Framing::Ndjson, PING_TIMEOUT);
    let begun = Instant::now();
    let mut clients = Vec::new();
    let (mut worst_ping, mut first_ping) = (None, None);
    if let Some(url) = &url {
        let mut other = connect(url)?;
        other.ping()?;
        let pings = thread::spawn(move || {
            let mut worst = Duration::ZERO;
            while begun.elapsed() < time {
                worst = worst.max(time_ping(&mut other)?);
                thread::sleep(PAUSE);
            }
            Ok::<_, io::Error>(worst)
        });
        for _ in 0..case.connections {
            clients.push(flood(connect(url)?, case)?);
        }
        first_ping = Some(time_ping(&mut connect(url)?)?);
        let worst = pings.join().map_err(|_| io::Error::other("the pings panicked"))?;
        worst_ping = Some(worst?);
    } else if let Some(stdin) = stdin {
        clients.push(flood(RawClient::new(stdin, String::new(), Framing::Ndjson), case)?);
        thread::sleep(time);
    }
    let peak = proc::number(daemon.id(), "status", "VmHWM");
    let peak = peak.ok_or_else(|| io::Error::other("its peak memory is unknown"))? * 1024;
    daemon.signal(Signal::TERM);
    let end = daemon.wait(Duration::from_secs(10));
    end.ok_or_else(|| io::Error::other("the daemon does not end"))?;
    drop(clients);
    Ok(Measured { peak, worst_ping, first_ping })
}

fn time_ping(client: &mut RawClient) -> io::Result<Duration> {
    let sent = Instant::now();
    client.ping()?;
    Ok(sent.elapsed())
}

/// Sends all requests of a client, as far as the daemon reads. Nobody reads the answers.
fn flood(mut client: RawClient, case: &Case) -> io::Result<RawClient> {
    let mut bytes = Vec::new();
    for id in 0..case.requests() {
        let params = format!(r#"{{"bytes":{}}}"#, case.answer);
        let head = format!(r#""jsonrpc":"2.0","id":{id},"method":"test.big""#);
        bytes.extend(client.bytes_of(&format!(r#"{{{head},"params":{params}}}"#)));
    }
    rustix::io::ioctl_fionbio(&client.socket, true)?;
    match client.socket.write_all(&bytes) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(client),
    }
}
