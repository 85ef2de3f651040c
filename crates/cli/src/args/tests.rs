//! The daemon's options alone mean the same as among all commands.

use std::ffi::OsString;

use clap::{CommandFactory, Parser};

use super::Args;

#[test]
fn c2_the_options_of_rpc_alone_are_those_of_the_whole_command_line() {
    let rows = [
        "duet-rpc rpc",
        "duet-rpc rpc --profile agent --log-level debug --log-format json --no-color",
        "duet-rpc rpc --exit-with-parent=7 --listen http://127.0.0.1:0/ --listen unix:///tmp/s --share-log",
        "duet-rpc rpc --tls-cert a --tls-key b --tls-client-ca c --tls-client-cert optional",
        "duet-rpc --log-level debug rpc --framing auto",
        // Errors and help.
        "duet-rpc rpc --profile nobody",
        "duet-rpc rpc --tls-cert a",
        "duet-rpc rpc --conect x",
        "duet-rpc rpc word",
        "duet-rpc rpc --version",
        "duet-rpc rpc -h",
        "duet-rpc rpc --help",
        // Other commands.
        "duet-rpc version",
        "duet-rpc call rpc",
        "duet-rpc rp",
        "duet-rpc",
    ];
    for row in rows {
        let words: Vec<OsString> = row.split(' ').map(OsString::from).collect();
        let shown = |read: Result<Args, clap::Error>| match read {
            Ok(args) => format!("{args:?}"),
            Err(error) => format!("{:?} {error}", error.kind()),
        };
        assert_eq!(shown(Args::read(&words)), shown(Args::try_parse_from(&words)), "{row}");
    }
    assert!(Args::read(&[]).is_ok());
}

/// Checks a command and its subcommands.
fn check_help(command: &clap::Command) {
    for argument in command.get_positionals() {
        let (heading, id) = (argument.get_help_heading(), argument.get_id());
        let is_right = matches!(heading, None | Some("Server"));
        assert!(is_right, "{} {id}: it stands under {heading:?}", command.get_name());
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    for line in after.lines() {
        assert!(line.chars().count() <= 100, "{}: the line breaks: {line}", command.get_name());
    }
    command.get_subcommands().for_each(check_help);
}

#[test]
fn c1_arguments_stand_under_arguments_and_no_example_breaks() {
    check_help(&Args::command());
}
