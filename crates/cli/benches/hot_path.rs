//! Instructions per message: a benchmark that fails on slowdowns.
//!
//! Time differs between machines and between minutes; instruction counts do not. An echo server runs twice
//! under callgrind, the second time with twice as many messages, and the difference is the cost of the
//! messages alone. A count above its row in the table fails the run. A count far below it is reported, so
//! that the table can be updated.
//!
//! ```console
//! cargo bench -p duet-rpc-cli --bench hot_path
//! ```
//!
//! It needs valgrind and a processor with AVX2, and prints a line if it is skipped. With `HOT_PATH=required`
//! in the environment, as `.ci/run` sets it, a missing valgrind is a failure.

#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use duet_rpc::proto::frame::{Framing, FramingChoice, write_frame};
use duet_rpc::transport::Listener;
use duet_rpc::{Arrival, End, Ended, Failure, Observer, Profile, Router, Server, quick};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::value::RawValue;

const SERVE: &str = "--serve";

/// Allowed deviation from the table. Compilers and libraries differ by a few percent.
const MARGIN: f64 = 0.12;

/// Allowed cost of a guard and an observer together, as a share of a round trip without them.
const HOOKS: f64 = 0.03;

/// A kind of work, and the allowed cost of one message.
struct Row {
    name: &'static str,
    over: Over,
    method: &'static str,
    params: fn() -> String,
    /// Number of requests sent together.
    burst: usize,
    bursts: usize,
    instructions: f64,
}

/// The transport of a row.
#[derive(Clone, Copy)]
enum Over {
    Stdio(Framing),
    /// One kept connection.
    Http,
}

const HTTP: &str = "http";

const fn row(name: &'static str, framing: Framing, burst: usize, instructions: f64) -> Row {
    let over = Over::Stdio(framing);
    Row { name, over, method: "echo", params: small, burst, bursts: 2000 / burst, instructions }
}

fn rows() -> [Row; 11] {
    [
        row("round trip, 64 B", Framing::Lsp, 1, 3980.0),
        Row { method: "hook", ..row("round trip, guard and observer", Framing::Lsp, 1, 4420.0) },
        row("64 at once, 64 B, lsp", Framing::Lsp, 64, 2085.0),
        row("64 at once, 64 B, ndjson", Framing::Ndjson, 64, 2036.0),
        row("64 at once, 64 B, length", Framing::Length, 64, 1850.0),
        Row {
            params: || nested(1_000),
            ..row("32 at once, 1 KB nested", Framing::Lsp, 32, 10720.0)
        },
        Row {
            params: || nested(64_000),
            bursts: 20,
            ..row("64 KB nested", Framing::Lsp, 1, 554_000.0)
        },
        Row { method: "later", ..row("64 at once, handler waits", Framing::Lsp, 64, 8490.0) },
        Row { method: "hook", ..row("64 at once, guard and observer", Framing::Lsp, 64, 2346.0) },
        Row { method: "wrap", ..row("64 at once, wrapper", Framing::Lsp, 64, 3204.0) },
        Row { over: Over::Http, ..row("round trip over HTTP, 64 B", Framing::Ndjson, 1, 22_700.0) },
    ]
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [first, over, ..] = &arguments[..]
        && first == SERVE
    {
        return serve(over);
    }
    if !has_avx2() {
        println!("SKIPPED: the table is for processors with AVX2");
        return ExitCode::SUCCESS;
    }
    let valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if !valgrind.is_ok_and(|status| status.success()) {
        println!("SKIPPED: valgrind is not installed");
        let is_required = std::env::var("HOT_PATH").is_ok_and(|value| value == "required");
        return if is_required { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    match check() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("cannot count instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

fn has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

fn check() -> io::Result<bool> {
    let mut is_well = true;
    println!("| instructions for each message | counted | in the table | |");
    println!("|---|---|---|---|");
    let mut counts = Vec::new();
    for row in rows() {
        let count = row.count()?;
        counts.push(count);
        let change = count / row.instructions - 1.0;
        let verdict = match change {
            change if change > MARGIN => "TOO MANY",
            change if change < -MARGIN => "fewer: update the table in benches/hot_path.rs",
            _ => "",
        };
        is_well &= change <= MARGIN;
        let allowed = row.instructions;
        println!(
            "| {} | {count:.0} | {allowed:.0} | {:+.1} % {verdict} |",
            row.name,
            change * 100.0
        );
    }
    // The first two rows differ only in the guard and the observer.
    if let [plain, hooked, ..] = counts[..] {
        let share = hooked / plain - 1.0;
        let verdict = if share > HOOKS { "TOO MUCH" } else { "" };
        is_well &= share <= HOOKS;
        println!("A guard and an observer add {:.1} % to a round trip. {verdict}", share * 100.0);
    }
    Ok(is_well)
}

impl Row {
    /// Instructions per message.
    fn count(&self) -> io::Result<f64> {
        let once = self.count_life(self.bursts)?;
        let twice = self.count_life(2 * self.bursts)?;
        Ok((twice - once) / (self.bursts * self.burst) as f64)
    }

    /// Instructions of a server from its start to its end.
    fn count_life(&self, bursts: usize) -> io::Result<f64> {
        let counts = std::env::temp_dir().join(format!("hot-path-{}", std::process::id()));
        let mut server = Command::new("valgrind")
            .args(["-q", "--tool=callgrind"])
            .arg(format!("--callgrind-out-file={}", counts.display()))
            .arg(std::env::current_exe()?)
            .args([SERVE, self.over.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (input, output) = (server.stdin.take(), server.stdout.take());
        let (Some(mut input), Some(mut output)) = (input, output) else {
            return Err(io::Error::other("a child without pipes"));
        };
        match self.over {
            Over::Stdio(_) => {
                self.play(bursts, &mut input, &mut output)?;
                drop(input);
            }
            Over::Http => {
                let mut address = String::new();
                BufReader::new(output).read_line(&mut address)?;
                let place = address.trim().trim_start_matches("http://").trim_end_matches('/');
                let input = TcpStream::connect(place)?;
                input.set_nodelay(true)?;
                self.play(bursts, &mut &input, &mut &input)?;
                kill(Pid::from_raw(server.id() as i32), Signal::SIGTERM)?;
            }
        }
        if !server.wait()?.success() {
            return Err(io::Error::other("the server failed"));
        }
        let text = fs::read_to_string(&counts)?;
        fs::remove_file(&counts)?;
        let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
        totals
            .and_then(|totals| totals.trim().parse().ok())
            .ok_or_else(|| io::Error::other("callgrind printed no totals"))
    }

    /// Sends the requests, and waits for the results of each burst.
    fn play(
        &self,
        bursts: usize,
        input: &mut impl Write,
        output: &mut impl Read,
    ) -> io::Result<()> {
        let burst: Vec<_> = (0..self.burst).flat_map(|number| self.request(number)).collect();
        for _ in 0..bursts {
            input.write_all(&burst)?;
            read_results(output, self.burst)?;
        }
        Ok(())
    }

    fn request(&self, number: usize) -> Vec<u8> {
        let (id, method, params) = (10_000_000 + number, self.method, (self.params)());
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let mut request = Vec::new();
        let Over::Stdio(framing) = self.over else {
            let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
            return format!("{head}\r\nContent-Length: {}\r\n\r\n{text}", text.len()).into_bytes();
        };
        let Ok(()) = write_frame(framing, &mut request, |out| {
            out.extend_from_slice(text.as_bytes());
            Ok::<_, std::convert::Infallible>(())
        });
        request
    }
}

impl Over {
    fn name(self) -> &'static str {
        match self {
            Over::Stdio(framing) => framing.name(),
            Over::Http => HTTP,
        }
    }
}

/// Reads until `count` results have arrived. The rest of the last result may stay for the next call.
fn read_results(output: &mut impl Read, count: usize) -> io::Result<()> {
    const RESULT: &[u8] = b"\"result\":";
    let (mut answers, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    while answers.windows(RESULT.len()).filter(|&bytes| bytes == RESULT).count() < count {
        let read = output.read(&mut chunk)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answers.extend_from_slice(&chunk[..read]);
    }
    Ok(())
}

fn small() -> String {
    let text = "The quick brown fox jumps over the lazy dog, and back";
    format!(r#"{{"text":"{text}"}}"#)
}

/// A list of records, of about this size.
fn nested(bytes: usize) -> String {
    let mut params = String::from("[");
    for number in 0.. {
        if params.len() > bytes {
            break;
        }
        params += &format!(
            r#"{{"range":{{"start":{{"line":{number},"column":4}},"end":{{"line":{number},"column":17}}}},"severity":2,"tags":[1,-2.5,true,null],"message":"mismatched types"}},"#
        );
    }
    params + "[]]"
}

/// Counts messages, like a metrics observer.
#[derive(Default)]
struct Counter {
    begun: AtomicU64,
    failed: AtomicU64,
}

impl Observer for Counter {
    fn arrived(&self, _: &Arrival<'_>) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    fn ended(&self, message: &Ended<'_>) {
        if message.end() != End::Result {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn serve(over: &str) -> ExitCode {
    let framing = Framing::ALL.into_iter().find(|known| known.name() == over);
    let Some(framing) = framing.or((over == HTTP).then_some(Framing::Ndjson)) else {
        return ExitCode::FAILURE;
    };
    // Method names of equal length, so that the rows differ in nothing else.
    let echo = |name| Router::new().method(name, quick(async |params: Box<RawValue>| params));
    let hooked = echo("hook").observe(Counter::default()).guard(|message| {
        match message.method().is_empty() {
            true => Err(Failure::new(-32001, "No name")),
            false => Ok(()),
        }
    });
    let wrapped = echo("wrap").wrap(async |request, next| next.run(request).await);
    let router = echo("echo").merge(hooked).merge(wrapped).method(
        "later",
        quick(async |params: Box<RawValue>| {
            tokio::task::yield_now().await;
            params
        }),
    );
    let profile = Profile::agent().with(|it| it.framing = FramingChoice::Fixed(framing));
    let profile = profile.max_in_flight(64);
    if over != HTTP {
        return duet_rpc::serve(profile, router);
    }
    let Ok(listener) = Listener::bind("http://127.0.0.1:0/") else { return ExitCode::FAILURE };
    println!("{}", listener.address());
    match Server::new().profile(profile).router(router).listen(listener).run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
