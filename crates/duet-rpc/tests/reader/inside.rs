//! `serve` inside a runtime of the application: it works, or its error explains the fix (L7).

use std::process::{Command, ExitCode, Stdio};

use duet_rpc::{Failure, Profile, Router};
use tokio::runtime::Builder;

use super::unix::{Client, SERVE_INSIDE};

pub(crate) fn run_server(runtime: &str) -> ExitCode {
    let mut builder = match runtime {
        "multi_thread" => Builder::new_multi_thread(),
        _ => Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        // A task of the application, which a handler needs.
        let (ask, mut asked) = tokio::sync::mpsc::channel::<tokio::sync::oneshot::Sender<u32>>(1);
        tokio::spawn(async move {
            while let Some(answer) = asked.recv().await {
                let _ = answer.send(42);
            }
        });
        let router = Router::new().method("ask", move || {
            let ask = ask.clone();
            async move {
                let (answer, answered) = tokio::sync::oneshot::channel();
                ask.send(answer).await.map_err(Failure::internal)?;
                answered.await.map_err(Failure::internal)
            }
        });
        duet_rpc::serve(Profile::agent(), router)
    })
}

pub(crate) fn run() {
    l3_serve_inside_a_multi_thread_runtime_works();
    l7_serve_inside_a_current_thread_runtime_says_what_to_write();
}

fn l3_serve_inside_a_multi_thread_runtime_works() {
    let mut client = Client::start_with([SERVE_INSIDE, "multi_thread"]);
    for id in 0..10 {
        assert_eq!(client.ask(id, "ask", "[]")["result"], 42);
    }
    client.end();
}

fn l7_serve_inside_a_current_thread_runtime_says_what_to_write() {
    let ended = Command::new(std::env::current_exe().expect("this is a file"))
        .args([SERVE_INSIDE, "current_thread"])
        .stdin(Stdio::piped())
        .output()
        .expect("the program starts");
    assert_eq!(ended.status.code(), Some(1));
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(told.contains("call them from a plain `fn main`"), "{told}");
    assert!(!told.contains("panicked") && ended.stdout.is_empty(), "{ended:?}");
}
