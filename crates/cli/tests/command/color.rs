//! Colour on terminals, and only there (C2). The terminals are pseudo-terminals.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::thread;

use super::support::pairs;
use super::support::terminal::terminal;
use super::{command, once};

/// Start of every colour code.
const ESCAPE: &str = "\x1b[";

/// Reads the screen until no program has the terminal open, which the system reports as an error.
fn read_screen(screen: OwnedFd) -> String {
    let (mut screen, mut shown, mut chunk) = (File::from(screen), Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = screen.read(&mut chunk) {
        shown.extend_from_slice(&chunk[..count]);
    }
    String::from_utf8(shown).expect("UTF-8")
}

/// The stream that is a terminal; the other one is a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Terminal {
    Stdout,
    Stderr,
}

/// Output on the terminal and in the pipe.
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
    let on_terminal = reader.join().expect("the reader thread does not panic");
    let in_pipe = [output.stdout, output.stderr].concat();
    Shown { on_terminal, in_pipe: String::from_utf8(in_pipe).expect("UTF-8") }
}

/// Commands that write something, each with its stream.
const WRITERS: [(&[&str], Terminal); 6] = [
    (&[], Terminal::Stdout),
    (&["--help"], Terminal::Stdout),
    (&["rpc", "--help"], Terminal::Stdout),
    (&["nonsense"], Terminal::Stderr),
    (&["rpc", "--batch", "maybe"], Terminal::Stderr),
    (&["rpc"], Terminal::Stderr),
];

/// Environments; true if a terminal shows colour with them.
const ENVIRONMENTS: [(&[(&str, &str)], bool); 6] = [
    (&[], true),
    (&[("NO_COLOR", "")], true),
    (&[("NO_COLOR", "1")], false),
    (&[("NO_COLOR", "0")], false),
    (&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], false),
    (&[("TERM", "dumb")], false),
];

#[test]
fn c2_a_terminal_shows_colour_unless_disabled() {
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
fn c2_a_pipe_never_shows_colour() {
    let environments: [&[(&str, &str)]; 4] = [
        &[],
        &[("CLICOLOR_FORCE", "1")],
        &[("FORCE_COLOR", "1"), ("CLICOLOR", "1")],
        &[("COLORTERM", "truecolor")],
    ];
    for ((words, which), environment) in pairs(WRITERS, environments) {
        // The output goes to the pipe; a terminal on the other stream changes nothing.
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
fn c2_no_color_works_anywhere_and_machine_output_is_never_coloured() {
    // The middle column also forces colour.
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
