use std::future::poll_fn;
use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context as TaskContext, Poll};
use std::time::Instant;

use duet_rpc_proto::Profile;
use duet_rpc_proto::frame::{Event, Framing};
use rustix::process::{Pid, test_kill_process};
use tokio::io::{AsyncRead, ReadBuf};

use super::stderr::{Stderr, StderrLines};
use super::*;
use crate::transport::TransportKind;

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(60);

pub(super) fn shell(script: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Child::spawn(command).unwrap()
}

/// Receives one frame, or `None` at the end.
pub(super) async fn receive(child: &mut Child, inbox: &mut Inbox) -> Option<String> {
    loop {
        match inbox.next_event() {
            Some(Event::Frame(text)) => return Some(text.as_str().to_owned()),
            Some(Event::Fault(_)) => panic!("a fault"),
            None => {}
        }
        match poll_fn(|cx| child.poll_receive(cx, inbox)).await.unwrap() {
            Received::Eof => return None,
            Received::Data | Received::Drained => {}
        }
    }
}

pub(super) fn inbox() -> Inbox {
    Inbox::new(TransportKind::Bytes, &Profile::agent())
}

/// Closes the child, and checks that no process is left.
pub(super) async fn close(mut child: Child) -> ExitReport {
    let id = child.id();
    let exit_report = poll_fn(|cx| child.poll_close(cx)).await;
    if let Some(id) = id {
        assert!(!exists(id), "it is still there");
    }
    exit_report
}

fn exists(id: u32) -> bool {
    test_kill_process(pid(id)).is_ok()
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
}

#[tokio::test]
async fn t1_messages_go_there_and_come_back() {
    let mut child = Child::spawn(Command::new("cat")).unwrap().grace(LONG);
    let mut outbox = Outbox::new(Some(Framing::Ndjson));
    let mut inbox = inbox();
    for message in ["[1]", "{\"a\":2}"] {
        outbox.push(message.as_bytes());
        poll_fn(|cx| child.poll_send(cx, &mut outbox)).await.unwrap();
        assert_eq!(receive(&mut child, &mut inbox).await.unwrap(), message);
    }
    let exit_report = close(child).await;
    assert_eq!(exit_report.exit.unwrap().code(), Some(0));
    assert!(exit_report.last_stderr.is_empty());
}

#[tokio::test]
async fn t1_program_that_answers_at_the_end_of_stdin_is_received() {
    let mut child = shell("cat > /dev/null; echo '[1]'; exit 7").grace(LONG);
    let (mut inbox, mut outbox) = (inbox(), Outbox::new(Some(Framing::Ndjson)));
    child.close_stdin();
    assert_eq!(receive(&mut child, &mut inbox).await.as_deref(), Some("[1]"));
    assert_eq!(receive(&mut child, &mut inbox).await, None);
    outbox.push(b"[2]");
    let sent = poll_fn(|cx| child.poll_send(cx, &mut outbox)).await;
    assert_eq!(sent.map_err(|error| error.kind()), Err(io::ErrorKind::BrokenPipe));
    assert_eq!(close(child).await.exit.and_then(|exit| exit.code()), Some(7));
}

#[tokio::test]
async fn t1_grace_period_begins_when_stdin_closes() {
    // It ignores each step, so each takes its whole time, on a clock that jumps.
    let mut child = shell("trap '' TERM; echo '[1]'; exec sleep 600").grace(LONG);
    assert!(receive(&mut child, &mut inbox()).await.is_some());
    tokio::time::pause();
    child.close_stdin();
    let closed = tokio::time::Instant::now();
    tokio::time::advance(LONG).await;
    assert_eq!(close(child).await.exit.unwrap().signal(), Some(9));
    assert!((2 * LONG..3 * LONG).contains(&closed.elapsed()), "{:?}", closed.elapsed());
}

#[tokio::test]
async fn t1_program_that_exits_by_itself_is_reported_with_status_and_stderr() {
    let mut child = shell("echo '[1]'; echo oh no >&2; printf 'no end' >&2; exit 7").grace(LONG);
    let mut inbox = inbox();
    assert_eq!(receive(&mut child, &mut inbox).await.unwrap(), "[1]");
    assert_eq!(receive(&mut child, &mut inbox).await, None);
    poll_fn(|cx| child.poll_remote_closed(cx)).await;
    let exit_report = close(child).await;
    assert_eq!(exit_report.exit.unwrap().code(), Some(7));
    assert_eq!(exit_report.last_stderr, ["oh no", "no end"]);
}

#[tokio::test]
async fn t1_program_may_write_output_after_its_stdin_closes() {
    // More bytes than a pipe holds: without a reader, the write would kill the program before it can end properly.
    let script = "cat; head -c 3000000 /dev/zero || exit 1; echo done >&2; exit 5";
    let exit_report = close(shell(script).grace(LONG)).await;
    assert_eq!(exit_report.exit.unwrap().code(), Some(5));
    assert_eq!(exit_report.last_stderr, ["done"]);
}

#[tokio::test]
async fn t1_program_that_ignores_its_closed_stdin_gets_sigterm() {
    let mut child = shell("echo '[1]'; exec sleep 600").grace(SHORT);
    assert!(receive(&mut child, &mut inbox()).await.is_some());
    let exit_report = close(child).await;
    // On a slow machine SIGTERM may not end it in time, and SIGKILL follows.
    assert!(matches!(exit_report.exit.unwrap().signal(), Some(9 | 15)));
}

#[tokio::test]
async fn t1_program_can_exit_cleanly_on_sigterm() {
    let script = "trap 'echo bye >&2; exit 4' TERM; echo '[1]'; while :; do sleep 0.01; done";
    let mut child = shell(script).grace(Duration::from_secs(2));
    assert!(receive(&mut child, &mut inbox()).await.is_some());
    let exit_report = close(child).await;
    assert_eq!(exit_report.exit.unwrap().code(), Some(4));
    // Earlier lines may be the shell's report about the signal of its own child.
    assert_eq!(exit_report.last_stderr.last().unwrap(), "bye");
}

#[tokio::test]
async fn t1_a_program_that_does_not_want_to_end_is_killed() {
    let script = "trap '' TERM; echo '[1]'; while :; do sleep 0.01; done";
    let mut child = shell(script).grace(SHORT);
    assert!(receive(&mut child, &mut inbox()).await.is_some());
    assert_eq!(close(child).await.exit.unwrap().signal(), Some(9));
}

#[tokio::test]
async fn t1_long_stderr_output_does_not_block_the_program() {
    let script = "i=0; while [ $i -lt 16 ]; do head -c 65535 /dev/zero | tr '\\0' x >&2; \
                  echo >&2; i=$((i+1)); done; echo the last >&2; echo '[1]'; cat";
    let mut child = shell(script).grace(LONG);
    assert_eq!(receive(&mut child, &mut inbox()).await.unwrap(), "[1]");
    let exit_report = close(child).await;
    assert_eq!(exit_report.exit.unwrap().code(), Some(0));
    assert_eq!(exit_report.last_stderr.last().unwrap(), "the last");
    assert!(exit_report.last_stderr.iter().map(String::len).sum::<usize>() <= 8 * 1024);
}

/// An endless reader, up to a bound at which the test fails.
struct Flood(Arc<AtomicUsize>);

impl AsyncRead for Flood {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0.fetch_add(1, Ordering::Relaxed) < 10_000 {
            buffer.put_slice(b"y\n");
        }
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn t1_a_flood_on_stderr_leaves_other_tasks_their_turn() {
    let reads = Arc::<AtomicUsize>::default();
    let _stderr = Stderr::drain(Flood(Arc::clone(&reads)));
    let another = tokio::spawn(async move { reads.load(Ordering::Relaxed) });
    let reads = another.await.expect("it only looks");
    assert!(reads < 10, "{reads} reads before another task had its turn");
}

#[tokio::test]
async fn t1_on_stderr_gets_every_line_even_after_a_panic() {
    let (tell, told) = channel();
    let child = shell("cat; i=0; while [ $i -lt 50 ]; do echo $i >&2; i=$((i+1)); done")
        .grace(LONG)
        .on_stderr(move |line| {
            tell.send(line.to_owned()).unwrap();
            assert_ne!(line, "5", "a panic costs nothing else");
        });
    let exit_report = close(child).await;
    let lines: Vec<String> = (0..50).map(|i| i.to_string()).collect();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), lines);
    assert_eq!(exit_report.last_stderr, lines[30..]);
}

#[tokio::test]
async fn t1_background_process_that_holds_the_pipes_does_not_delay_close() {
    let start = Instant::now();
    let mut child = shell("sleep 600 & echo $! >&2; echo '[1]'; exit 3").grace(LONG);
    let mut inbox = inbox();
    assert!(receive(&mut child, &mut inbox).await.is_some());
    assert_eq!(receive(&mut child, &mut inbox).await, None);
    let exit_report = close(child).await;
    assert_eq!(exit_report.exit.unwrap().code(), Some(3));
    assert_eq!(crate::sys::procfs::entry(pid(exit_report.last_stderr[0].parse().unwrap())), None);
    assert!(start.elapsed() < LONG);
}

#[tokio::test]
async fn t1_program_without_grace_is_killed_immediately() {
    let mut child = shell("trap '' TERM; echo '[1]'; exec sleep 600").grace(Duration::ZERO);
    assert!(receive(&mut child, &mut inbox()).await.is_some());
    assert_eq!(close(child).await.exit.unwrap().signal(), Some(9));
}

#[tokio::test]
async fn t1_a_program_that_is_dropped_is_killed() {
    let mut child = shell("echo '[1]'; exec sleep 600");
    assert!(receive(&mut child, &mut inbox()).await.is_some());
    let id = child.id().unwrap();
    drop(child);
    while exists(id) {
        // The program is dead; the runtime reaps it later, or with the next child.
        let _ = Command::new("true").status().await;
    }
}

#[test]
fn t1_a_runtime_that_ends_leaves_nothing_of_a_program_behind() {
    for is_closing in [false, true] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (child, id) = runtime.block_on(async {
            let mut child = shell("trap '' TERM; echo '[1]'; exec sleep 600").grace(LONG);
            assert!(receive(&mut child, &mut inbox()).await.is_some());
            let id = child.id().unwrap();
            if is_closing {
                let mut cx = Context::from_waker(std::task::Waker::noop());
                assert!(child.poll_close(&mut cx).is_pending());
            }
            (child, id)
        });
        runtime.spawn(async move {
            let _child = child;
            std::future::pending::<()>().await;
        });
        drop(runtime);
        // There is no runtime to reap it.
        while exists(id) {
            std::thread::yield_now();
        }
    }
}

#[tokio::test]
async fn t1_a_program_that_is_not_there_is_an_error() {
    let error = Child::spawn(Command::new("/nonexistent/program")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    let told = "cannot start \"/nonexistent/program\": No such file or directory (os error 2)";
    assert_eq!(error.to_string(), told);
}

#[tokio::test]
async fn t1_child_dropped_while_closing_is_killed() {
    let mut child = shell("trap '' TERM; echo '[1]'; exec sleep 600").grace(LONG);
    assert!(receive(&mut child, &mut inbox()).await.is_some());
    let id = child.id().unwrap();
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(child.poll_close(&mut cx).is_pending());
    drop(child);
    while exists(id) {
        let _ = Command::new("true").status().await;
    }
}

#[test]
fn lines_are_the_same_in_any_pieces() {
    let long = "x".repeat(20_000);
    let text = format!("one\ntwo\r\n\nthree {long}\nlast\u{e9}");
    let lines_of = |piece: usize| {
        let mut words = StderrLines::default();
        for piece in text.as_bytes().chunks(piece) {
            words.hear(piece);
        }
        words.end_line();
        words.into_lines()
    };
    let whole = lines_of(text.len());
    assert_eq!(whole.last().unwrap(), "last\u{e9}");
    for piece in 1..20 {
        assert_eq!(lines_of(piece), whole);
    }
}

#[test]
fn invalid_utf8_is_replaced_within_the_limit() {
    let mut words = StderrLines::default();
    words.hear(&[0xff; 8 * 1024]);
    words.hear(b"\n");
    let lines = words.into_lines();
    assert!(lines[0].len() <= 8 * 1024 && lines[0].starts_with('\u{fffd}'));
}
