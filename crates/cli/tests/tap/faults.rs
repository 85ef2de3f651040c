//! `tap --fault`: each fault through real pipes and sockets, its record, its seed, and its end (X1–X7).

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::sockets::Tap;
use super::support::folder::Folder;
use super::support::once::run;
use super::support::programs::DUET_RPC;
use super::{cat, read_pids, records, tap, wait_for_end_of};

/// A server that sends back what it gets, and keeps a copy of it in a file.
fn echo(folder: &Folder, rules: &[&str]) -> Command {
    let mut options = Vec::new();
    rules.iter().for_each(|rule| options.extend(["--fault", rule]));
    tap(folder, &options, &["tee".to_owned(), folder.text("received")])
}

fn faults_of(folder: &Folder) -> Vec<Value> {
    let mut records = records(folder.path("trace.jsonl"));
    records.retain(|record| record["kind"] == "fault");
    records
}

const ASK: &str = r#"{"id":1,"method":"ask","params":{"a":1.50}}"#;
const EVENT: &str = r#"{"method":"event"}"#;
const RESULT: &str = r#"{"id":"x","result":[1]}"#;
const ERROR: &str = r#"{"id":"y","error":{"code":5,"message":"m","data":0}}"#;

/// A rule, and the lines that the client gets for the four lines above. `None`: they are the same.
const ROWS: &[(&str, Option<&str>)] = &[
    ("delay=20ms dir:s2c kind:request", None),
    ("delay=1ms..30ms", None),
    ("throttle=4k dir:s2c", None),
    ("slice=10,1ms dir:s2c", None),
    ("stall=30ms dir:s2c nth:2", None),
    ("stall dir:s2c nth:2", Some("ASK\n")),
    ("stall dir:c2s nth:3", Some("ASK\nEVENT\n")),
    ("drop dir:c2s method:event", Some("ASK\nRESULT\nERROR\n")),
    ("drop dir:s2c every:2", Some("ASK\nRESULT\n")),
    ("drop after:1 dir:s2c", Some("ASK\n")),
    ("dup dir:s2c kind:notification", Some("ASK\nEVENT\nEVENT\nRESULT\nERROR\n")),
    ("reorder=2 dir:s2c nth:1", Some("EVENT\nRESULT\nASK\nERROR\n")),
    ("half-close dir:s2c nth:3", Some("ASK\nEVENT\n")),
    ("half-close dir:c2s nth:2", Some("ASK\n")),
    ("cut dir:s2c nth:2", Some("ASK\n")),
    (
        "corrupt=json dir:s2c kind:notification",
        Some("ASK\n{\"method\":\"event\"!\nRESULT\nERROR\n"),
    ),
    ("corrupt=length dir:s2c kind:notification", Some("ASK\nEVENTRESULT\nERROR\n")),
    ("corrupt=truncate dir:s2c kind:notification", Some("ASK\n{\"method\"RESULT\nERROR\n")),
    ("corrupt=print dir:s2c nth:2", Some("ASK\na stray print\nEVENT\nRESULT\nERROR\n")),
    (
        "corrupt=id dir:s2c kind:request",
        Some("{\"id\":1000003,\"method\":\"ask\",\"params\":{\"a\":1.50}}\nEVENT\nRESULT\nERROR\n"),
    ),
    (
        "set=/params/a=2 dir:c2s",
        Some("{\"id\":1,\"method\":\"ask\",\"params\":{\"a\":2}}\nEVENT\nRESULT\nERROR\n"),
    ),
    (
        "unset=/error/data dir:s2c",
        Some("ASK\nEVENT\nRESULT\n{\"id\":\"y\",\"error\":{\"code\":5,\"message\":\"m\"}}\n"),
    ),
];

/// The lines with the names of messages replaced by the messages.
fn lines(names: &str) -> String {
    let all = [("ASK", ASK), ("EVENT", EVENT), ("RESULT", RESULT), ("ERROR", ERROR)];
    all.into_iter().fold(names.to_owned(), |text, (name, message)| text.replace(name, message))
}

#[test]
fn x1_x3_x6_r0_each_fault_happens_and_stands_in_the_trace() {
    let input = lines("ASK\nEVENT\nRESULT\nERROR\n");
    super::support::concurrently(ROWS.to_vec(), |(rule, expected)| {
        let folder = Folder::new();
        let output = run(echo(&folder, &[rule]), input.as_bytes());
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, lines(expected.unwrap_or("ASK\nEVENT\nRESULT\nERROR\n")), "{rule}");
        let made = faults_of(&folder);
        assert!(!made.is_empty() && made.iter().all(|it| it["why"] == *rule), "{rule}: {made:?}");
        // The trace has the bytes that each side got.
        assert_eq!(cat(&folder, "s2c"), output.stdout, "{rule}");
        let received = fs::read(folder.path("received")).expect("the server's copy");
        assert_eq!(cat(&folder, "c2s"), received, "{rule}");
        // `tee` fails if nobody reads what it writes.
        let is_cut = rule.starts_with("cut");
        assert!(output.status.code() == Some(0) || is_cut, "{rule}: {:?}", output.status);
        assert!(output.stderr.is_empty() || is_cut, "{rule}: {output:?}");
    });
}

#[test]
fn x1_x6_answers_of_the_tap_belong_to_their_requests() {
    let rows = [
        ("error=-32603:\"it broke\" method:ask", r#""error":{"code":-32603,"message":"it broke"}"#),
        ("answer={\"b\": 2} kind:request", r#""result":{"b": 2}"#),
    ];
    for (rule, outcome) in rows {
        let folder = Folder::new();
        let output = run(echo(&folder, &[rule]), format!("{ASK}\n").as_bytes());
        let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,{outcome}}}\n");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{rule}");
        assert_eq!(fs::read(folder.path("received")).expect("a file"), b"", "{rule}");
        assert_eq!(cat(&folder, "s2c"), output.stdout);
        let made = faults_of(&folder);
        let [fault] = &made[..] else { panic!("{made:?}") };
        // The whole message, so that nothing of it is lost.
        assert_eq!((&fault["dir"], &fault["msg"]["params"]["a"]), (&"c2s".into(), &1.5.into()));
        let records = records(folder.path("trace.jsonl"));
        let answer = records.iter().find(|it| it["dir"] == "s2c").expect("the answer");
        assert_eq!((&answer["of"], &answer["method"]), (&fault["seq"], &"ask".into()));
        let mut check = Command::new(DUET_RPC);
        check.args(["trace", "check"]).arg(folder.path("trace.jsonl"));
        let check = run(check, b"");
        let said = String::from_utf8_lossy(&check.stdout).into_owned();
        assert!(said.contains("the tap made 1 fault on purpose"), "{said}");
        assert_eq!(check.status.code(), Some(0), "{said}");
    }
}

#[test]
fn x1_utf8_and_bits_are_broken() {
    let folder = Folder::new();
    let output = run(echo(&folder, &["corrupt=utf8 dir:s2c"]), format!("{EVENT}\n").as_bytes());
    assert_eq!(output.stdout, b"{\"\xffmethod\":\"event\"}\n");
    assert_eq!(cat(&folder, "s2c"), output.stdout);
    let folder = Folder::new();
    let output = run(echo(&folder, &["corrupt=bit dir:s2c"]), format!("{EVENT}\n").as_bytes());
    let wrong: u32 =
        output.stdout.iter().zip(EVENT.bytes()).map(|(a, b)| (a ^ b).count_ones()).sum();
    assert_eq!(wrong, 1, "{}", output.stdout.escape_ascii());
}

#[test]
fn x3_delayed_messages_come_later() {
    let rows = [("delay=150ms dir:s2c", 150_000), ("stall=150ms dir:s2c", 150_000)];
    for (rule, least) in rows {
        let folder = Folder::new();
        run(echo(&folder, &[rule]), format!("{EVENT}\n").as_bytes());
        let records = records(folder.path("trace.jsonl"));
        let at = |kind: &str| {
            let is_it = |it: &&Value| it["kind"] == kind && it["dir"] == "s2c";
            records.iter().find(is_it).and_then(|it| it["at"].as_u64()).expect("a time")
        };
        assert!(at("notification") - at("fault") >= least, "{rule}: {records:?}");
    }
    for rule in ["throttle=100 dir:s2c", "slice=1,5ms dir:s2c"] {
        let folder = Folder::new();
        run(echo(&folder, &[rule]), format!("{EVENT}\n").as_bytes());
        let records = records(folder.path("trace.jsonl"));
        let event = records.iter().find(|it| it["kind"] == "notification" && it["dir"] == "s2c");
        let times = event.map(|it| (it["first"].as_u64(), it["at"].as_u64()));
        let Some((Some(first), Some(at))) = times else { panic!("{rule}: {records:?}") };
        assert!(at - first >= 80_000, "{rule}: {first} {at}");
    }
}

#[test]
fn x5_same_seed_repeats_the_same_faults() {
    let input: String = (0..200).map(|id| format!("{{\"id\":{id},\"method\":\"m\"}}\n")).collect();
    let made = |seed: &str| {
        let folder = Folder::new();
        let rules = ["--fault", "drop p:0.2", "--fault", "corrupt=bit dir:s2c p:20%"];
        let options = [&["--seed", seed], &rules[..]].concat();
        let output = run(tap(&folder, &options, &["cat"]), input.as_bytes());
        let header = fs::read_to_string(folder.path("trace.jsonl")).expect("a trace");
        let header: Value =
            serde_json::from_str(header.lines().next().expect("a header")).expect("JSON");
        assert_eq!(header["faults"], serde_json::json!([rules[1], rules[3]]));
        assert_eq!(header["seed"].to_string(), seed);
        output.stdout
    };
    let one = made("7");
    for _ in 0..3 {
        assert_eq!(one, made("7"));
    }
    assert_ne!(one, made("8"));
}

#[test]
fn x2_wrong_rules_are_refused_before_the_server_starts() {
    let folder = Folder::new();
    for (rule, word, mark) in [
        ("dealy=1s", "expected a fault (delay=", "  ^^^^^^^^"),
        ("delay=fast dir:s2c", "expected a time such as 200ms", "        ^^^^"),
        ("drop dirr:s2c", "expected nth:, every:, p:, after:, method:", "       ^^^^^^^^"),
        ("drop p:7", "expected a probability", "         ^"),
    ] {
        let output = run(tap(&folder, &["--fault", rule], &["echo", "started"]), b"");
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b""[..]), "{rule}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(word) && said.lines().any(|line| line == mark), "{said}");
    }
    let output = run(tap(&folder, &["--seed", "7"], &["echo", "started"]), b"");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b""[..]));
}

#[test]
fn x7_rules_that_made_no_fault_are_named_at_the_end() {
    let folder = Folder::new();
    let rules = ["drop method:tpyo", "drop nth:9", "delay=0s"];
    let output = run(echo(&folder, &rules), format!("{EVENT}\n").as_bytes());
    assert_eq!(output.stdout, format!("{EVENT}\n").as_bytes());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "duet-rpc: the fault rule `drop method:tpyo` made no fault: no message matched it\n\
         duet-rpc: the fault rule `drop nth:9` made no fault: its nth:, every: or p: chose none of the messages that matched it\n";
    assert_eq!(said, expected);
}

#[test]
fn x1_faults_happen_without_a_trace_too() {
    let mut command = Command::new(DUET_RPC);
    command.args(["tap", "--no-record", "--fault", "dup dir:s2c", "--", "sh", "-c", "cat; exit 7"]);
    let output = run(command, format!("{EVENT}\n").as_bytes());
    assert_eq!(output.stdout, format!("{EVENT}\n{EVENT}\n").as_bytes());
    assert_eq!(output.status.code(), Some(7));
}

/// The server prints its process ids, and then works on what it gets.
const TREE: &str = "sleep 1000 & printf '{\"pids\":\"%s %s\"}\\n' $$ $!; ";

/// Runs a tap before a server with a child of its own, sends one message, and waits until all are gone.
fn ends_everything(rule: &str, server: &str) -> std::process::ExitStatus {
    let folder = Folder::new();
    let options = ["--fault", rule];
    let mut process = tap(&folder, &options, &["sh", "-c", &format!("{TREE}{server}")])
        .spawn()
        .expect("it starts");
    let mut stdout = BufReader::new(process.stdout.take().expect("a pipe"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("a line");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    let pids = read_pids(format!("{}\n", line["pids"].as_str().expect("a text")).as_bytes());
    super::write(&mut process, format!("{ASK}\n").as_bytes());
    // stdin stays open: the fault ends the session, not the client.
    let mut stdin = process.stdin.take();
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).expect("it ends");
    assert_eq!(rest, b"", "{rule}");
    if rule.starts_with("half-close") {
        drop(stdin.take());
    }
    let status = process.wait().expect("our child");
    pids.into_iter().for_each(wait_for_end_of);
    assert_eq!(faults_of(&folder).len(), 1, "{rule}");
    status
}

#[test]
fn x7_kill_ends_the_server_with_all_its_processes() {
    let status = ends_everything("kill method:ask", "cat");
    assert_eq!(status.signal(), Some(9));
    let status = ends_everything("kill=TERM method:ask", "cat >/dev/null");
    assert_eq!(status.signal(), Some(15));
}

#[test]
fn x7_cut_ends_a_server_that_ignores_it() {
    let status = ends_everything("cut method:ask", "exec sleep 1000");
    assert_eq!(status.signal(), Some(15));
    ends_everything("cut method:ask", "trap '' TERM; while :; do sleep 1; done");
    ends_everything("cut method:ask", "cat >/dev/null");
}

#[test]
fn x7_half_close_ends_one_direction() {
    let status = ends_everything("half-close method:ask dir:c2s", "cat >/dev/null");
    assert_eq!(status.code(), Some(0));
    let status = ends_everything("half-close method:ask dir:s2c", "cat");
    assert_eq!(status.code(), Some(0));
}

/// More bytes than may wait.
const MUCH: usize = 20_000_000;

#[test]
fn x4_memory_is_bounded_while_messages_wait() {
    // An endless stall discards the bytes, so that it sees the end of the stream behind them. The others make the sender
    // wait.
    for (rule, discards) in [
        ("stall dir:c2s", true),
        ("stall=60m dir:c2s", false),
        ("delay=60m dir:c2s", false),
        ("reorder=1000,60m dir:c2s", false),
        ("throttle=1 dir:c2s", false),
    ] {
        let mut command = Command::new(DUET_RPC);
        // A server that does not read, so that even released messages wait.
        command.args(["tap", "--no-record", "--fault", rule, "--", "sleep", "1000"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut process = command.spawn().expect("it starts");
        let stdin = process.stdin.take().expect("a pipe");
        rustix::io::ioctl_fionbio(&stdin, true).expect("our pipe");
        let message = format!("[\"{}\"]\n", "x".repeat(60_000));
        let mut taken = 0;
        while taken < MUCH {
            match rustix::io::write(&stdin, &message.as_bytes()[taken % message.len()..]) {
                Ok(count) => taken += count,
                Err(_) => {
                    let time = Timespec { tv_sec: 1, tv_nsec: 0 };
                    let mut fds = [PollFd::new(&stdin, PollFlags::OUT)];
                    if poll(&mut fds, Some(&time)) == Ok(0) {
                        break;
                    }
                }
            }
        }
        assert_eq!(taken >= MUCH, discards, "{rule}: {taken} bytes");
        let status = fs::read_to_string(format!("/proc/{}/status", process.id())).expect("it runs");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
        let peak: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
        assert!(peak < 64 * 1024, "{rule}: {peak} KiB");
        process.kill().expect("our child");
        process.wait().expect("our child");
    }
}

#[test]
fn x4_many_large_answers_reach_a_client_that_reads_late() {
    let text = "x".repeat(100_000);
    let rule = format!("answer=\"{text}\" method:ask");
    let mut command = Command::new(DUET_RPC);
    command.args(["tap", "--no-record", "--fault", &rule, "--", "cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().expect("it starts");
    let mut stdin = process.stdin.take().expect("a pipe");
    // More than the pipes and the tap hold: the client writes and does not read.
    let writer =
        thread::spawn(move || stdin.write_all(format!("{ASK}\n").repeat(5_000).as_bytes()));
    let mut lines = BufReader::new(process.stdout.take().expect("a pipe"));
    let mut count = 0;
    let mut line = String::new();
    while lines.read_line(&mut line).expect("text") > 0 {
        assert_eq!(line.len(), text.len() + 37, "{}", &line[..60]);
        line.clear();
        count += 1;
    }
    assert_eq!(count, 5_000);
    writer.join().expect("no panic").expect("all is read");
    assert_eq!(process.wait().expect("our child").code(), Some(0));
}

#[test]
fn x7_stalled_tap_ends_with_its_client_and_its_server() {
    // The client ends while more than fits waits.
    let folder = Folder::new();
    let input = format!("[\"{}\"]\n", "x".repeat(60_000)).repeat(70);
    let output = run(echo(&folder, &["stall dir:c2s"]), input.as_bytes());
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b""[..]));
    // The server ends.
    let folder = Folder::new();
    let script = format!("echo '{EVENT}'; echo '{EVENT}'; exit 3");
    let mut process = tap(&folder, &["--fault", "stall dir:s2c nth:2"], &["sh", "-c", &script])
        .spawn()
        .expect("it starts");
    let _stdin = process.stdin.take();
    let mut said = String::new();
    process.stdout.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert_eq!(said, format!("{EVENT}\n"));
    assert_eq!(process.wait().expect("our child").code(), Some(3));
}

/// A server that sends back each line.
fn line_server() -> String {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for client in server.incoming().flatten() {
            thread::spawn(move || {
                let mut lines = BufReader::new(client.try_clone()?);
                let mut line = String::new();
                while lines.read_line(&mut line)? > 0 {
                    (&client).write_all(line.as_bytes())?;
                    line.clear();
                }
                std::io::Result::Ok(())
            });
        }
    });
    address
}

#[test]
fn x1_x7_faults_happen_between_sockets() {
    let address = line_server();
    let folder = Folder::new();
    let with = |rules: &[&str], scheme: &str| {
        let mut command = Command::new(DUET_RPC);
        command.arg("tap").arg("--to").arg(folder.path("trace.jsonl"));
        for rule in rules {
            command.args(["--fault", rule]);
        }
        let path = if scheme == "ws" { "/" } else { "" };
        command.args(["--listen", &format!("{scheme}://127.0.0.1:0{path}")]);
        command.args(["--connect", &format!("{scheme}://{address}{path}")]);
        command
    };
    let talk = |tap: &Tap, sent: &str| {
        let client = TcpStream::connect(&tap.1).expect("it listens");
        (&client).write_all(sent.as_bytes()).expect("it reads");
        let _ = client.shutdown(std::net::Shutdown::Write);
        let mut got = String::new();
        let _ = (&client).read_to_string(&mut got);
        got
    };
    let input = format!("{ASK}\n{EVENT}\n");
    // Each connection has counts of its own.
    let mut tap = Tap::spawn(with(&["drop dir:s2c nth:1", "cut method:never"], "tcp"));
    for _ in 0..2 {
        assert_eq!(talk(&tap, &input), format!("{EVENT}\n"));
    }
    kill_process(Pid::from_child(&tap.0), Signal::TERM).expect("our child");
    let mut said = String::new();
    tap.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert_eq!(
        said,
        "duet-rpc: the fault rule `cut method:never` made no fault: no message matched it\n"
    );
    assert_eq!(tap.0.wait().expect("our child").code(), Some(0));

    let tap = Tap::spawn(with(&["cut method:event dir:c2s"], "tcp"));
    let got = talk(&tap, &input);
    assert!(got.is_empty() || got == format!("{ASK}\n"), "{got}");
    // Of other protocols, each piece is a message.
    let tap = Tap::spawn(with(&["drop dir:s2c"], "ws"));
    assert_eq!(talk(&tap, "GET / HTTP/1.1\n"), "");
    for (rule, scheme, why) in [
        ("kill", "tcp", "there is no process"),
        ("set=/a=1", "ws", "not their messages"),
        ("corrupt=json", "ws", "not their messages"),
    ] {
        let output = run(with(&[rule], scheme), b"");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(why), "{rule}: {said}");
    }
}
