//! Colour on a terminal, and only there (C2). The terminals are real ones, without a screen.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::thread;

use super::support::pairs;
use super::support::terminal::terminal;
use super::{command, once};

/// What begins every colour.
const ESCAPE: &str = "\x1b[";

/// Reads what is shown until no program has the terminal any more, which the system tells as an
/// error.
fn read_screen(screen: OwnedFd) -> String {
    let (mut screen, mut shown, mut chunk) = (File::from(screen), Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = screen.read(&mut chunk) {
        shown.extend_from_slice(&chunk[..count]);
    }
    String::from_utf8(shown).expect("UTF-8")
}

/// Which stream is a terminal; the other one is a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Terminal {
    Stdout,
    Stderr,
}

/// What came out.
#[derive(Debug)]
struct Shown {
    on_terminal: String,
    in_pipe: String,
}

fn show(words: &[&str], environment: &[(&str, &str)], which: Terminal) -> Shown {
    let (screen, end) = terminal();
    let mut command = command(words);
    command.envs(environment.iter().copied());
    match which {
        Terminal::Stdout => command.stdout(end).stderr(Stdio::piped()),
        Terminal::Stderr => command.stdout(Stdio::piped()).stderr(end),
    };
    let reader = thread::spawn(|| read_screen(screen));
    let output = once::run_with(command, b"");
    let on_terminal = reader.join().expect("it only reads");
    let in_pipe = [output.stdout, output.stderr].concat();
    Shown { on_terminal, in_pipe: String::from_utf8(in_pipe).expect("UTF-8") }
}

/// What writes something, and the stream that it writes to.
const WRITERS: [(&[&str], Terminal); 6] = [
    (&[], Terminal::Stdout),
    (&["--help"], Terminal::Stdout),
    (&["rpc", "--help"], Terminal::Stdout),
    (&["nonsense"], Terminal::Stderr),
    (&["rpc", "--batch", "maybe"], Terminal::Stderr),
    (&["rpc"], Terminal::Stderr),
];

/// An environment, and whether there is colour on a terminal in it.
const ENVIRONMENTS: [(&[(&str, &str)], bool); 6] = [
    (&[], true),
    (&[("NO_COLOR", "")], true),
    (&[("NO_COLOR", "1")], false),
    (&[("NO_COLOR", "0")], false),
    (&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], false),
    (&[("TERM", "dumb")], false),
];

#[test]
fn c2_a_terminal_shows_colour_unless_it_is_not_wanted() {
    for ((words, which), (environment, in_color)) in pairs(WRITERS, ENVIRONMENTS) {
        for no_color in [false, true] {
            let words = [&["--no-color"][..usize::from(no_color)], words].concat();
            let shown = show(&words, environment, which);
            let case = format!("{words:?} {environment:?} {shown:?}");
            assert!(!shown.on_terminal.is_empty() && shown.in_pipe.is_empty(), "{case}");
            let expected = in_color && !no_color;
            assert_eq!(shown.on_terminal.contains(ESCAPE), expected, "{case}");
        }
    }
}

#[test]
fn c2_a_pipe_shows_no_colour_whatever_is_asked_for() {
    let environments: [&[(&str, &str)]; 4] = [
        &[],
        &[("CLICOLOR_FORCE", "1")],
        &[("FORCE_COLOR", "1"), ("CLICOLOR", "1")],
        &[("COLORTERM", "truecolor")],
    ];
    for ((words, which), environment) in pairs(WRITERS, environments) {
        // The stream that is written to is the pipe; a terminal beside it changes nothing.
        let other = match which {
            Terminal::Stdout => Terminal::Stderr,
            Terminal::Stderr => Terminal::Stdout,
        };
        let shown = show(words, environment, other);
        let case = format!("{words:?} {environment:?} {shown:?}");
        assert!(!shown.in_pipe.is_empty() && shown.on_terminal.is_empty(), "{case}");
        assert!(!shown.in_pipe.contains('\x1b'), "{case}");
    }
}

#[test]
fn c2_no_color_is_obeyed_wherever_it_stands_and_what_programs_read_is_never_coloured() {
    // Whether colour is asked for by force, too.
    let rows: [(&[&str], bool, Terminal); 9] = [
        (&["rpc", "--help", "--no-color"], false, Terminal::Stdout),
        (&["rpc", "--no-color", "--help"], false, Terminal::Stdout),
        (&["rpc", "--nonsense", "--no-color"], false, Terminal::Stderr),
        (&["rpc", "--no-color"], false, Terminal::Stderr),
        (&["rpc", "--log-format", "json", "--log-level", "debug"], true, Terminal::Stderr),
        (&["version"], true, Terminal::Stdout),
        (&["man"], true, Terminal::Stdout),
        (&["completions", "fish"], true, Terminal::Stdout),
        (&["prompt"], true, Terminal::Stderr),
    ];
    for (words, is_forced, which) in rows {
        let forced = &[("CLICOLOR_FORCE", "1")][..usize::from(is_forced)];
        let shown = show(words, forced, which);
        assert!(!shown.on_terminal.is_empty(), "{words:?}");
        assert!(!shown.on_terminal.contains('\x1b'), "{words:?}: {shown:?}");
    }
}
