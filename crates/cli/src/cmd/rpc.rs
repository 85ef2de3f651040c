//! `rpc`: the daemon.

use duet_rpc::Router;

use crate::args::{Global, RpcArgs};
use crate::exit::Exit;

pub(crate) fn run(
    _args: &RpcArgs,
    _global: &Global,
    _extend: impl FnOnce(Router) -> Router,
) -> Exit {
    Exit::Failed
}
