//! Documents from files, stdin and servers; what `check` and `diff` print about them.

use crate::support::folder::Folder;
use crate::support::listening::{HTTP, Server, TCP, WS};
use crate::support::programs::DUET_RPC;
use crate::{api, api_of, check, library, library_text, stderr, stdout};

#[test]
fn a1_documents_come_from_files_stdin_and_servers() {
    let file = library();
    check(
        &api(&["show", &file]),
        0,
        &["Library 2.1.0", "4 methods, OpenRPC 1.3.2, MIT", "books.lend"],
        &[],
    );
    check(&api_of(&["show", "-"], library_text().as_bytes()), 0, &["Library 2.1.0"], &[]);
    check(&api(&["show"]), 0, &["duet-rpc 0.1.0", "system.echo", "rpc.discover"], &[]);
    let own = ["show", "--", DUET_RPC, "rpc", "--profile", "agent"];
    check(&api(&own), 0, &["system.echo"], &[]);
    let words = ["rpc", "--profile", "agent", "--framing", "lsp"];
    let framed = [&["show", "--framing", "lsp", "version", "--", DUET_RPC][..], &words].concat();
    let output = api(&framed);
    check(&output, 0, &["version", "result"], &[]);
    assert!(!stdout(&output).contains("system.echo"), "only one method");
}

#[test]
fn a1_running_servers_are_asked() {
    let server = Server::rpc("agent", &[TCP, WS, HTTP], &[]);
    for url in &server.urls {
        let output = api(&["show", "--connect", &url.text, "version"]);
        check(&output, 0, &["version"], &[]);
        let output = api(&["check", &library(), "--connect", &url.text]);
        check(&output, 1, &["books.find: the method was removed"], &[]);
    }
}

/// A server that answers every request with this text in place of its result or error.
fn server(answer: &str) -> [String; 3] {
    let script = format!(
        r#"read -r line; id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/'); printf '{{"jsonrpc":"2.0","id":%s,{answer}}}\n' "$id"; cat >/dev/null"#
    );
    ["sh".to_owned(), "-c".to_owned(), script]
}

#[test]
fn a1_failures_say_what_to_do_and_have_exit_codes() {
    let answers = [
        (
            r#""error":{"code":-32601,"message":"Method not found"}"#,
            3,
            "give its OpenRPC document as a file instead",
        ),
        (r#""result":{"tools":[]}"#, 1, "not an OpenRPC document: the member `openrpc` is missing"),
        (r#""result":{"openrpc":"1.2.6"}"#, 1, "the member `info` is missing"),
    ];
    for (answer, exit, text) in answers {
        let [program, option, script] = server(answer);
        check(&api(&["show", "--", &program, &option, &script]), exit, &[], &[text]);
    }
    let folder = Folder::new();
    let bad = folder.write("bad.json", "{");
    let openapi = folder.write("openapi.json", r#"{"openapi": "3.1.0"}"#);
    let nowhere =
        folder.write("nowhere.json", library_text().replace("schemas/BookId", "schemas/Nowhere"));
    let rows: [(&[&str], i32, &str); 12] = [
        (&["show", "missing.json"], 1, "cannot read missing.json: No such file"),
        (&["show", "."], 1, "cannot read .: Is a directory"),
        (
            &["show", &bad],
            1,
            "the document is not JSON: EOF while parsing an object at line 1 column 1",
        ),
        (&["show", &openapi], 1, "it describes HTTP requests (OpenAPI)"),
        (
            &["show", &nowhere],
            1,
            "at /methods/1/params/0/schema/$ref: `#/components/schemas/Nowhere` does not exist",
        ),
        (&["show", "--", "no-such-server"], 5, "is it installed and on PATH?"),
        (&["show", "--connect", "tcp://127.0.0.1:1"], 5, "cannot reach"),
        (&["show", "--", "true"], 6, "the server"),
        (&["show", "--timeout", "0.2", "--", "sleep", "60"], 4, "0.2 s"),
        (&["show", "x", "y", "--", "true"], 2, "two documents"),
        (&["check", &bad], 2, "required"),
        (&["diff", &bad, &bad, "--", "true"], 1, "not JSON"),
    ];
    for (words, exit, text) in rows {
        let output = api(words);
        assert_eq!(output.status.code(), Some(exit), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(text), "{words:?}: {}", stderr(&output));
    }
}

/// The library, with a breaking change and a compatible one.
fn changed(folder: &Folder) -> String {
    let text = library_text().replace(r#""maxLength": 200"#, r#""maxLength": 100"#);
    folder.write(
        "new.json",
        text.replace(
            r#""title": {"type": "string"},"#,
            r#""title": {"type": "string"}, "pages": {"type": "integer"},"#,
        ),
    )
}

#[test]
fn a4_check_prints_breaking_changes_in_each_format() {
    let folder = Folder::new();
    let (old, new) = (library(), changed(&folder));
    check(&api(&["check", &old, &old]), 0, &["no breaking changes\n"], &[]);
    let text = "books.find params.text: `maxLength` changed from 200 to 100 (narrowed)";
    check(
        &api(&["check", &old, &new]),
        1,
        &[text, "1 breaking change, 1 compatible change", "narrowed: accept every value"],
        &[],
    );
    let output = api(&["check", &old, &new, "--format", "json"]);
    check(&output, 1, &[], &[]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&report["breaking"], &report["changes"][0]["path"]),
        (&1.into(), &"params.text".into())
    );
    let output = api(&["check", &old, &new, "--format", "sarif"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["runs"][0]["results"][0]["ruleId"], "narrowed");
    check(
        &api(&["check", &old, &new, "--format", "junit"]),
        1,
        &["failures=\"1\"", "<testcase classname"],
        &[],
    );
    check(
        &api(&["check", &old, &new, "--format", "junit"]),
        1,
        &["name=\"method-removed\"/>"],
        &[],
    );
}

#[test]
fn a5_diff_prints_a_changelog() {
    let folder = Folder::new();
    let output = api(&["diff", &library(), &changed(&folder)]);
    check(&output, 0, &[], &[]);
    let changelog = "# Library 2.1.0\n\n1 breaking change.\n\n## Added\n\n- `books.find` `result[].pages`: the member is new\n\n\
        ## Changed\n\n- **Breaking:** `books.find` `params.text`: `maxLength` changed from 200 to 100\n";
    assert_eq!(stdout(&output), changelog);
    let file = library_text().replace("Library", "\\u001b[31m\\u202eLibrary");
    let hostile = folder.write("hostile.json", file);
    assert!(!stdout(&api(&["diff", &library(), &hostile])).contains(['\u{1b}', '\u{202e}']));
}

#[test]
fn a8_gen_writes_one_file_for_each_language() {
    let folder = Folder::new();
    let out = folder.text("clients/new");
    for (language, name, text) in [
        ("typescript", "library", "books.find"),
        ("python", "library_client.py", "books.find"),
        ("elisp", "library", "books.find"),
    ] {
        let output = api(&["gen", language, &library(), "--out", &out]);
        check(&output, 0, &[name], &[]);
        let path = stdout(&output).trim_end();
        let file = std::fs::read_to_string(path).expect("the file is there");
        assert!(path.starts_with(&out) && file.contains(text), "{file}");
        assert!(file.contains(&format!("duet-rpc api gen {language} library.json")), "{file}");
        assert_eq!(stdout(&api(&["gen", language, &library(), "--out", "-"])), file);
    }
    check(
        &api(&["gen", "cobol", &library(), "--out", &out]),
        2,
        &[],
        &["typescript, python, elisp"],
    );
    check(&api(&["gen", "python", &library()]), 2, &[], &["--out"]);
    let file = folder.write("file", "");
    check(&api(&["gen", "python", &library(), "--out", &file]), 1, &[], &["cannot write"]);
}
