//! Commands in the pages: runs them in an empty folder, and compares their output with the page.

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};

use super::support::daemon::HANG;
use super::support::folder::Folder;
use super::support::programs::{DUET_RPC, example, first_server, folder, root, testbed};
use super::support::{has, skip};

/// A command with its expected output.
#[derive(Debug, PartialEq, Eq)]
struct ShownCommand {
    command: String,
    lines: Vec<String>,
}

#[test]
fn commands_print_the_output_in_the_pages() {
    let programs = programs();
    super::check(&["console"], |page, block| {
        let shown = shown(&block.text)?;
        if let Some(program) = block.comment("needs").filter(|program| !has(program)) {
            skip(&format!("{}:{}", page.path, block.line), &format!("{program} is not installed"));
            return Ok(());
        }
        match block.comment("run by") {
            Some(path) => is_run_by(&shown, path),
            None => prints_what_is_shown(&shown, &programs),
        }
    });
}

/// The commands of a block.
fn shown(text: &str) -> Result<Vec<ShownCommand>, String> {
    let (mut all, mut lines) = (Vec::<ShownCommand>::new(), text.lines());
    while let Some(line) = lines.next() {
        if let Some(command) = line.strip_prefix("$ ") {
            let mut command = command.to_owned();
            while command.ends_with('\\') {
                write!(command, "\n{}", lines.next().unwrap_or_default()).expect("a string");
            }
            all.push(ShownCommand { command, lines: Vec::new() });
        } else if let Some(last) = all.last_mut() {
            last.lines.push(line.to_owned());
        } else {
            return Err(format!("no command (`$ …`) before `{line}`"));
        }
    }
    match all.is_empty() {
        true => Err("there is no command (`$ …`) in it".to_owned()),
        false => Ok(all),
    }
}

/// Scripts that run on every change.
const CI_SCRIPTS: [&str; 3] = [".ci/run", ".github/workflows/ci.yml", "scripts/test"];

/// Checks that a script contains these commands and checks their output.
fn is_run_by(shown: &[ShownCommand], path: &str) -> Result<(), String> {
    let read = |path: &str| {
        fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
    };
    let script = read(path)?;
    for ShownCommand { command, lines } in shown {
        for line in lines.iter().chain([command]) {
            if !has_words(&script, line) {
                return Err(format!("{path} does not have `{line}`"));
            }
        }
    }
    let mut scripts =
        CI_SCRIPTS.iter().filter(|script| **script != path).map(|script| read(script));
    let is_ci_script = CI_SCRIPTS.contains(&path);
    match is_ci_script || scripts.any(|script| script.is_ok_and(|script| has_words(&script, path)))
    {
        true => Ok(()),
        false => Err(format!("no CI script runs {path}")),
    }
}

/// Returns true if these words stand in a script as whole words, outside of comments.
fn has_words(script: &str, words: &str) -> bool {
    let is_end = |letter: Option<char>| letter.is_none_or(|letter| " ()'\"".contains(letter));
    let lines = script.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(|line| line.match_indices(words).map(move |(at, _)| line.split_at(at))).any(
        |(before, rest)| {
            is_end(before.chars().next_back()) && is_end(rest[words.len()..].chars().next())
        },
    )
}

/// A folder with the programs of this workspace, for `PATH`.
fn programs() -> Folder {
    let bin = Folder::new();
    symlink(DUET_RPC, bin.path("duet-rpc")).expect("a link can be made");
    testbed();
    first_server();
    for name in ["axum_app", "mcp_server"] {
        example("duet-rpc", name);
    }
    for entry in fs::read_dir(folder().join("examples")).expect("the examples are built").flatten()
    {
        let name = entry.file_name().into_string().expect("a plain name");
        // Other names are cargo's own files.
        if name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_') {
            symlink(entry.path(), bin.path(&name)).expect("a link can be made");
        }
    }
    bin
}

/// `cargo run --release -- …` runs the command, which is built already. `show N FILE` waits for lines.
const PRELUDE: &str = r#"exec 2>&1 </dev/null
cargo() {
  if [ "$1 $2 $3" = "run --release --" ]; then shift 3; duet-rpc "$@"; else command cargo "$@"; fi
}
show() {
  until [ "$(wc -l <"$2")" -ge "$1" ]; do sleep 0.01; done
  head -n "$1" "$2"
}
"#;

fn prints_what_is_shown(shown: &[ShownCommand], programs: &Folder) -> Result<(), String> {
    const MARK: &str = "--- that was it:";
    let mut script = PRELUDE.to_owned();
    for (index, ShownCommand { command, lines }) in shown.iter().enumerate() {
        // A background command must print its lines before the next command runs. Its file is its own: the shell opens
        // it after `show` has begun to read.
        let command = match command.strip_suffix(" &") {
            Some(server) => {
                let file = format!("printed.{index}");
                format!("touch {file}; {server} >{file} 2>&1 &\nshow {} {file}", lines.len())
            }
            None => command.clone(),
        };
        write!(script, "{command}\nprintf '\\n{MARK}%s\\n' $?\n").expect("a string");
    }
    let output = run(&script, &programs.path(""));
    let mut rest = &*output;
    for ShownCommand { command, lines } in shown {
        let Some((printed, after)) = rest.split_once(&format!("\n{MARK}")) else {
            return Err(format!("`{command}` did not end:\n{rest}"));
        };
        let (status, after) = after.split_once('\n').unwrap_or((after, ""));
        rest = after;
        let mut printed: Vec<_> = printed.trim_end_matches('\n').lines().collect();
        let status = format!("[exit status {status}]");
        if status != "[exit status 0]" {
            printed.push(&status);
        }
        let expected: Vec<_> = lines.iter().map(String::as_str).collect();
        if !lines_match(&expected, &printed) {
            return Err(format!("`{command}` prints\n{}", printed.join("\n")));
        }
    }
    Ok(())
}

/// Runs a bash script, and returns its output. Kills background processes at the end.
fn run(script: &str, programs: &Path) -> String {
    // Paths in it are short enough for sockets.
    let folder = Folder::new();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("bash");
    command.args(["-c", script]).current_dir(folder.path("")).process_group(0);
    command.env("PATH", format!("{}:{path}", programs.display()));
    command.env_remove("DUET_RPC_LOG").env_remove("NO_COLOR").env("LC_ALL", "C.UTF-8");
    // The user's own settings for the shell and curl must not apply.
    command.env_remove("BASH_ENV").env("HOME", folder.path("")).env("no_proxy", "*");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = command.spawn().expect("there is a shell");
    let group = Pid::from_child(&process);
    let mut stdout = process.stdout.take().expect("a pipe");
    let reader = thread::spawn(move || {
        let mut output = Vec::new();
        stdout.read_to_end(&mut output).expect("a pipe can be read");
        String::from_utf8_lossy(&output).into_owned()
    });
    let (ended, has_ended) = channel();
    let guard = thread::spawn(move || {
        // A command that hangs is killed, and fails the test.
        let _ = has_ended.recv_timeout(HANG);
        let _ = kill_process_group(group, Signal::KILL);
    });
    process.wait().expect("the process can be waited for");
    ended.send(()).expect("the guard waits for it");
    guard.join().expect("the guard thread does not panic");
    reader.join().expect("the reader thread does not panic")
}

/// Returns true if the output matches the expected lines.
fn lines_match(expected: &[&str], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&"…", rest)) => (0..=printed.len()).any(|skip| lines_match(rest, &printed[skip..])),
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(line, after)| line_matches(first, line) && lines_match(rest, after)),
    }
}

fn line_matches(expected: &str, line: &str) -> bool {
    let mut parts = expected.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(place) = rest.find(part) else { return false };
        rest = &rest[place + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn expected_lines_are_compared_with_wildcards() {
    for (expected, printed, same) in [
        (&["a", "b"][..], &["a", "b"][..], true),
        (&["a"], &["a", "b"], false),
        (&["a…c"], &["abc"], true),
        (&["a…c"], &["ab"], false),
        (&["a…", "…", "z"], &["ab", "x", "y", "z"], true),
        (&["…"], &[], true),
        (&["…c…", "z"], &["abc", "y"], false),
        (&[""], &["x"], false),
    ] {
        assert_eq!(lines_match(expected, printed), same, "{expected:?} {printed:?}");
    }
}

#[test]
fn a_wrong_block_is_found() {
    let programs = programs();
    let check = |text: &str| prints_what_is_shown(&shown(text).expect("a block"), &programs);
    assert_eq!(check("$ duet-rpc version\n0.1.0\n$ false\n[exit status 1]\n"), Ok(()));
    let in_background =
        "$ testbed --profile agent --listen unix://$PWD/s &\nlistening on unix:///…/s\n";
    let call = "$ duet-rpc call --connect unix://$PWD/s version\n{\"version\":\"0.1.0\"}\n";
    assert_eq!(check(&format!("{in_background}{call}")), Ok(()));
    // Each background command prints its own lines.
    let two = "$ { echo a; sleep 9; } &\na\n$ { sleep 0.1; echo b; } &\nb\n";
    assert_eq!(check(two), Ok(()));
    assert_eq!(check("$ cargo run --release -- version\n0.1.0\n"), Ok(()));
    assert_eq!(check("$ printf 'a\\nb\\n' | \\\n  sort -r\nb\na\n"), Ok(()));
    for wrong in
        ["$ duet-rpc version\n0.1.1\n", "$ false\n", "$ echo a\n", "$ exit\n", "$ true\na\n"]
    {
        assert!(check(wrong).is_err(), "{wrong}");
    }
    assert!(shown("duet-rpc version\n").is_err());
    assert!(shown("").is_err());
}

#[test]
fn a_run_by_comment_must_name_a_ci_script_with_the_command() {
    let check = |text: &str, path| is_run_by(&shown(text).expect("a block"), path);
    assert_eq!(check("$ scripts/test\n", ".ci/run"), Ok(()));
    assert_eq!(check("$ cargo test\n", "scripts/first-server"), Ok(()));
    for (wrong, path) in [
        ("$ scripts/tests\n", ".ci/run"),
        ("$ scripts/tes\n", ".ci/run"),
        ("$ cargo test\nall is well\n", "scripts/first-server"),
        // There it stands in a comment.
        ("$ scripts/first-server\n", "scripts/first-server"),
        // Only a release runs this.
        ("$ cargo deb\n", "packaging/deb"),
        ("$ true\n", "scripts/none"),
    ] {
        assert!(check(wrong, path).is_err(), "{wrong} {path}");
    }
    assert!(has_words("a=$(cargo test)", "cargo test"));
    assert!(!has_words("  # cargo test", "cargo test"));
    assert!(!has_words("cargo tests", "cargo test"));
}
