//! Checks of the repository itself: the dependencies between modules, the size of the heart, a test for
//! every rule of the specification, the place of `unsafe`, external dependencies, and the existence of
//! tests that pages name as evidence.

#[path = "house/arrows.rs"]
mod arrows;
#[path = "house/evidence.rs"]
mod evidence;
#[path = "house/growth.rs"]
mod growth;
#[path = "house/heart.rs"]
mod heart;
#[path = "house/platforms.rs"]
mod platforms;
#[path = "house/rules.rs"]
mod rules;
#[path = "house/supply.rs"]
mod supply;
#[path = "house/words.rs"]
mod words;

use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/");
    crates.parent().expect("the workspace").to_owned()
}

/// All Rust files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The code of the files below a folder of this crate, without comments.
fn code(folder: &str) -> Vec<(PathBuf, String)> {
    code_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
}

fn code_below(folder: &Path) -> Vec<(PathBuf, String)> {
    let found: Vec<_> = files(folder)
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("it can be read");
            let is_code = |line: &&str| !line.trim_start().starts_with("//");
            let code = text.lines().filter(is_code).collect::<Vec<_>>().join("\n");
            (path, code)
        })
        .collect();
    assert!(!found.is_empty(), "{}", folder.display());
    found
}

/// The core does no I/O, never waits and reads no clock.
#[test]
fn the_core_is_pure() {
    for (path, code) in code("src") {
        for word in
            ["tokio", "std::net", "std::fs", "std::thread", "std::io", "::now()", "println!"]
        {
            assert!(!code.contains(word), "{} uses {word}", path.display());
        }
    }
}

/// True if a file holds only tests.
fn is_test(path: &Path) -> bool {
    let name = |part: &std::ffi::OsStr| part.to_string_lossy().trim_end_matches(".rs").to_owned();
    path.components().map(|part| name(part.as_os_str())).any(|it| it.ends_with("tests"))
}

#[test]
fn a_session_changes_its_phase_in_one_file() {
    for (path, code) in code("src/session") {
        let assigns = code.contains(".phase = ") || code.contains("*self = Phase::");
        assert_eq!(assigns, path.ends_with("phase.rs"), "{}", path.display());
    }
}

#[test]
fn error_codes_are_in_one_file() {
    let is_code = |word: &str| {
        let digits = word.strip_prefix("-32").unwrap_or_default();
        // `i16::MIN` is not an error code.
        digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit()) && word != "-32768"
    };
    for folder in ["crates/proto/src", "crates/duet-rpc/src"] {
        for (path, code) in code_below(&workspace().join(folder)) {
            let mut words = code.split(|c: char| c != '-' && !c.is_ascii_digit());
            let has_codes = words.any(is_code);
            let is_right = has_codes == path.ends_with("message/error.rs") || is_test(&path);
            assert!(is_right, "{} contains error codes", path.display());
        }
    }
}

/// Claims of ARCHITECTURE.md about the library that are finer than the dependencies between
/// modules.
#[test]
fn library_modules_do_not_use_code_that_belongs_to_other_modules() {
    let source = workspace().join("crates/duet-rpc/src");
    let check = |below: &str, forbidden: &[&str], but_for: &[&str]| {
        let mut checked = 0;
        for (path, code) in code_below(&source) {
            let name =
                path.strip_prefix(&source).expect("it is below").to_string_lossy().into_owned();
            let is_free = but_for.iter().any(|prefix| name.starts_with(prefix));
            if !name.starts_with(below) || is_free || is_test(&path) {
                continue;
            }
            checked += 1;
            for word in forbidden {
                assert!(!code.contains(word), "{name} uses {word}");
            }
        }
        assert!(checked > 0, "{below}");
    };
    // Transports know only the id of a message. HTTP reads more, because an exchange ends with the
    // answer.
    for below in ["transport", "stdio", "net"] {
        check(below, &["message::Incoming", "Incoming::classify"], &["net/http"]);
    }
    // HTTP heads, bodies and the access policy are pure.
    check("net/web/", &["tokio"], &["net/web/client_handshake.rs", "net/web/shared_socket.rs"]);
    // Only the connection owns a session.
    check("", &["Session<", "Session::new", "session::Session"], &["connection"]);
    // Only the panic guard catches panics.
    check("", &["catch_unwind"], &["panic_guard.rs"]);
    // One function locks a mutex.
    check("", &[".lock().unwrap"], &["sync.rs"]);
}

/// Decisions of the library, each made in one place.
#[test]
fn each_decision_of_a_connection_is_made_in_one_place() {
    let source = workspace().join("crates/duet-rpc/src");
    for (text, place) in [
        ("fn answer(&mut self, job:", "connection/dispatch.rs"),
        ("fn may_read(", "connection/budget.rs"),
        ("fn check_over(", "connection/closing.rs"),
        ("enum Stage", "connection/closing.rs"),
        ("self.stage = Stage::", "connection/closing.rs"),
        ("const FORCED_EXIT", "connection/closing.rs"),
        ("enum Owner", "stdio/handoff.rs"),
    ] {
        let code = code_below(&source);
        let found: Vec<_> =
            code.iter().filter(|(_, code)| code.contains(text)).map(|(path, _)| path).collect();
        assert!(found.len() == 1 && found[0].ends_with(place), "{text}: {found:?}");
    }
}

#[test]
fn the_core_depends_on_nothing_that_waits() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    let manifest = manifest.expect("it can be read");
    let section = manifest.split("[dependencies]").nth(1).expect("it has dependencies");
    let section = section.split("\n[").next().expect("they end");
    let mut names: Vec<_> =
        section.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).collect();
    names.retain(|name| !name.is_empty());
    assert_eq!(names, ["itoa", "memchr", "serde", "serde_json", "simdutf8"]);
}

/// The files with `unsafe`, and the number of its blocks in each.
const UNSAFE: [(&str, usize); 3] = [
    ("crates/proto/src/text/unchecked.rs", 13),
    ("crates/duet-rpc/src/sys/windows/calls.rs", 33),
    ("crates/cli/src/sys/unix/memory.rs", 1),
];

#[test]
fn unsafe_code_is_in_three_files() {
    let folders = ["crates", "fuzz/fuzz_targets", "bench/driver", "bench/limit", "bench/ours"];
    for path in folders.iter().flat_map(|folder| files(&workspace().join(folder))) {
        // This file has the word in strings.
        if UNSAFE.iter().any(|(file, _)| path.ends_with(file)) || path.ends_with("tests/house.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("it can be read");
        let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
        let is_word =
            |code: String| code.split(|c: char| !c.is_alphanumeric()).any(|it| it == "unsafe");
        assert!(!text.lines().map(code).any(is_word), "{}", path.display());
    }
}

/// Each block calls something that the compiler cannot check, with the reason right above it.
/// Another block is another risk: adding one means changing the number here and in SECURITY.md.
#[test]
fn every_unsafe_block_is_counted_and_says_why_it_is_sound() {
    let page = fs::read_to_string(workspace().join("SECURITY.md")).expect("it can be read");
    for (file, expect) in UNSAFE {
        let blocks = unsafe_blocks(file);
        assert_eq!(blocks, expect, "{file}");
        let plural = if blocks == 1 { "" } else { "s" };
        let said = format!("{blocks} `unsafe` block{plural} in `{file}`");
        assert!(page.contains(&said), "SECURITY.md does not say: {said}");
    }
}

/// The number of blocks, and of lists of foreign functions, each of which has its reason.
fn unsafe_blocks(file: &str) -> usize {
    let text = fs::read_to_string(workspace().join(file)).expect("it can be read");
    let lines: Vec<_> = text.lines().collect();
    let mut blocks = 0;
    for (number, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for found in code.match_indices("unsafe").map(|(at, _)| &code[at..]) {
            if found.starts_with("unsafe_code") {
                continue;
            }
            let is_block = found.starts_with("unsafe {") || found == "unsafe extern \"C\" {";
            assert!(is_block, "{file}, line {}: not a block: {line}", number + 1);
            blocks += 1;
            let above = lines[..number].iter().rev().map(|line| line.trim());
            let mut reason = above.take_while(|line| line.starts_with("//"));
            assert!(
                reason.any(|line| line.starts_with("// SAFETY: ")),
                "{file}, line {}: no SAFETY comment above: {line}",
                number + 1
            );
        }
    }
    blocks
}

#[test]
fn the_command_uses_only_the_public_interface_of_the_library() {
    let manifest = fs::read_to_string(workspace().join("crates/cli/Cargo.toml"));
    assert!(!manifest.expect("it can be read").contains("duet-rpc-proto"));
    for path in files(&workspace().join("crates/cli/src")) {
        let is_method = path.components().any(|part| part.as_os_str() == "methods");
        let text = fs::read_to_string(&path).expect("it can be read");
        for name in ["\"setLogLevel\"", "\"events.subscribe\"", "\"rpc.discover\""] {
            assert!(is_method || !text.contains(name), "{}", path.display());
        }
    }
}
