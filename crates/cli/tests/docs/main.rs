//! Compiles or runs every code block in the pages. A block that is not checked is not allowed:
//!
//! - `rust` is compiled and run as a doc test of a crate that includes the page. Below a comment `<!-- file:
//!   PATH -->` it equals that file, which `cargo test` tests. `rust,ignore` and `js` are programs that use
//!   other libraries. They are always files of `bench/peers`, whose `setup` builds them.
//! - `console` is run here: lines that begin with `$ ` are commands, followed by their output. `…` stands
//!   for anything in a line, and alone on a line for any lines. A block below a comment
//!   `<!-- run by: PATH -->` takes long or installs something, so it is not run here; that script, which CI
//!   runs, contains each of its lines. `<!-- needs: PROGRAM -->` names a program that may be missing.
//! - `json` is parsed, `ini` is for systemd, whose `ExecStart` is run, `elisp` is evaluated by Emacs, `ts`
//!   in `clients/node/README.md` is checked by the tests of `clients/node`.
//! - `python` is run, with `clients/python` and a generated client of the daemon.
//! - `html` is a page that `html.rs` opens in a browser.
//! - `wire` is a conversation with a server, byte by byte.
//! - `text` is for pictures and bytes.
#![cfg(unix)]

mod console;
mod elisp;
mod html;
mod pages;
mod python;
#[path = "../support/mod.rs"]
mod support;
mod wire;

use std::fs;
use std::process::Command;

use pages::{Block, Page, pages};
use support::once::run;
use support::programs::{DUET_RPC, root};

/// Runs a check for each block of these languages, and reports all failures.
fn check(languages: &[&str], check: impl Fn(&Page, &Block) -> Result<(), String>) {
    let (mut count, mut failures) = (0, Vec::new());
    for page in &pages() {
        for block in page.blocks.iter().filter(|block| languages.contains(&block.language())) {
            count += 1;
            if let Err(failure) = check(page, block) {
                failures.push(format!("{}:{}: {failure}", page.path, block.line));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(count > 0, "no block of {languages:?}: the pages are not parsed correctly");
}

#[test]
fn every_block_has_a_language_that_is_checked() {
    let mut strange = Vec::new();
    for mut page in pages() {
        strange.append(&mut page.unseen);
        for block in &page.blocks {
            let is_checked = match block.language() {
                // Another attribute might turn off the compilation of the block.
                "rust" if block.info == "rust,ignore" => is_on_another_library(block),
                "rust" => matches!(&*block.info, "rust" | "rust,no_run"),
                "js" => block.info == "js" && is_on_another_library(block),
                "nginx" => block.info == "nginx" && block.comment("file").is_some(),
                "html" => block.info == "html" && is_opened_in_a_browser(block),
                "console" | "json" | "ini" | "elisp" | "wire" => block.info == block.language(),
                "python" => block.info == "python" && python::is_run(&page.path),
                "ts" => block.info == "ts" && page.path == "clients/node/README.md",
                "text" => block.info == "text" && !looks_like_code(&block.text),
                _ => false,
            };
            if !is_checked {
                strange.push(format!("{}:{}: `{}`", page.path, block.line, block.info));
            }
        }
    }
    assert!(strange.is_empty(), "{strange:#?}");
}

/// Returns true if the block is compiled or run where that library is installed.
fn is_on_another_library(block: &Block) -> bool {
    block.comment("file").is_some_and(|path| path.starts_with("bench/peers/"))
}

fn is_opened_in_a_browser(block: &Block) -> bool {
    block.comment("file") == Some("crates/cli/tests/docs/page.html")
}

fn looks_like_code(text: &str) -> bool {
    let begins = [
        "$ ",
        "fn ",
        "let ",
        "use ",
        "pub ",
        "import ",
        "const ",
        "(def",
        "(setq ",
        "(require ",
        "{",
    ];
    text.lines().any(|line| begins.iter().any(|begin| line.trim_start().starts_with(begin)))
}

#[test]
fn rust_is_compiled_by_a_crate_that_includes_the_page() {
    check(&["rust"], |page, _| {
        let (name, path) = match page.path.strip_prefix("crates/").and_then(|at| at.split_once('/'))
        {
            Some((name, path)) => (name, format!("../{path}")),
            None => ("pages", format!("../../../{}", page.path)),
        };
        let source = fs::read_to_string(root().join(format!("crates/{name}/src/lib.rs")));
        let included = format!("#[doc = include_str!(\"{path}\")]");
        match source.is_ok_and(|source| source.lines().any(|line| line == included)) {
            true => Ok(()),
            false => Err(format!("crates/{name} does not include this page")),
        }
    });
}

#[test]
fn blocks_with_a_file_comment_equal_that_file() {
    check(&["rust", "json", "elisp", "ts", "js", "html", "nginx"], |_, block| {
        let Some(path) = block.comment("file") else { return Ok(()) };
        let file =
            fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))?;
        match file.trim_end() == block.text.trim_end() {
            true => Ok(()),
            false => Err(format!("the block differs from {path}")),
        }
    });
}

#[test]
fn wire_examples_match_the_servers() {
    check(&["wire"], |_, block| wire::talk(&block.text));
}

#[test]
fn json_is_json() {
    check(&["json"], |_, block| {
        let texts = serde_json::Deserializer::from_str(&block.text);
        let mut values = texts.into_iter::<serde_json::Value>();
        values.try_for_each(|value| value.map(drop).map_err(|error| error.to_string()))
    });
}

#[test]
fn commands_in_systemd_units_start() {
    check(&["ini"], |_, block| {
        for line in block.text.lines() {
            let is_section = line.starts_with('[') && line.ends_with(']');
            let is_comment = line.is_empty() || line.starts_with('#');
            match line.split_once('=') {
                _ if is_section || is_comment => {}
                Some(("ExecStart", command)) => {
                    let mut words = command.split(' ');
                    let program = words.next().unwrap_or_default();
                    assert!(program.ends_with("/duet-rpc"), "{program}");
                    let mut command = Command::new(DUET_RPC);
                    // It inherits no socket here, so it serves stdin, which ends immediately.
                    command.args(words);
                    let output = run(command, b"");
                    if !output.status.success() {
                        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
                    }
                }
                Some(_) => {}
                None => return Err(format!("no setting: `{line}`")),
            }
        }
        Ok(())
    });
}

#[test]
fn the_comparison_has_the_line_counts_of_scripts_lines() {
    let output = run(Command::new(root().join("scripts/lines")), b"");
    let output = String::from_utf8(output.stdout).expect("the output is text");
    let page = fs::read_to_string(root().join("docs/migrating.md")).expect("the file exists");
    assert_eq!(output.lines().count(), 3, "{output}");
    for line in output.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let [name, count, "lines"] = words[..] else { panic!("{line}") };
        let row = format!("compare/{name}.rs) | {count} |");
        assert!(page.contains(&row), "docs/migrating.md does not have `{row}`");
    }
}

/// No example may need a type annotation for its result.
#[test]
fn no_example_annotates_the_type_of_ok() {
    let mark = concat!("Ok", "::<");
    let mut found = Vec::new();
    for page in pages() {
        let blocks = page.blocks.iter().filter(|block| block.text.contains(mark));
        found.extend(blocks.map(|block| format!("{}:{}", page.path, block.line)));
    }
    let files = pages::files(&root().join("crates"), "rs");
    assert!(files.len() > 100, "the sources are not where they should be");
    for path in files {
        let parts: Vec<_> = path.components().map(|part| part.as_os_str()).collect();
        let is_example = parts.iter().any(|part| *part == "examples");
        let is_source = parts.iter().any(|part| *part == "src");
        let text = fs::read_to_string(&path).expect("a source is text");
        for (number, line) in text.lines().enumerate() {
            let is_doc =
                is_source && ["///", "//!"].contains(&line.trim_start().get(..3).unwrap_or(""));
            if (is_doc || is_example) && line.contains(mark) {
                found.push(format!("{}:{}", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// The page promises newcomers a short first server with a typed method and a test.
#[test]
fn the_first_server_has_at_most_20_lines() {
    let pages = pages();
    let page = pages.iter().find(|page| page.path == "docs/serving.md").expect("the page exists");
    let first =
        page.blocks.iter().find(|block| block.language() == "rust").expect("the page has code");
    let path = first.comment("file").expect("the block is a file, so that its test runs");
    let manifest =
        fs::read_to_string(root().join("crates/duet-rpc/Cargo.toml")).expect("the file exists");
    let name = path.rsplit('/').next().and_then(|file| file.strip_suffix(".rs")).expect("a file");
    assert!(
        manifest.contains(&format!("[[example]]\nname = \"{name}\"\ntest = true\n")),
        "`cargo test` does not run the tests of {path}"
    );
    assert!(first.text.lines().count() <= 20, "{} lines", first.text.lines().count());
    for part in ["#[duet_rpc::service]", "fn main()", "#[tokio::test]", "assert_eq!"] {
        assert!(first.text.contains(part), "the block has no {part}");
    }
}

#[test]
fn links_between_the_pages_lead_somewhere() {
    let pages = pages();
    let mut broken = Vec::new();
    for page in &pages {
        for link in page.links() {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => page.path.clone(),
                _ => match root().join(&page.path).with_file_name(file).canonicalize() {
                    Ok(path) => path.strip_prefix(root()).unwrap_or(&path).display().to_string(),
                    Err(_) => {
                        broken.push(format!("{}: {link}", page.path));
                        continue;
                    }
                },
            };
            let leads = pages.iter().find(|page| page.path == target);
            if !anchor.is_empty() && leads.is_none_or(|page| !page.has_anchor(anchor)) {
                broken.push(format!("{}: {link}", page.path));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
