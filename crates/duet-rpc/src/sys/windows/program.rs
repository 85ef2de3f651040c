//! The file of a program. The system itself appends only `.exe`, but `npx` is `npx.cmd`: the other endings of `PATHEXT`
//! are tried here.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tokio::process::Command;

/// The same command with the file of its program, if the name has no ending and a file with another ending than `.exe`
/// is in the path.
pub(crate) fn with_file_found(command: &Command) -> Option<Command> {
    let command = command.as_std();
    let mut found = Command::new(find(command.get_program())?);
    found.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => found.env(name, value),
            None => found.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        found.current_dir(folder);
    }
    Some(found)
}

pub(super) fn find(program: &OsStr) -> Option<PathBuf> {
    let name = Path::new(program);
    if name.extension().is_some() {
        return None;
    }
    let folders: Vec<PathBuf> = match name.parent().is_some_and(|it| it != Path::new("")) {
        true => vec![PathBuf::new()],
        false => env::split_paths(&env::var_os("PATH")?).collect(),
    };
    let endings = env::var("PATHEXT").unwrap_or_else(|_| ".COM;.EXE;.BAT;.CMD".to_owned());
    let endings = endings.split(';').map(|ending| ending.trim_start_matches('.').to_lowercase());
    let endings: Vec<_> = endings.filter(|ending| !ending.is_empty()).collect();
    let files = folders.iter().flat_map(|folder| {
        endings.iter().map(move |ending| folder.join(name).with_extension(ending))
    });
    files.into_iter().find(|file| file.is_file())
}
