//! Pages: on the terminal, and in HTML in a browser.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use crate::support::browser::browse;
use crate::support::folder::Folder;
use crate::support::programs::root;
use crate::support::skip;
use crate::{api, check, library, stderr, stdout};

#[test]
fn a6_one_method_is_shown_with_everything_about_it() {
    let output = api(&["show", &library(), "books.lend"]);
    check(&output, 0, &[], &[]);
    let page = "books.lend  #Books
  Lends a book to a member.
  params  by name
    book    BookId
    member  string (pattern ^[0-9]{6}$)  Number on the card.
    until?  string | null (format date)  Day to bring it back; without it, in four weeks.
  result  Borrowing
  errors
    1001  Already lent  (AlreadyLent) Somebody else has the book. Data: Borrowing.
    1002  No such member
";
    assert_eq!(stdout(&output), page);
    let output = api(&["show", &library(), "books.find"]);
    check(
        &output,
        0,
        &["    → {\"text\": \"le guin\", \"limit\": 1}\n    ← [{\"id\":7,", "Default: 20."],
        &[],
    );
    check(
        &api(&["show", &library(), "Lend"]),
        1,
        &[],
        &["has no method \"Lend\"; there is books.lend"],
    );
    check(&api(&["show", &library(), "zzz"]), 1, &[], &["without a method lists all"]);
}

#[test]
fn a6_types_and_methods_of_the_client_follow() {
    let output = api(&["show", &library()]);
    let parts = [
        "deprecated: use books.find with an empty text",
        "The server calls these methods at its client",
        "\nTypes\n\n  BookId  integer (at least 1, format uint32)\n    Number of a book.\n",
        "    sequel?  Book  The next book of a series.\n",
        "  Borrowing\n    Who has a book, and until when.\n    book    BookId\n    member  string\n    until   string (format date)\n",
    ];
    check(&output, 0, &parts, &[]);
    check(&api(&["show", "--json", &library()]), 0, &["{\n  \"openrpc\": \"1.3.2\",\n"], &[]);
}

/// A document whose texts try to break out of every page.
const HOSTILE: &str = r##"{
    "openrpc": "1.3.2",
    "info": {"title": "</title><script>window.pwned=1</script>", "version": "\u001b]0;pwned\u0007", "description": "<img src=x onerror=window.pwned=1> `<b>` \u202e"},
    "servers": [{"url": "javascript:window.pwned=1"}],
    "methods": [
        {"name": "</script><script>window.pwned=1</script>", "summary": "--><style>*{display:none}</style>", "tags": [{"name": "<b>\u001b[2J"}],
         "params": [{"name": "\u001b[31m", "schema": {"$ref": "#/components/schemas/'><b>t"}, "required": true}], "result": {"name": "r", "schema": {"enum": ["</code><b>", "\u001b[0m"]}}},
        {"name": "\"><img src=x onerror=window.pwned=1>", "x-deprecated": "<b>", "deprecated": true, "errors": [{"code": 1, "message": "<b>", "data": {"<b>": "\u0000"}}],
         "examples": [{"name": "<b>", "params": [{"name": "<b>", "value": "</pre><b>"}], "result": {"name": "r", "value": "</pre><b>\u009b"}}]}
    ],
    "components": {"schemas": {"'><b>t": {"description": "<iframe src=//x.test></iframe>", "type": "string", "pattern": "<b>"}}}
}"##;

#[test]
fn a6_nothing_controls_the_terminal() {
    let folder = Folder::new();
    let file = folder.write("hostile.json", HOSTILE);
    let output = api(&["show", &file]);
    check(&output, 0, &["\\u001b[31m", "\\u202e"], &[]);
    let is_control = |it: char| (it.is_control() && it != '\n') || it == '\u{202e}';
    assert!(!stdout(&output).contains(is_control) && !stderr(&output).contains(is_control));
}

#[test]
fn a7_page_works_in_a_browser_and_texts_stay_texts() {
    let folder = Folder::new();
    let (library_page, hostile_page) = (folder.text("library.html"), folder.text("hostile.html"));
    let hostile = folder.write("hostile.json", HOSTILE);
    check(&api(&["show", &library(), "--html", &library_page]), 0, &[], &[]);
    check(&api(&["show", &hostile, "--html", &hostile_page]), 0, &[], &[]);
    let text = fs::read_to_string(&hostile_page).expect("the page is written");
    assert_eq!(text.matches("<script").count(), 1);
    for tag in ["<b", "<img", "<iframe"] {
        assert!(!text.contains(tag) || tag == "<b" && !text.contains("<b>"), "{tag}");
    }
    assert_eq!(stdout(&api(&["show", &hostile, "--html", "-"])), text);
    check(&api(&["show", &hostile, "--html", &folder.text("no/such")]), 1, &[], &["cannot write"]);
    browse("api/page.mjs", &[&format!("file://{library_page}"), &format!("file://{hostile_page}")]);
}

/// `scripts/screenshots` runs it.
#[test]
#[ignore = "writes the screenshots of docs/api"]
fn screenshots() {
    let folder = Folder::new();
    let page = folder.text("library.html");
    check(&api(&["show", &library(), "--html", &page]), 0, &[], &[]);
    let output = root().join("docs/api");
    fs::create_dir_all(&output).expect("a folder");
    browse(
        "api/screenshots.mjs",
        &[&format!("file://{page}"), output.to_str().expect("a plain path")],
    );
}

#[test]
fn a6_a7_examples_of_openrpc_are_shown() {
    let folder =
        root().join("target/clients/node_modules/@open-rpc/examples/build/service-descriptions");
    let Ok(files) = fs::read_dir(&folder) else {
        return skip(
            "the examples of OpenRPC",
            "scripts/clients has not fetched @open-rpc/examples",
        );
    };
    let mut count = 0;
    for file in files.map(|file| file.expect("an entry").path()) {
        if file.extension().is_some_and(|it| it == "json") {
            let file = file.to_str().expect("a plain path");
            check(&api(&["show", file]), 0, &["OpenRPC 1."], &[]);
            check(&api(&["show", file, "--html", "-"]), 0, &["</html>"], &[]);
            check(&api(&["check", file, file]), 0, &["no breaking changes"], &[]);
            count += 1;
        }
    }
    assert!(count >= 6, "{count} examples");
}

#[test]
fn a3_document_of_10_mb_is_shown_and_compared_in_time() {
    let mut types = String::new();
    let mut methods = String::new();
    for at in 0..40_000 {
        let next = (at * 7 + 1) % 40_000;
        let _ = write!(
            types,
            r##"{}"T{at}": {{"properties": {{"next": {{"$ref": "#/components/schemas/T{next}"}}, "v": {{"type": ["string", "null"], "description": "value {at}"}}}}}}"##,
            if at == 0 { "" } else { "," }
        );
        let _ = write!(
            methods,
            r##"{}{{"name": "m{at}", "params": [{{"name": "p", "schema": {{"$ref": "#/components/schemas/T{at}"}}}}]}}"##,
            if at == 0 { "" } else { "," }
        );
    }
    let document = format!(
        r#"{{"openrpc": "1.3.2", "info": {{"title": "T", "version": "1"}}, "methods": [{methods}], "components": {{"schemas": {{{types}}}}}}}"#
    );
    assert!(document.len() > 9_000_000, "{}", document.len());
    let folder = Folder::new();
    let file = folder.write("large.json", document);
    let begun = Instant::now();
    check(&api(&["show", &file, "m39999"]), 0, &["m39999"], &[]);
    check(&api(&["check", &file, &file]), 0, &["no breaking changes"], &[]);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}
