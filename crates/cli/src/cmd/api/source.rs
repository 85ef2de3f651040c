//! Documents from files, from stdin, and from servers (A1).

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use duet_rpc_api::{Document, MAX_DOCUMENT};

use super::CannotGoOn;
use crate::args::{CallArgs, Global, ServerArgs};
use crate::cmd::call;
use crate::cmd::trace::input::{is_stdin, name};
use crate::cmd::trace::timeline::clean;
use crate::console;
use crate::exit::{Exit, Problem};
use crate::methods::DISCOVER;

/// A document with its text and the name of its origin.
pub(super) struct ReadDocument {
    pub(super) document: Document,
    pub(super) text: Vec<u8>,
    pub(super) name: String,
}

/// The document in a file, or of the server if there is none.
pub(super) fn read(
    file: Option<&Path>,
    server: &ServerArgs,
    global: &Global,
) -> Result<ReadDocument, CannotGoOn> {
    match file {
        Some(_) if server.is_named() => {
            Err(Problem::usage("there are two new documents: give a file or a server").into())
        }
        Some(file) => read_file(file),
        None => ask(server, global),
    }
}

/// The document in a file.
pub(super) fn read_file(file: &Path) -> Result<ReadDocument, CannotGoOn> {
    let name = clean(&name(file));
    let text = match is_stdin(file) {
        true => console::stdin().and_then(read_all),
        false => File::open(file).and_then(read_all),
    };
    let text = text.map_err(|error| Problem::failure(format!("cannot read {name}: {error}")))?;
    understand(text, name)
}

fn read_all(from: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    // One byte more, so that the reader of documents reports the size.
    from.take(MAX_DOCUMENT as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// The document of a server.
fn ask(server: &ServerArgs, global: &Global) -> Result<ReadDocument, CannotGoOn> {
    let answer = call::fetch(&CallArgs::new(DISCOVER, server.clone()), global).map_err(|exit| {
        if exit == Exit::ErrorAnswer {
            console::say(format_args!(
                "the server does not describe its methods (`{DISCOVER}`): give its OpenRPC document as a file instead"
            ));
        }
        CannotGoOn::Reported(exit)
    })?;
    let name = match (&server.connect, server.command.first()) {
        (Some(address), _) => address.to_string(),
        (None, Some(program)) => program.to_string_lossy().into_owned(),
        (None, None) => "duet-rpc".to_owned(),
    };
    understand(answer.get().as_bytes().to_vec(), clean(&name))
}

fn understand(text: Vec<u8>, name: String) -> Result<ReadDocument, CannotGoOn> {
    match Document::read(&text) {
        Ok(document) => Ok(ReadDocument { document, text, name }),
        Err(error) => {
            let error = clean(&error.to_string());
            Err(Problem::failure(format!("cannot use the document of {name}: {error}")).into())
        }
    }
}
