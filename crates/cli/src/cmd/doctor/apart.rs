//! The checks that need no conversation: the version, and exit codes.

use std::fs::File;
use std::process::Stdio;

use super::child::Subject;
use super::process::{self, PATIENCE, Watched};
use super::report::{Finding, in_words};

/// Asks the program for its version on the command line.
pub(super) fn version(subject: &Subject) -> Result<String, Finding> {
    let watched = run(subject, &["--version"], Stdio::null())?;
    let text = String::from_utf8_lossy(&watched.stdout);
    match text.strip_suffix('\n') {
        Some(version) if watched.status.success() && is_version(version) => Ok(version.to_owned()),
        _ => Err(Finding::new("it tells no version")
            .sent("--version")
            .expected("exit status: 0, a line such as 0.1.0")
            .saw(&format!("{}, {text}", watched.status))),
    }
}

/// How a check is made that starts a program once.
pub(super) type CodeCheck = fn(&Subject) -> Result<(), Finding>;

/// The exit codes that only a mistake brings about.
pub(super) const EXIT_CODES: [(&str, CodeCheck); 2] =
    [("2 for a bad flag", bad_flag), ("1 for a directory as stdin", stdin_is_a_directory)];

/// A flag that nobody knows: exit code 2, and nothing on stdout (C1).
fn bad_flag(subject: &Subject) -> Result<(), Finding> {
    let words = ["rpc", "--flag-that-nobody-knows"];
    let watched = run(subject, &words, Stdio::null())?;
    expect(&watched, 2).map_err(|finding| finding.sent(&words.join(" ")))
}

/// A stdin that cannot be read: exit code 1, and no panic (L7).
fn stdin_is_a_directory(subject: &Subject) -> Result<(), Finding> {
    let directory = File::open(std::env::temp_dir())
        .map_err(|error| Finding::new(format!("the temporary folder cannot be opened: {error}")))?;
    let watched = run(subject, &["rpc"], directory.into())?;
    expect(&watched, 1).map_err(|finding| finding.sent("a directory as stdin"))
}

fn run(subject: &Subject, words: &[&str], stdin: Stdio) -> Result<Watched, Finding> {
    match process::run(subject.command(words), stdin) {
        Ok(Some(watched)) => Ok(watched),
        Ok(None) => {
            let why = format!("it has not ended after {}", in_words(PATIENCE));
            Err(Finding::new(why).sent(&words.join(" ")).expected("its end"))
        }
        Err(error) => Err(Finding::new(format!("the program cannot be started: {error}"))),
    }
}

/// It ended with this code, said why on stderr, in its own words, and nothing on stdout.
fn expect(watched: &Watched, code: i32) -> Result<(), Finding> {
    let stderr = String::from_utf8_lossy(&watched.stderr);
    if watched.status.code() != Some(code) {
        return Err(Finding::new("it ended with another exit code")
            .expected(&format!("exit status: {code}"))
            .saw(&watched.status.to_string()));
    }
    if !watched.stdout.is_empty() {
        let saw = String::from_utf8_lossy(&watched.stdout);
        return Err(Finding::new("it printed to stdout").expected("nothing there").saw(&saw));
    }
    if stderr.is_empty() || stderr.contains("panicked") {
        return Err(Finding::new("it does not say why").expected("words on stderr").saw(&stderr));
    }
    Ok(())
}

/// Whether it is a version as SemVer has it: three numbers, and what may follow them.
pub(super) fn is_version(text: &str) -> bool {
    let (numbers, more) = text.split_at(text.find(['-', '+']).unwrap_or(text.len()));
    let is_number = |part: &str| {
        part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !(part.is_empty() || part.starts_with('0')))
    };
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && more.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(&byte))
        && !more.ends_with(['-', '+', '.'])
}
