//! A server in 20 lines: speak to it with one line of JSON.
//!
//! ```console
//! $ echo '{"jsonrpc":"2.0","id":1,"method":"hello","params":["you"]}' | cargo run -q -p duet-rpc --example hello
//! {"jsonrpc":"2.0","id":1,"result":"Hello, you!"}
//! ```

use std::process::ExitCode;

use duet_rpc::{Failure, Profile, Router};

#[expect(clippy::print_stdout, reason = "to show that it does no harm")]
async fn hello((name,): (String,)) -> Result<String, Failure> {
    // This goes to stderr: stdout is for messages alone, whatever a handler prints.
    println!("somebody said hello");
    Ok(format!("Hello, {name}!"))
}

fn main() -> ExitCode {
    let router =
        Router::new().method("hello", hello).shutdown_method("shutdown", async || "goodbye");
    duet_rpc::serve(Profile::agent(), router)
}
