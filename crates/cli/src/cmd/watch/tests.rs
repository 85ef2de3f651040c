//! Tests of the index and of the list of sessions, with files that grow, shrink, move and vanish.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::entry::Fate;
use super::folder::{Folder, SessionState, WatchTarget};
use super::index::{Index, Progress};

pub(super) const ALL: Duration = Duration::from_secs(60);
pub(super) const HEADER: &str = r#"{"duet":1,"session":"s","command":["server"]}"#;

/// A folder that is removed at the end.
pub(super) struct TestFolder(PathBuf);

impl TestFolder {
    pub(super) fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("duet-rpc-watch-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        TestFolder(path)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(super) fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a file");
    file.write_all(text.as_bytes()).expect("it can be written");
}

pub(super) fn request(seq: u64, at: u64, id: u64) -> String {
    format!(
        r#"{{"seq":{seq},"at":{at},"dir":"c2s","kind":"request","id":{id},"method":"m","msg":{{"id":{id},"method":"m"}}}}"#
    )
}

pub(super) fn answer(seq: u64, at: u64, id: u64, of: u64, kind: &str) -> String {
    format!(
        r#"{{"seq":{seq},"at":{at},"dir":"s2c","kind":"{kind}","id":{id},"method":"m","of":{of},"msg":{{"id":{id}}}}}"#
    )
}

fn cancel(seq: u64, at: u64, method: &str, member: &str, id: u64) -> String {
    format!(
        r#"{{"seq":{seq},"at":{at},"dir":"c2s","kind":"notification","method":"{method}","msg":{{"method":"{method}","params":{{"{member}":{id}}}}}}}"#
    )
}

/// A change of the file.
enum Step<'a> {
    Append(&'a str),
    Truncate(&'a str),
    /// Replaces the file by another one.
    Replace(&'a str),
    Delete,
}

/// The number of records, of bad lines, and of times that the index was built again.
type Counts = (u32, u64, u32);
type Steps<'a> = &'a [(Step<'a>, Counts)];

#[test]
fn index_follows_a_file_that_grows_shrinks_moves_and_vanishes() {
    use Step::*;
    let (one, two, three) = (request(1, 10, 1), request(2, 20, 2), request(3, 30, 3));
    let (start, end) = two.split_at(17);
    let lines = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let both = lines(&[HEADER, &one, &two]);
    let same_size = both.replace("\"at\":10", "\"at\":99");
    // Each row: the steps, and the counts after each.
    let rows: &[(&str, Steps<'_>)] = &[
        (
            "grows",
            &[
                (Append(&lines(&[HEADER])), (0, 0, 0)),
                (Append(&lines(&[&one])), (1, 0, 0)),
                (Append(&lines(&[&two, &three])), (3, 0, 0)),
            ],
        ),
        (
            "torn",
            &[
                (Append(&lines(&[HEADER, &one])), (1, 0, 0)),
                (Append(start), (1, 0, 0)),
                (Append(&format!("{end}\n")), (2, 0, 0)),
            ],
        ),
        (
            "torn-header",
            &[
                (Append(&HEADER[..9]), (0, 0, 0)),
                (Append(&format!("{}\n{one}\n", &HEADER[9..])), (1, 0, 0)),
            ],
        ),
        (
            "not-records",
            &[(Append(&lines(&[HEADER, "{", &one, "null", "", "{\"seq\":1}", &two])), (2, 3, 0))],
        ),
        (
            "truncated",
            &[
                (Append(&both), (2, 0, 0)),
                (Truncate(""), (0, 0, 1)),
                (Append(&lines(&[HEADER, &one])), (1, 0, 1)),
            ],
        ),
        (
            "truncated-and-written-again",
            &[
                (Append(&lines(&[HEADER, &one])), (1, 0, 0)),
                (
                    Truncate(&lines(&[&HEADER.replace("\"s\"", "\"t\""), &one, &two, &three])),
                    (3, 0, 1),
                ),
            ],
        ),
        (
            "replaced",
            &[
                (Append(&both), (2, 0, 0)),
                (Replace(&same_size), (2, 0, 1)),
                (Append(&lines(&[&three])), (3, 0, 1)),
            ],
        ),
        ("deleted", &[(Append(&both), (2, 0, 0)), (Delete, (2, 0, 0))]),
        (
            "deleted-and-new",
            &[
                (Append(&both), (2, 0, 0)),
                (Delete, (2, 0, 0)),
                (Append(&lines(&[HEADER, &one])), (1, 0, 1)),
            ],
        ),
    ];
    let folder = TestFolder::new("files");
    for (name, steps) in rows {
        // wine neither replaces nor deletes a file that is open. Windows does.
        let is_wine = cfg!(windows) && std::env::var_os("WINEPREFIX").is_some();
        if is_wine && ["replaced", "deleted-and-new"].contains(name) {
            continue;
        }
        let path = folder.path(name);
        let mut index = Index::default();
        for (place, (step, expect)) in steps.iter().enumerate() {
            match step {
                Append(text) => append(&path, text),
                Truncate(text) => fs::write(&path, text).expect("it can be written"),
                Replace(text) => {
                    let other = folder.path("other");
                    fs::write(&other, text).expect("it can be written");
                    fs::rename(&other, &path).expect("it can be renamed");
                }
                Delete => fs::remove_file(&path).expect("it can be deleted"),
            }
            let paths = [path.clone()];
            let paths = if path.exists() { &paths[..] } else { &[] };
            index.advance(paths, ALL).expect("it can be read");
            // A replaced file is noticed first and read in the same step.
            let found = (index.entries.len(), index.bad_lines, index.generation);
            assert_eq!(found, *expect, "{name}, step {place}");
            assert_eq!(index.is_gone, !path.exists(), "{name}, step {place}");
            assert_eq!(
                index.advance(paths, ALL).expect("it can be read"),
                Progress::Nothing,
                "{name}"
            );
            for number in 0..index.entries.len() {
                let seq = index.read(number, |record| record.seq).expect("it can be read again");
                assert_eq!(index.entries.get(number).map(|entry| entry.seq), Some(seq), "{name}");
            }
        }
    }
}

#[test]
fn index_is_built_in_slices() {
    let folder = TestFolder::new("slices");
    let path = folder.path("trace");
    let lines: String = (1..=1000).map(|seq| format!("{}\n", request(seq, seq, seq))).collect();
    append(&path, &lines);
    let mut index = Index::default();
    let mut slices = 0;
    while index.advance(std::slice::from_ref(&path), Duration::ZERO).expect("it can be read")
        == Progress::Changed
    {
        slices += 1;
    }
    assert_eq!(index.entries.len(), 1000);
    assert!(slices > 5, "{slices}");
    assert_eq!(index.bytes(), (lines.len() as u64, lines.len() as u64));
}

#[test]
fn fate_of_a_request_follows_the_records() {
    let lsp = || cancel(2, 20, "$/cancelRequest", "id", 7);
    let mcp = || cancel(2, 20, "notifications/cancelled", "requestId", 7);
    let rows: &[(&[String], Fate, Option<u64>, u32)] = &[
        (&[], Fate::Open, None, 0),
        (&[answer(2, 25, 7, 1, "response")], Fate::Answered, Some(15), 0),
        (&[answer(2, 25, 7, 1, "error")], Fate::Failed, Some(15), 0),
        (&[answer(2, 1_000_011, 7, 1, "response")], Fate::Answered, Some(1_000_001), 1),
        (&[lsp()], Fate::Cancelled, None, 0),
        (&[mcp()], Fate::Cancelled, None, 0),
        (&[lsp(), answer(3, 30, 7, 1, "error")], Fate::Cancelled, Some(20), 0),
        (&[lsp(), answer(3, 30, 7, 1, "response")], Fate::Cancelled, Some(20), 0),
        // Another id, an answer that came first, two answers, an answer to nothing.
        (&[cancel(2, 20, "$/cancelRequest", "id", 8)], Fate::Open, None, 0),
        (
            &[answer(2, 15, 7, 1, "response"), cancel(3, 20, "$/cancelRequest", "id", 7)],
            Fate::Answered,
            Some(5),
            0,
        ),
        (
            &[answer(2, 15, 7, 1, "response"), answer(3, 18, 7, 1, "error")],
            Fate::Answered,
            Some(5),
            0,
        ),
        (&[answer(2, 15, 8, 99, "response")], Fate::Open, None, 0),
        // A trace of another program, which does not say what an answer belongs to.
        (&[answer(2, 15, 7, 99, "response")], Fate::Answered, Some(5), 0),
        (&[answer(2, 15, 7, 99, "error").replace(",\"of\":99", "")], Fate::Failed, Some(5), 0),
    ];
    let folder = TestFolder::new("fates");
    for (place, (records, fate, took, late)) in rows.iter().enumerate() {
        let path = folder.path(&place.to_string());
        append(&path, &format!("{HEADER}\n{}\n{}\n", request(1, 10, 7), records.join("\n")));
        let mut index = Index::default();
        index.advance(&[path], ALL).expect("it can be read");
        let entry = index.entries.get(0).expect("the request");
        assert_eq!(
            (entry.fate, index.took(entry), index.count_late(None)),
            (*fate, *took, *late),
            "row {place}"
        );
        assert_eq!(index.count(*fate), 1, "row {place}");
        // With another threshold, the answers are counted one by one.
        for (late, expect) in [(0, took.is_some()), (5, took.is_some_and(|it| it > 5))] {
            assert_eq!(index.count_late(Some(late)), u32::from(expect), "row {place}: {late}");
        }
        assert_eq!(Fate::ALL.iter().map(|fate| index.count(*fate)).sum::<u32>(), 1, "row {place}");
    }
}

#[test]
fn a_page_can_be_served_beside_another_command() {
    let folder = TestFolder::new("start");
    let url = super::start(WatchTarget::Folder(folder.0.clone()), 0).expect("a port is free");
    let host = url.strip_prefix("http://").and_then(|rest| rest.split('/').next());
    let mut stream = TcpStream::connect(host.expect("a host")).expect("it listens");
    write!(stream, "GET / HTTP/1.0\r\nHost: {}\r\n\r\n", host.expect("a host")).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.contains(" 401 "), "{answer}");
}

// Errors and devices of Unix.
#[cfg(all(test, unix))]
#[test]
fn targets_that_cannot_be_shown_are_refused() {
    let folder = TestFolder::new("targets");
    append(&folder.path("trace"), &format!("{HEADER}\n"));
    append(&folder.path("empty"), "");
    append(&folder.path("notes"), "hello\n");
    let rows = [
        ("", Ok(())),
        ("trace", Ok(())),
        ("empty", Ok(())),
        ("notes", Err("it is not a trace of `duet-rpc tap`")),
        ("missing", Err("No such file or directory (os error 2)")),
    ];
    for (name, expect) in rows {
        let path = folder.path(name);
        let found = super::find_target(Some(&path)).map(drop).map_err(|problem| problem.message);
        let expect = expect.map_err(|why| format!("cannot watch {}: {why}", path.display()));
        assert_eq!(found, expect);
    }
    let device = super::find_target(Some(Path::new("/dev/null"))).expect_err("it is a device");
    assert!(device.message.contains("not a file and not a folder"), "{}", device.message);
}

#[test]
fn parts_of_a_rotated_trace_are_one_session() {
    let folder = TestFolder::new("parts");
    let header =
        |part: u32| format!(r#"{{"duet":1,"session":"s","part":{part},"command":["server"]}}"#);
    append(
        &folder.path("a.2.jsonl"),
        &format!("{}\n{}\n", header(2), answer(2, 25, 7, 1, "response")),
    );
    append(&folder.path("a.jsonl"), &format!("{}\n{}\n", header(1), request(1, 10, 7)));
    append(&folder.path("b.jsonl"), &format!("{}\n", HEADER.replace("\"s\"", "\"other\"")));
    append(&folder.path("notes.txt"), "not a trace\n");
    let mut list = Folder::new(WatchTarget::Folder(folder.0.clone()));
    assert!(list.update(|_| false));
    assert!(!list.update(|_| false), "nothing has changed");
    let keys: Vec<_> = list.sessions().iter().map(|it| &*it.key).collect();
    assert_eq!(keys, ["b.jsonl", "a.jsonl"]);
    let parts = &list.sessions()[1].paths;
    let mut index = Index::default();
    index.advance(parts, ALL).expect("it can be read");
    assert_eq!((index.entries.len(), index.count(Fate::Answered)), (2, 1));
    assert_eq!(index.read(1, |record| record.seq).expect("it can be read"), 2);
    // A file that is watched alone has its parts, too.
    let mut single = Folder::new(WatchTarget::File(folder.path("a.jsonl")));
    assert!(single.update(|_| false));
    assert_eq!(&single.sessions()[0].paths, parts);
}

#[test]
fn state_of_a_session_comes_from_its_end_and_its_process() {
    let own = std::process::id();
    let end = r#"{"seq":1,"at":1,"dir":"tap","kind":"end","lossless":true}"#;
    let rows = [
        (Some(own), "", SessionState::Running),
        (Some(own), end, SessionState::Ended),
        (Some(i32::MAX as u32), "", SessionState::Stopped),
        (None, "", SessionState::Stopped),
        (None, end, SessionState::Ended),
    ];
    for (place, (pid, last, expect)) in rows.into_iter().enumerate() {
        let folder = TestFolder::new(&format!("state{place}"));
        let pid = pid.map(|pid| format!(r#","pid":{pid}"#)).unwrap_or_default();
        append(
            &folder.path("a.jsonl"),
            &format!("{{\"duet\":1,\"session\":\"s\"{pid}}}\n{last}\n"),
        );
        let mut list = Folder::new(WatchTarget::Folder(folder.0.clone()));
        list.update(|_| true);
        assert_eq!(list.sessions()[0].state, expect, "row {place}");
        fs::remove_file(folder.path("a.jsonl")).expect("it can be deleted");
        list.update(|_| true);
        assert_eq!(list.sessions()[0].state, SessionState::Deleted, "row {place}");
        list.update(|_| false);
        assert!(list.sessions().is_empty(), "row {place}");
    }
}
