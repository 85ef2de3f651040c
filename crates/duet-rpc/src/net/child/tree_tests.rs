//! No process that a program started outlives the program (T1).

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use duet_rpc_proto::Profile;
use rustix::process::Signal;

use super::tests::{close, inbox, receive, shell};
use super::*;
use crate::transport::Stopped;

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(60);

/// A word that only the command lines of one test's processes contain: a time to sleep.
fn mark() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("600.{:06}{:03}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The processes with this word on their command line. This search shares nothing with the code under
/// test.
fn marked(mark: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|it| fs::read_to_string(it.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(mark)).collect()
}

/// Starts a script that reports when it is ready.
async fn ready(script: &str) -> Child {
    let mut child = shell(script);
    assert!(receive(&mut child, &mut inbox()).await.is_some(), "{script}");
    child
}

/// Programs that leave other processes behind: their actions before they are ready, and after that.
const LEAVE_OTHERS: [(&str, &str, &str); 9] = [
    ("a shell that waits for it", "", "sleep MARK; true"),
    ("in the background", "sleep MARK &", "exit 3"),
    ("in the background of one that goes on", "sleep MARK &", "exec cat"),
    ("in a session of its own", "setsid sleep MARK &", "exec cat"),
    ("in a session of its own, an orphan", "(setsid sh -c 'sleep MARK & exit' &)", "exec cat"),
    (
        "an orphan that ignores SIGTERM",
        "(setsid sh -c 'trap \"\" TERM; sleep MARK; :' &)",
        "exec cat",
    ),
    ("an orphan that is stopped", "(setsid sh -c 'kill -STOP $$; sleep MARK' &)", "exec cat"),
    ("without its environment", "env -i setsid sleep MARK &", "exec sleep MARK"),
    ("with job control", "set -m; sleep MARK & sleep MARK &", "exec sleep MARK"),
];

#[tokio::test]
async fn t1_close_leaves_no_process_behind() {
    for (what, before, after) in LEAVE_OTHERS {
        let mark = mark();
        let script = format!("{before}\necho '[1]'; {after}").replace("MARK", &mark);
        let exit_report = close(ready(&script).await.grace(SHORT)).await;
        assert_eq!(marked(&mark), [""; 0], "{what}");
        assert!(!exit_report.stopped.is_empty(), "{what}");
    }
}

#[tokio::test]
async fn t1_drop_leaves_no_process_behind() {
    for (_, before, after) in LEAVE_OTHERS {
        let mark = mark();
        let script = format!("{before}\necho '[1]'; {after}").replace("MARK", &mark);
        let child = ready(&script).await;
        drop(child);
        // All are killed when it returns; they disappear a moment later.
        while !marked(&mark).is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test]
async fn t1_processes_that_end_with_stdin_are_not_signalled() {
    // The second process has stdin too, and ends only after the first.
    let rows = [
        "echo '[1]'; cat; exit 4",
        "echo '[1]'; (cat; echo second >&2) <&0 & exec cat >/dev/null; exit 4",
        "trap 'echo signalled >&2' TERM; echo '[1]'; cat | cat | cat; exit 4",
    ];
    for script in rows {
        let exit_report = close(ready(script).await.grace(LONG)).await;
        assert_eq!(exit_report.stopped, [], "{script}");
        assert_eq!(exit_report.exit.unwrap().signal(), None, "{script}");
        assert!(!exit_report.last_stderr.contains(&"signalled".to_owned()), "{script}");
    }
}

#[tokio::test]
async fn t1_exit_report_names_the_processes_that_were_stopped() {
    let mark = mark();
    let script = format!("(trap '' TERM; exec sleep {mark}) & echo $! >&2; echo '[1]'; exec cat");
    // `cat` has to end by itself within this time, on a busy machine too.
    let exit_report = close(ready(&script).await.grace(Duration::from_secs(3))).await;
    let pid = exit_report.last_stderr[0].parse().unwrap();
    let killed = Stopped { pid, program: "sleep".to_owned(), is_killed: true };
    assert_eq!(exit_report.stopped, [killed]);
    assert_eq!(exit_report.stopped[0].to_string(), format!("sleep (pid {pid}, SIGKILL)"));
    assert_eq!(exit_report.exit.unwrap().code(), Some(0));
}

#[tokio::test]
async fn t1_processes_left_behind_get_no_more_than_a_moment_after_the_program_ended() {
    let begun = Instant::now();
    let mark = mark();
    let script = format!("sleep {mark} & echo '[1]'; exit 3");
    let exit_report = close(ready(&script).await.grace(LONG)).await;
    assert_eq!(exit_report.exit.unwrap().code(), Some(3));
    assert!(!exit_report.stopped[0].is_killed);
    assert_eq!(marked(&mark), [""; 0]);
    assert!(begun.elapsed() < LONG);
}

#[tokio::test]
async fn t1_processes_that_start_others_without_end_are_killed() {
    // Each process starts the next and exits. Removing the file ends the chain, if nothing else does.
    let file = std::env::temp_dir().join(format!("duet-rpc {}", mark()));
    fs::write(&file, "[ -e \"$0\" ] || exit\nsh \"$0\" &\n").unwrap();
    let name = file.to_str().unwrap();
    for session in ["", "setsid"] {
        let script = format!("{session} sh '{name}' & echo '[1]'; exec cat");
        let exit_report = close(ready(&script).await.grace(SHORT)).await;
        assert_eq!(exit_report.exit.unwrap().code(), Some(0));
        assert_eq!(marked(name), [""; 0], "{session}");
    }
    fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn t1_only_the_tree_of_the_closed_program_ends() {
    let (mark, other_mark) = (mark(), mark());
    let nested = |mark: &str| format!("setsid sleep {mark} & echo '[1]'; exec cat");
    let other = ready(&nested(&other_mark)).await.grace(SHORT);
    close(ready(&nested(&mark)).await.grace(SHORT)).await;
    assert_eq!(marked(&mark), [""; 0]);
    assert_ne!(marked(&other_mark), [""; 0]);
    close(other).await;
    assert_eq!(marked(&other_mark), [""; 0]);
}

/// The name of the test below that runs in a process of its own, and its argument.
const HELPER: &str = "net::child::tree_tests::helper";
const ROLE: &str = "DUET_RPC_TEST_ROLE";
const MARK: &str = "DUET_RPC_TEST_MARK";

/// The end of a process that holds a program: a signal, or the end of its stdin.
const ENDS: [(&str, Option<Signal>); 5] = [
    ("a server", Some(Signal::TERM)),
    ("a server", Some(Signal::INT)),
    ("a server that is stuck", Some(Signal::TERM)),
    ("kill_all and exit", None),
    ("panic", None),
];

#[test]
fn t1_process_that_ends_takes_its_programs_with_it() {
    for (role, signal) in ENDS {
        let mark = mark();
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", HELPER, "--ignored", "--nocapture"]);
        command.env(ROLE, role).env(MARK, &mark);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        // It holds the shell, and two sleeping processes.
        while marked(&mark).iter().filter(|line| line.starts_with("sleep")).count() < 2 {
            assert_eq!(process.try_wait().unwrap(), None, "{role}");
        }
        match signal {
            Some(signal) => {
                let pid = rustix::process::Pid::from_child(&process);
                rustix::process::kill_process(pid, signal).unwrap();
            }
            None => drop(process.stdin.take()),
        }
        process.wait().unwrap();
        // All are killed; they disappear a moment later.
        let begun = Instant::now();
        while !marked(&mark).is_empty() {
            assert!(begun.elapsed() < LONG, "{role} leaves {:?}", marked(&mark));
        }
    }
}

fn wait_for_end_of_stdin() {
    std::io::read_to_string(std::io::stdin()).unwrap();
}

#[test]
#[ignore = "it is the other process of the test above"]
fn helper() {
    let Ok(mark) = std::env::var(MARK) else { return };
    let role = std::env::var(ROLE).unwrap();
    let start = move || {
        let script = format!("setsid sleep {mark} & trap '' TERM; sleep {mark}; :");
        let child = shell(&script);
        while marked(&mark).iter().filter(|line| line.starts_with("sleep")).count() < 2 {}
        child
    };
    let server = crate::Server::new().profile(Profile::agent()).router(crate::Router::new());
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match &*role {
        "a server" => {
            let hold = move |_: &crate::Peer| {
                let start = start.clone();
                tokio::spawn(async move {
                    let _child = start();
                    std::future::pending::<()>().await;
                });
            };
            server.on_connect(hold).run().unwrap();
        }
        "a server that is stuck" => {
            let jam = move |_: &crate::Peer| {
                let _child = start();
                std::thread::sleep(LONG);
            };
            let _ = server.on_connect(jam).run();
        }
        "kill_all and exit" => {
            let _child = runtime().block_on(async { start() });
            wait_for_end_of_stdin();
            Child::kill_all(LONG);
            std::process::exit(0);
        }
        _ => runtime().block_on(async {
            let _child = start();
            wait_for_end_of_stdin();
            panic!("with a program in hand");
        }),
    }
}

#[tokio::test]
async fn t1_program_has_the_limit_of_open_files_from_before_it_was_raised() {
    use rustix::process::{Resource, Rlimit, getrlimit};

    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let before = current.map_or(1000, |current| current.min(1000)) - 1;
    crate::sys::limits::note_raised(Rlimit { current: Some(before), maximum });
    // It looks only when its stdin is closed, long after it has started.
    let exit_report = close(shell("cat; ulimit -Sn >&2; ulimit -Hn >&2").grace(LONG)).await;
    let hard = maximum.map_or("unlimited".to_owned(), |maximum| maximum.to_string());
    assert_eq!(exit_report.last_stderr, [before.to_string(), hard]);
    assert_eq!(getrlimit(Resource::Nofile), Rlimit { current, maximum });
}

#[test]
fn t1_inner_marker_is_appended_to_the_marker_of_the_outer_tree() {
    let mut command = Command::new("true");
    command.env_clear();
    let first = crate::sys::tree::Marker::put_on(&mut command);
    let second = crate::sys::tree::Marker::put_on(&mut command);
    assert_ne!(first.as_str(), second.as_str());
    let variables: Vec<_> = command.as_std().get_envs().collect();
    let inherited = std::env::var("DUET_RPC_TREE").unwrap_or_default();
    let value = variables[0].1.unwrap().to_str().unwrap();
    assert_eq!(value, format!("{inherited}{}", second.as_str()));
}
