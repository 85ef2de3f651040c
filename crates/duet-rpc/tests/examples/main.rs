//! The examples do what their first comments say, as the processes that their users start.
#![cfg(unix)]

mod any_server;
mod changes;
mod language_server;
mod mcp_server;
mod printing;
mod process;
