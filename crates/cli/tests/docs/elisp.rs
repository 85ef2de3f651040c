//! Lisp in the pages, evaluated by Emacs with the client in `clients/emacs`, block after block.

use std::fmt::Write as _;
use std::process::Command;

use super::pages::pages;
use super::support::folder::Folder;
use super::support::once::run;
use super::support::programs::{DUET_RPC, root};
use super::support::{has, skip};

#[test]
fn lisp_in_the_pages_runs_in_emacs() {
    if !has("emacs") {
        return skip("the Lisp in the pages", "Emacs is not installed");
    }
    let folder = Folder::new();
    for page in pages() {
        let blocks: Vec<_> =
            page.blocks.iter().filter(|block| block.language() == "elisp").collect();
        if blocks.is_empty() {
            continue;
        }
        let mut source = ";;; -*- lexical-binding: t -*-\n".to_owned();
        blocks.iter().for_each(|block| writeln!(source, "{}", block.text).expect("a string"));
        let file = folder.path("page.el");
        std::fs::write(&file, source).expect("the file can be written");
        let mut command = Command::new("emacs");
        command.args(["-Q", "--batch", "--directory"]).arg(root().join("clients/emacs"));
        command.arg("--load").arg(&file);
        let bin =
            std::path::Path::new(DUET_RPC).parent().expect("the command is in a folder").display();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{bin}:{path}")).env("HOME", folder.path(""));
        let output = run(command, b"");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", page.path);
    }
}
