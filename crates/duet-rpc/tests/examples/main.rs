//! Runs the examples as processes, and checks that they do what their first comments say.
#![cfg(unix)]

mod any_server;
mod changes;
mod language_server;
mod mcp_server;
mod printing;
mod process;
