//! W4, W5, W7: ends, exit codes and signals pass through, and so do descriptors, the environment, arguments
//! and the working directory.

use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::support::folder::Folder;
use super::support::once::run;
use super::support::programs::DUET_RPC;
use super::support::terminal::terminal;
use super::{cat, kinds, read_pids, records, tap, tap_shell};

/// Both ways of a tap.
const MODES: [&[&str]; 2] = [&[], &["--no-record"]];

/// A tap in this mode before a shell script.
fn tap_in(mode: &[&str], folder: &Folder, script: &str) -> Command {
    let mut command = Command::new(DUET_RPC);
    command.arg("tap").args(mode);
    if mode.is_empty() {
        command.arg("--to").arg(folder.path("trace.jsonl"));
    }
    command.args(["--", "sh", "-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn w4_exit_code_is_that_of_the_server() {
    for mode in MODES {
        for code in [0, 1, 2, 77, 126, 255] {
            let output = run(tap_in(mode, &Folder::new(), &format!("exit {code}")), b"");
            assert_eq!(output.status.code(), Some(code), "{mode:?}");
        }
    }
}

#[test]
fn w4_signal_that_kills_the_server_ends_the_tap() {
    for mode in MODES {
        for signal in [1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 34, 64] {
            let status: ExitStatus =
                run(tap_in(mode, &Folder::new(), &format!("kill -{signal} $$")), b"").status;
            assert_eq!(status.signal(), Some(signal), "{mode:?}");
        }
    }
}

#[test]
fn w4_server_on_a_terminal_is_not_stopped() {
    for mode in MODES {
        let (screen, end) = terminal();
        let folder = Folder::new();
        let tap = tap_in(mode, &folder, "read -r line; echo \"got $line\"");
        // The terminal controls a session of its own, as in a shell.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(tap.get_program()).args(tap.get_args());
        command.stdin(end).stdout(Stdio::piped());
        let process = command.spawn().expect("it starts");
        drop(command);
        rustix::io::write(&screen, b"line\n").expect("a terminal");
        let output = process.wait_with_output().expect("it ends");
        assert_eq!(output.stdout, b"got line\n", "{mode:?}");
    }
}

#[test]
fn w4_program_that_cannot_start_has_the_exit_code_of_a_shell() {
    let folder = Folder::new();
    let in_path = "it is in no folder of PATH: install it, or give its full path";
    for (program, code, advice) in [
        ("/nonexistent/program", 127, ""),
        ("/etc/passwd", 126, ""),
        ("no-such-server", 127, in_path),
    ] {
        let output = run(tap(&folder, &[], &[program]), b"");
        assert_eq!(output.status.code(), Some(code));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.starts_with(&format!("duet-rpc: cannot start {program}: ")), "{said}");
        assert!(said.contains(advice), "{said}");
    }
}

#[test]
fn w4_end_of_stdin_reaches_the_server() {
    let folder = Folder::new();
    let output = run(tap_shell(&folder, "cat; echo end"), b"a\n");
    assert_eq!(output.stdout, b"a\nend\n");
    let kinds = kinds(&records(folder.path("trace.jsonl")));
    for kind in ["c2s eof", "s2c eof", "err eof", "tap exit", "tap end"] {
        assert!(kinds.iter().any(|it| it == kind), "{kind}: {kinds:?}");
    }
}

#[test]
fn w4_server_that_closes_stdin_gives_the_client_epipe() {
    for mode in MODES {
        let folder = Folder::new();
        // A named pipe keeps the server running until the test has seen EPIPE.
        let fifo = folder.fifo("go");
        let script = format!("exec </dev/null; echo closed; cat {}", fifo.display());
        let mut process = tap_in(mode, &folder, &script).spawn().expect("it starts");
        let mut stdout = process.stdout.take().expect("a pipe");
        let mut line = [0; 7];
        stdout.read_exact(&mut line).expect("a line");
        let mut stdin = process.stdin.take().expect("a pipe");
        let error = loop {
            if let Err(error) = stdin.write_all(b"x") {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{mode:?}");
        std::fs::write(fifo, "bye\n").expect("the server reads");
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "bye\n");
        assert_eq!(process.wait().expect("our child").code(), Some(0));
    }
}

#[test]
fn w4_client_that_closes_stdout_gives_the_server_epipe() {
    for mode in MODES {
        let folder = Folder::new();
        // SIGPIPE ends `yes`; the shell reports it.
        let mut process = tap_in(mode, &folder, "yes; echo $? >&2").spawn().expect("it starts");
        let mut some = [0; 10];
        process.stdout.as_mut().expect("a pipe").read_exact(&mut some).expect("it comes");
        drop(process.stdout.take());
        let mut said = String::new();
        process.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        assert_eq!(said, "141\n", "{mode:?}");
        assert_eq!(process.wait().expect("our child").code(), Some(0));
    }
}

/// A server that ends while its client does not read: more than the client's pipe holds, but not more than
/// both pipes.
#[test]
fn w4_unread_output_of_an_ended_server_does_not_keep_the_tap() {
    let folder = Folder::new();
    let script = "head -c 120000 /dev/zero; head -c 120000 /dev/zero >&2; exit 3";
    let mut process = tap_shell(&folder, script).spawn().expect("it starts");
    assert_eq!(process.wait().expect("our child").code(), Some(3));
    for mut output in [
        Box::new(process.stdout.take().expect("a pipe")) as Box<dyn Read>,
        Box::new(process.stderr.take().expect("a pipe")),
    ] {
        let mut bytes = Vec::new();
        output.read_to_end(&mut bytes).expect("a pipe");
        assert_eq!(bytes.len(), 120_000);
    }
    assert_eq!(cat(&folder, "s2c").len(), 120_000);
}

/// A socket cannot grow, so the tap waits for its client. Then a signal ends it.
#[test]
fn w4_w5_signal_ends_a_tap_whose_server_has_ended() {
    use std::os::unix::net::UnixStream;
    let folder = Folder::new();
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    // More than the socket holds, and less than the pipe of the server.
    rustix::net::sockopt::set_socket_send_buffer_size(&theirs, 4096).expect("a socket");
    let mut command = tap_shell(&folder, "head -c 50000 /dev/zero; echo $$ >&2; exit 4");
    command.stdout(std::os::fd::OwnedFd::from(theirs));
    let mut process = command.spawn().expect("it starts");
    drop(command);
    let server = read_pids(process.stderr.as_mut().expect("a pipe"))[0];
    super::wait_for_end_of(server);
    let _stdin = process.stdin.take();
    while process.try_wait().expect("our child").is_none() {
        let _ = kill_process(Pid::from_child(&process), Signal::TERM);
        std::thread::yield_now();
    }
    assert_eq!(process.wait().expect("our child").code(), Some(4));
    drop(ours);
}

#[test]
fn w4_server_that_closes_stdout_ends_it_for_the_client() {
    for mode in MODES {
        let script = "exec >/dev/null; read line; exit 5";
        let mut process = tap_in(mode, &Folder::new(), script).spawn().expect("it starts");
        let mut rest = Vec::new();
        process.stdout.take().expect("a pipe").read_to_end(&mut rest).expect("it ends");
        assert!(process.try_wait().expect("our child").is_none(), "{mode:?}");
        drop(process.stdin.take());
        assert_eq!(process.wait().expect("our child").code(), Some(5));
    }
}

#[test]
fn w5_signals_reach_the_server_once() {
    let names = ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2"];
    let signals =
        [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];
    for mode in MODES {
        for (name, signal) in names.into_iter().zip(signals) {
            let folder = Folder::new();
            let script = format!(
                "trap 'count=$((count+1)); echo {name} $count' {name}; echo ready; \
                 while read -r line; do echo \"$line\"; done; echo \"$count\""
            );
            let mut process = tap_in(mode, &folder, &script).spawn().expect("it starts");
            let mut stdout = process.stdout.take().expect("a pipe");
            let mut ready = [0; 6];
            stdout.read_exact(&mut ready).expect("a line");
            let pid = Pid::from_child(&process);
            kill_process(pid, signal).expect("our child");
            let mut said = vec![0; name.len() + 3];
            // `read` of a shell goes on after a trap, or ends: both are fine once the trap has run.
            stdout.read_exact(&mut said).expect("the trap runs");
            assert_eq!(String::from_utf8_lossy(&said), format!("{name} 1\n"), "{mode:?}");
            drop(process.stdin.take());
            let mut rest = String::new();
            stdout.read_to_string(&mut rest).expect("text");
            assert_eq!(rest, "1\n", "{mode:?} {name}");
            assert_eq!(process.wait().expect("our child").code(), Some(0));
            if mode.is_empty() {
                let records = records(folder.path("trace.jsonl"));
                let passed: Vec<_> = records.iter().filter(|it| it["kind"] == "signal").collect();
                assert_eq!(passed.len(), 1, "{name} {records:?}");
                assert_eq!(passed[0]["signal"], signal.as_raw());
            }
        }
    }
}

#[test]
fn w5_w4_server_that_dies_of_a_passed_signal_takes_the_tap_along() {
    for mode in MODES {
        let script = "echo $$; read line";
        let mut process = tap_in(mode, &Folder::new(), script).spawn().expect("it starts");
        read_pids(process.stdout.as_mut().expect("a pipe"));
        kill_process(Pid::from_child(&process), Signal::TERM).expect("our child");
        // `wait` would close it, and that would end the server too.
        let _stdin = process.stdin.take();
        let status = process.wait().expect("our child");
        assert_eq!(status.signal(), Some(15), "{mode:?} {status:?}");
    }
}

#[test]
fn w7_arguments_environment_and_working_directory_pass_unchanged() {
    for mode in MODES {
        let folder = Folder::new();
        let script = r#"printf '%s|' "$@"; pwd; env | grep -v '^_='"#;
        let mut command = tap_in(mode, &folder, script);
        command.args(["sh", "", "a b", "*", "--to", "-x"]);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("ODD", "a\nb").current_dir("/usr");
        let through = run(command, b"");
        let mut direct = Command::new("sh");
        direct.args(["-c", script, "sh", "", "a b", "*", "--to", "-x"]);
        direct.env_clear().env("PATH", "/usr/bin:/bin").env("ODD", "a\nb").current_dir("/usr");
        let direct = run(direct, b"");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&through.stdout), text(&direct.stdout), "{mode:?}");
    }
}

#[test]
fn w7_descriptors_pass_unchanged_and_no_others_are_added() {
    for mode in MODES {
        let folder = Folder::new();
        let list = "ls -l /proc/self/fd | sed -n 's/.* \\([0-9]* -> .*\\)/\\1/p' | grep -v /proc/ | grep -v pipe";
        let open = |command: &Command| {
            let mut shell = Command::new("sh");
            shell.args(["-c", "exec 3</etc/passwd 7>/dev/null 9</etc/group; exec \"$@\"", "sh"]);
            shell.arg(command.get_program()).args(command.get_args());
            run(shell, b"")
        };
        let mut direct = Command::new("sh");
        direct.args(["-c", list]);
        let direct = open(&direct);
        let through = open(&tap_in(mode, &folder, list));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&through.stdout), text(&direct.stdout), "{mode:?}");
        assert!(text(&direct.stdout).contains("7 -> /dev/null"), "{}", text(&direct.stdout));
    }
}

#[test]
fn w5_ignored_signals_stay_ignored_in_the_server() {
    let folder = Folder::new();
    let mut shell = Command::new("sh");
    let command = tap_shell(&folder, "kill -HUP $$; echo alive");
    shell
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    assert_eq!(run(shell, b"").stdout, b"alive\n");
    assert_eq!(cat(&folder, "s2c"), b"alive\n");
}

#[test]
fn c1_wrong_command_lines_of_the_tap_name_the_next_step() {
    let listen = ["--listen", "tcp://127.0.0.1:0"];
    for (words, expected) in [
        (&["clangd", "--log=error"][..], "duet-rpc tap -- clangd"),
        (&listen, "--connect <URL>"),
        (&["--redact", "params/token", "--", "true"], "did you mean /params/token?"),
        (&["--redact-value", "[", "--", "true"], "`[` is not a regular expression"),
    ] {
        let output = Command::new(DUET_RPC).arg("tap").args(words).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
        // The two exclude each other.
        assert!(!(said.contains("<COMMAND>...\n") && said.contains("--connect <URL>\n")), "{said}");
    }
}
