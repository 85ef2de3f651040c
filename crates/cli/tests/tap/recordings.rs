//! W8, R0: the content, the place and the access mode of a trace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::support::folder::Folder;
use super::support::once::run;
use super::support::programs::DUET_RPC;
use super::{cat, cat_file, kinds, records, tap, tap_shell};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn w8_trace_and_folder_are_private_and_hold_no_environment() {
    let folder = Folder::new();
    let mut command = Command::new("sh");
    // The widest umask, and an existing folder that is open to everybody.
    let script = "umask 0; mkdir -p state/duet-rpc/traces; exec \"$@\"";
    command.args(["-c", script, "sh", DUET_RPC, "tap", "--", "cat"]);
    command.env("XDG_STATE_HOME", folder.path("state")).env("SECRET", "swordfish");
    command.current_dir(folder.path(""));
    assert_eq!(run(command, b"hi\n").stdout, b"hi\n");
    let traces = folder.path("state/duet-rpc/traces");
    assert_eq!(mode(&traces), 0o700);
    let files: Vec<_> = fs::read_dir(&traces).expect("a folder").flatten().collect();
    assert_eq!(files.len(), 1);
    assert_eq!(mode(&files[0].path()), 0o600);
    let text = fs::read_to_string(files[0].path()).expect("a trace");
    assert!(!text.contains("swordfish") && !text.contains("XDG_STATE_HOME"), "{text}");
}

#[test]
fn w8_narrow_umask_leaves_the_trace_readable_for_its_user() {
    for umask in ["0777", "0277", "0077"] {
        let folder = Folder::new();
        let mut command = Command::new("sh");
        let script = format!("umask {umask}; exec \"$@\"");
        command.args(["-c", &script, "sh", DUET_RPC, "tap", "--", "cat"]);
        command.env("XDG_STATE_HOME", folder.path("state"));
        assert_eq!(run(command, b"hi\n").stdout, b"hi\n");
        for name in ["state", "state/duet-rpc", "state/duet-rpc/traces"] {
            assert_eq!(mode(&folder.path(name)), 0o700, "{umask} {name}");
        }
        let traces = folder.path("state/duet-rpc/traces");
        let files: Vec<_> = fs::read_dir(&traces).expect("a folder").flatten().collect();
        assert_eq!(files.iter().map(|it| mode(&it.path())).collect::<Vec<_>>(), [0o600]);
    }
}

#[test]
fn w8_existing_file_becomes_private() {
    let folder = Folder::new();
    let file = folder.write("trace.jsonl", "{\"duet\":1}\nold");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("our file");
    run(tap(&folder, &[], &["cat"]), b"new\n");
    assert_eq!(mode(file.as_ref()), 0o600);
    assert_eq!(cat(&folder, "c2s"), b"new\n");
}

#[test]
fn w8_redaction_changes_the_file_and_not_the_bytes() {
    let folder = Folder::new();
    let input = concat!(
        r#"{"id":1,"method":"login","params":{"token":"hunter2","n":1.50}}"#,
        "\n",
        r#"{"id":2,"method":"key","params":["sk-12345","x"]}"#,
        "\n",
        r#"{"id":3,"method":"deep","params":{"a":{"b":"pointer"}}}"#,
        "\n",
    );
    let options = ["--redact", "token", "--redact", "/params/a/b", "--redact-value", "sk-[0-9]+"];
    let output = run(
        tap(&folder, &options, &["sh", "-c", "cat; echo sk-777 >&2", "sk-999"]),
        input.as_bytes(),
    );
    assert_eq!((output.stdout, output.stderr), (input.as_bytes().to_vec(), b"sk-777\n".to_vec()));
    let text = fs::read_to_string(folder.path("trace.jsonl")).expect("a trace");
    for secret in ["hunter2", "sk-12345", "sk-777", "sk-999", r#""pointer""#] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert!(text.contains(r#"{"token":"[redacted]","n":1.50}"#), "{text}");
    let output = cat_file(&folder.path("trace.jsonl"), "c2s");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn w8_redaction_reaches_every_part_of_the_trace() {
    let message = r#"{"id":"sk-1","method":"get/sk-1","params":{"token":"hunter2"}}"#;
    let lsp = format!("X-Key: sk-1\r\nContent-Length: {}\r\n\r\n{message}", message.len());
    let batch = format!("[{message}]\n");
    let long =
        format!("head -c 65534 /dev/zero | tr '\\0' x >&2; echo sk-1 >&2; echo '{message}' >&2");
    let rows = [
        ("lsp", lsp.as_str(), "cat"),
        ("ndjson", batch.as_str(), "cat"),
        ("lsp", &batch, "cat"),
        ("auto", "", &long),
    ];
    for (framing, input, script) in rows {
        let folder = Folder::new();
        let inner = folder.path("in sk-1");
        fs::create_dir(&inner).expect("a folder");
        let options =
            ["--framing", framing, "--redact", "/params/token", "--redact-value", "sk-[0-9]+"];
        let mut command = tap(&folder, &options, &["sh", "-c", script]);
        command.current_dir(inner);
        assert_eq!(run(command, input.as_bytes()).stdout, input.as_bytes());
        let text = fs::read_to_string(folder.path("trace.jsonl")).expect("a trace");
        let records = text.lines().skip(1).collect::<String>();
        assert!(!text.contains("in sk-1"), "{text}");
        for secret in ["sk-1", "xsk", "hunter2"] {
            assert!(!records.contains(secret), "{framing} {secret}: {records}");
        }
    }
}

#[test]
fn r0_messages_are_paired_and_noise_is_told_apart() {
    let folder = Folder::new();
    let script = r#"read -r ask; echo banner; printf '%s\n' '{"id":7,"result":true}' '{"id":8,"error":{}}' ''; echo log >&2"#;
    let input = "{\"id\":7,\"method\":\"ask\"}\n";
    let output = run(tap_shell(&folder, script), input.as_bytes());
    assert_eq!(cat(&folder, "s2c"), output.stdout);
    let records = records(folder.path("trace.jsonl"));
    let of = |kind: &str| records.iter().find(|it| it["kind"] == kind).expect("a record");
    assert_eq!(of("noise")["text"], "banner\n");
    let answer = of("response");
    assert_eq!((&answer["of"], &answer["method"]), (&of("request")["seq"], &"ask".into()));
    let took = answer["at"].as_u64().zip(of("request")["at"].as_u64()).map(|(to, from)| to - from);
    assert_eq!(answer["took"].as_u64(), took);
    assert!(of("error").get("of").is_none());
    assert_eq!(of("stderr")["text"], "log");
    assert_eq!(kinds(&records).last().map(String::as_str), Some("tap end"));
}

#[test]
fn long_bodies_are_cut_on_request() {
    let folder = Folder::new();
    let input = format!("{{\"method\":\"{}\"}}\n", "ü".repeat(100));
    run(tap(&folder, &["--max-body", "50"], &["cat"]), input.as_bytes());
    let records = records(folder.path("trace.jsonl"));
    assert_eq!((&records[0]["cut"], &records[0]["size"]), (&true.into(), &213.into()));
    assert!(records[0]["text"].as_str().expect("a text").len() <= 50);
    assert_eq!(cat_file(&folder.path("trace.jsonl"), "c2s").status.code(), Some(1));
}

#[test]
fn r0_rotated_trace_gives_back_every_byte() {
    let folder = Folder::new();
    let input = "{\"method\":\"m\",\"params\":[1,2,3]}\n".repeat(1_000);
    run(tap(&folder, &["--max-file", "10k"], &["cat"]), input.as_bytes());
    assert!(folder.path("trace.2.jsonl").exists() && folder.path("trace.10.jsonl").exists());
    let most = fs::metadata(folder.path("trace.2.jsonl")).expect("a part").len();
    assert!(most < 11_000, "{most} bytes");
    assert_eq!(cat(&folder, "c2s"), input.as_bytes());
    assert_eq!(cat(&folder, "s2c"), input.as_bytes());
    // Each part stands for all of them.
    let parts = (2..).map(|part| folder.path(&format!("trace.{part}.jsonl")));
    let last = parts.take_while(|path| path.exists()).last().expect("parts");
    assert_eq!(cat_file(&last, "c2s").stdout, input.as_bytes());
    // A later session in the same place does not get the parts of this one.
    run(tap(&folder, &["--max-file", "10k"], &["cat"]), b"new\n");
    assert_eq!(cat(&folder, "c2s"), b"new\n");
}

#[test]
fn oldest_traces_are_removed() {
    let folder = Folder::new();
    let place = format!("{}/", folder.text("traces"));
    fs::create_dir(folder.path("traces")).expect("a folder");
    folder.write("traces/notes.txt", "mine");
    folder.write("traces/20200101T000000Z-old-1.jsonl", "old");
    for _ in 0..4 {
        let mut command = Command::new(DUET_RPC);
        command.args(["tap", "--to", &place, "--keep", "3", "--", "true"]);
        run(command, b"");
    }
    let mut names: Vec<_> =
        fs::read_dir(folder.path("traces")).expect("a folder").flatten().collect();
    names.retain(|entry| entry.path().extension().is_some_and(|it| it == "jsonl"));
    assert_eq!(names.len(), 3);
    assert!(folder.path("traces/notes.txt").exists());
    assert!(!folder.path("traces/20200101T000000Z-old-1.jsonl").exists());
}

#[test]
fn oldest_traces_are_removed_with_all_of_their_parts() {
    let folder = Folder::new();
    fs::create_dir(folder.path("traces")).expect("a folder");
    for name in ["20200101T000000Z-old-1", "20200102T000000Z-old-2"] {
        for part in ["", ".2", ".3", ".10"] {
            folder.write(&format!("traces/{name}{part}.jsonl"), "old");
        }
    }
    let mut command = Command::new(DUET_RPC);
    let place = format!("{}/", folder.text("traces"));
    command.args(["tap", "--to", &place, "--keep", "2", "--", "true"]);
    run(command, b"");
    let entries = fs::read_dir(folder.path("traces")).expect("a folder").flatten();
    let names: Vec<_> = entries.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    let count = |name: &str| names.iter().filter(|it| it.contains(name)).count();
    assert_eq!((count("-old-1"), count("-old-2"), names.len()), (0, 4, 5), "{names:?}");
}

#[test]
fn trace_of_a_killed_tap_can_be_read() {
    let folder = Folder::new();
    let mut process = tap(&folder, &[], &["cat"]).spawn().expect("it starts");
    super::write(&mut process, b"{\"method\":\"m\"}\n");
    // Wait until it is in the file, which the recorder writes while the session runs.
    while !fs::read_to_string(folder.path("trace.jsonl")).is_ok_and(|it| it.contains("\"s2c\"")) {
        std::thread::yield_now();
    }
    process.kill().expect("our child");
    process.wait().expect("our child");
    let output = cat_file(&folder.path("trace.jsonl"), "c2s");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b"{\"method\":\"m\"}\n"[..]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("it has no end"), "{said}");
}

#[test]
fn wrong_options_are_refused_before_the_server_starts() {
    let folder = Folder::new();
    for options in
        [&["--redact", ""][..], &["--redact-value", "("], &["--max-body", "0"], &["--keep", "0"]]
    {
        let output = run(tap(&folder, options, &["echo", "started"]), b"");
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b""[..]), "{options:?}");
    }
}
