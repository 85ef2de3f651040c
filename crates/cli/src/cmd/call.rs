//! `call`: starts a server, sends it one request, prints the answer.

use crate::args::{CallArgs, Global};
use crate::exit::Exit;

pub(crate) fn run(_args: &CallArgs, _global: &Global) -> Exit {
    Exit::Failed
}
