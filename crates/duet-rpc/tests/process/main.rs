//! A server in a process of its own, on every system: its ends, stray prints, and a tree of child processes.
//!
//! This program starts itself as the server, because a process can take stdin and stdout only once, and a test harness
//! prints to stdout. It has no harness, so a row that fails ends it with a panic.
//!
//! | variable | meaning |
//! |---|---|
//! | `PROCESS_LIVES` | the number of times that each row runs; default: 1 |
//! | `PROCESS_TREES` | the number of trees of processes; default: the same |
//! | `PROCESS_PATIENCE` | the seconds that an end may take; default: 10, because the machine may be busy |

mod programs;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use programs::{ROLE, Role};

/// The ways to end a server, and what its handler does meanwhile.
const ENDS: [End; 4] = [End::StdinCloses, End::Shutdown, End::ParentDies, End::NamedProcessDies];
const BUSY_WITH: [&str; 4] = ["", "sleep", "block", "spin"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    StdinCloses,
    Shutdown,
    /// The exit code of a server without a parent cannot be read.
    ParentDies,
    NamedProcessDies,
}

fn main() -> ExitCode {
    match std::env::var(ROLE) {
        Ok(role) => programs::run(&role),
        Err(_) => {
            l9_stray_prints_stay_off_the_wire();
            l4_l10_a_server_without_an_end_lives_on();
            let lives = number("PROCESS_LIVES", 1);
            l3_l4_l5_l10_every_end_comes_in_time(lives);
            t1_no_process_of_a_tree_is_left(number("PROCESS_TREES", lives));
            ExitCode::SUCCESS
        }
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect(variable))
}

/// This program in another role, with pipes to it.
fn start(role: Role) -> Child {
    start_with(role, &[])
}

/// The same with these variables.
fn start_with(role: Role, variables: &[(&str, &str)]) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("its path"));
    command.envs(variables.iter().copied());
    command.env(ROLE, role.name()).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().expect("it starts")
}

fn pipes(program: &mut Child) -> (ChildStdin, BufReader<ChildStdout>) {
    let stdin = program.stdin.take().expect("a pipe");
    (stdin, BufReader::new(program.stdout.take().expect("a pipe")))
}

fn call(stdin: &mut ChildStdin, id: u32, method: &str) {
    writeln!(stdin, r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#).expect("it reads");
}

fn line(stdout: &mut impl BufRead) -> String {
    let mut line = String::new();
    stdout.read_line(&mut line).expect("UTF-8");
    line
}

fn l9_stray_prints_stay_off_the_wire() {
    let mut server = start(Role::Server);
    let (mut stdin, mut stdout) = pipes(&mut server);
    call(&mut stdin, 1, "print");
    assert_eq!(line(&mut stdout), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":true}\n");
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("UTF-8");
    assert_eq!(rest, "");
    let ended = server.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("a stray print"), "{ended:?}");
}

/// The control of the rows below: without an end, no server ends, not even after the time of a forced exit.
fn l4_l10_a_server_without_an_end_lives_on() {
    for role in [Role::Server, Role::Starter] {
        let mut program = start(role);
        let (mut stdin, mut stdout) = pipes(&mut program);
        for id in 1..=2 {
            call(&mut stdin, id, "ready");
            assert!(line(&mut stdout).contains("\"result\":true"), "it serves");
            thread::sleep(Duration::from_millis(2500));
        }
        assert!(program.try_wait().expect("it can be asked").is_none(), "it has ended");
        drop(stdin);
        program.wait().expect("it ends");
    }
}

/// Ends a server, and returns the time that it took.
fn end(end: End, busy_with: &str) -> Duration {
    let mut named = None;
    let mut program = match end {
        End::StdinCloses | End::Shutdown => start(Role::Server),
        End::ParentDies => start(Role::Starter),
        End::NamedProcessDies => {
            let process = named.insert(start(Role::Stubborn));
            start_with(Role::Server, &[(programs::NAMED, &process.id().to_string())])
        }
    };
    let (mut stdin, mut stdout) = pipes(&mut program);
    call(&mut stdin, 1, "ready");
    assert!(line(&mut stdout).contains("\"id\":1"), "it serves");
    if !busy_with.is_empty() {
        call(&mut stdin, 2, busy_with);
        call(&mut stdin, 3, "ready");
        assert!(line(&mut stdout).contains("\"id\":3"), "it serves beside {busy_with}");
    }
    let begun = Instant::now();
    let mut held_open = None;
    match end {
        End::StdinCloses => drop(stdin),
        End::Shutdown => {
            call(&mut stdin, 4, "shutdown");
            held_open = Some(stdin);
        }
        End::ParentDies => {
            held_open = Some(stdin);
            program.kill().expect("it runs");
        }
        End::NamedProcessDies => {
            held_open = Some(stdin);
            let mut named = named.expect("it was started");
            named.kill().expect("it runs");
            named.wait().expect("it was killed");
        }
    }
    // The last process with this stdout has ended.
    std::io::copy(&mut stdout, &mut std::io::sink()).expect("it can be read");
    let status = program.wait().expect("it ends");
    let time = begun.elapsed();
    drop(held_open);
    assert!(end == End::ParentDies || status.success(), "{end:?} {busy_with}: {status}");
    time
}

fn l3_l4_l5_l10_every_end_comes_in_time(lives: u64) {
    let patience = Duration::from_secs(number("PROCESS_PATIENCE", 10));
    for way in ENDS {
        // Mostly they wait, so several run together.
        let rows = BUSY_WITH.map(|busy_with| {
            thread::spawn(move || (0..lives).map(|_| end(way, busy_with)).max().unwrap_or_default())
        });
        for (row, busy_with) in rows.into_iter().zip(BUSY_WITH) {
            let longest = row.join().expect("a row that holds");
            eprintln!("{way:?} during {busy_with:?}: {lives} lives, longest end {longest:?}");
            assert!(longest <= patience, "{way:?} during {busy_with:?}: {longest:?}");
        }
    }
}

fn t1_no_process_of_a_tree_is_left(lives: u64) {
    for _ in 0..lives {
        programs::tree();
    }
    eprintln!("a wrapper and a server that ignores its end: {lives} trees, no process left");
}
