//! `api show`: an API as a page, on the terminal or in HTML.

use std::io::{IsTerminal as _, stdout};
use std::path::Path;

use super::source::{self, ReadDocument};
use super::{CannotGoOn, page};
use crate::args::{ApiShowArgs, Global};
use crate::cmd::trace::input::is_stdin;
use crate::cmd::trace::timeline::clean;
use crate::exit::{Exit, Problem};
use crate::{console, json};

pub(super) fn run(args: &ApiShowArgs, global: &Global) -> Result<Exit, CannotGoOn> {
    let (file, method) = words(args)?;
    let source = source::read(file, &args.server, global)?;
    if let Some(to) = &args.html {
        return html(&source, to);
    }
    if args.json {
        let text = String::from_utf8_lossy(&source.text);
        return Ok(console::print(&format!("{}\n", json::pretty(&text))));
    }
    let look =
        page::Look::new(console::may_color(&stdout(), global.no_color), stdout().is_terminal());
    let text = match method {
        None => page::document(&source.document, &look),
        Some(name) => {
            page::method(&source.document, name, &look).ok_or_else(|| unknown(&source, name))?
        }
    };
    Ok(console::print(&text))
}

/// The file and the method. With a server there is no file, so the only word is a method.
fn words(args: &ApiShowArgs) -> Result<(Option<&Path>, Option<&str>), CannotGoOn> {
    match (args.server.is_named(), &args.file, &args.method) {
        (true, Some(_), Some(_)) => {
            Err(Problem::usage("there are two documents: give a file or a server").into())
        }
        (true, Some(word), None) => match word.to_str() {
            Some(method) => Ok((None, Some(method))),
            None => Err(Problem::usage("the method is not UTF-8").into()),
        },
        (_, file, method) => Ok((file.as_deref(), method.as_deref())),
    }
}

fn unknown(source: &ReadDocument, name: &str) -> CannotGoOn {
    let methods = source.document.methods.iter().chain(&source.document.client_methods);
    let wanted = name.to_lowercase();
    let is_alike =
        |it: &&str| it.to_lowercase().contains(&wanted) || wanted.contains(&it.to_lowercase());
    let alike: Vec<_> =
        methods.map(|it| it.name.as_str()).filter(is_alike).take(5).map(clean).collect();
    let advice = match alike.is_empty() {
        true => "; `duet-rpc api show` without a method lists all".to_owned(),
        false => format!("; there is {}", alike.join(", ")),
    };
    let name = clean(name);
    Problem::failure(format!("{} has no method {name:?}{advice}", source.name)).into()
}

fn html(source: &ReadDocument, to: &Path) -> Result<Exit, CannotGoOn> {
    let page = source.document.html();
    if is_stdin(to) {
        return Ok(console::print(&page));
    }
    match std::fs::write(to, page) {
        Ok(()) => Ok(Exit::Success),
        Err(error) => {
            let name = clean(&to.display().to_string());
            Err(Problem::failure(format!("cannot write {name}: {error}")).into())
        }
    }
}
