//! A small server. Call it with one line of JSON.
//!
//! ```console
//! $ echo '{"jsonrpc":"2.0","id":1,"method":"hello","params":["you"]}' | cargo run -q -p duet-rpc --example hello
//! {"jsonrpc":"2.0","id":1,"result":"Hello, you!"}
//! ```

use std::process::ExitCode;

use duet_rpc::{Profile, Router};

#[expect(clippy::print_stdout, reason = "shows that printing does no harm")]
fn hello((name,): (String,)) -> String {
    // The library redirects this line to stderr, because stdout carries only messages.
    println!("somebody said hello");
    format!("Hello, {name}!")
}

fn main() -> ExitCode {
    let router = Router::new().method("hello", hello).shutdown_method("shutdown", || "goodbye");
    duet_rpc::serve(Profile::agent(), router)
}
