//! `--update` and `--to`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::support::folder::Folder;
use super::{replay, said, server, stderr, trace};

#[test]
fn y8_update_replaces_the_recording_as_a_whole() {
    let folder = Folder::new();
    let golden =
        trace(&folder, "golden.jsonl", &[r#">{"id":1,"method":"a"}"#, r#"<{"id":1,"result":1}"#]);
    fs::set_permissions(&golden, fs::Permissions::from_mode(0o644)).expect("the file is ours");
    let before = fs::read_to_string(&golden).expect("a file");
    let new = server(&folder, &["<", r#"{"id":1,"result":2}"#]);
    // A session that is not complete replaces nothing.
    let output = replay(&golden, &["--update"], &["true"]);
    assert_eq!(output.status.code(), Some(6));
    assert!(stderr(&output).contains("the recording stays as it is"), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&golden).expect("a file"), before);
    // Another file, and the recording stays.
    let other = folder.text("new.jsonl");
    assert_eq!(replay(&golden, &["--to", &other], &new).status.code(), Some(1));
    assert_eq!(fs::read_to_string(&golden).expect("a file"), before);
    assert_eq!(said(&replay(&other, &[], &new)).0, 0);

    let output = replay(&golden, &["--update"], &new);
    let shown =
        "changed c2s a (record 1)\n        /result: 1 → 2\n0 same, 1 changed, 0 missing, 0 extra\n";
    assert_eq!(said(&output), (0, shown), "{}", stderr(&output));
    assert_eq!(replay(&golden, &[], &new).status.code(), Some(0));
    let mode = fs::metadata(&golden).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    let names = fs::read_dir(folder.path(".")).expect("a folder").count();
    assert_eq!(names, 3, "golden, new and log; no file is left behind");
    let output = replay("-", &["--update"], &new);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn y8_update_refuses_a_read_only_recording_before_anything_is_played() {
    let folder = Folder::new();
    let golden =
        trace(&folder, "golden.jsonl", &[r#">{"id":1,"method":"a"}"#, r#"<{"id":1,"result":1}"#]);
    fs::set_permissions(&golden, fs::Permissions::from_mode(0o444)).expect("the file is ours");
    let before = fs::read_to_string(&golden).expect("a file");
    let started = folder.text("started");
    let output = replay(&golden, &["--update"], &["touch", &started]);
    assert_eq!(said(&output), (1, ""));
    assert!(stderr(&output).contains("golden.jsonl: the file is read-only"), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&golden).expect("a file"), before);
    assert!(!fs::exists(started).expect("a folder"), "the server was started");
}
