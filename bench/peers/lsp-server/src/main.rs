//! Echo server on lsp-server: a loop over a channel, as in its example.

use std::error::Error;
use std::num::NonZero;
use std::thread;
use std::time::Duration;

use crossbeam_channel::Sender;
use lsp_server::{Connection, ErrorCode, Message, Request, Response};
use serde_json::json;

/// The benchmark has this many requests in flight.
const NAPPERS: usize = 64;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let (connection, io_threads) = Connection::stdio();
    connection.initialize(json!({}))?;
    serve(connection);
    io_threads.join()?;
    Ok(())
}

/// Runs until stdin ends. The connection is dropped at the end, because
/// the writer thread stops only when every sender is gone.
fn serve(connection: Connection) {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let later = pool(cores, &connection.sender, || ());
    let nap = pool(NAPPERS, &connection.sender, || thread::sleep(Duration::from_millis(1)));

    for message in &connection.receiver {
        let Message::Request(request) = message else { continue };
        match request.method.as_str() {
            "echo" => send(&connection.sender, echo(request)),
            "later" => later.send(request).expect("the pool outlives the loop"),
            "nap" => nap.send(request).expect("the pool outlives the loop"),
            _ => send(&connection.sender, unknown(request)),
        }
    }
}

/// Threads that do `work` and then answer. The crate leaves this to its users;
/// its best-known one, rust-analyzer, has such a pool of threads at a channel,
/// sized by the number of cores. Our threads answer by themselves, which saves
/// the way back through the main loop.
fn pool(threads: usize, answers: &Sender<Message>, work: fn()) -> Sender<Request> {
    let (jobs, queue) = crossbeam_channel::unbounded::<Request>();
    for _ in 0..threads {
        let (queue, answers) = (queue.clone(), answers.clone());
        thread::spawn(move || {
            for request in queue {
                work();
                send(&answers, echo(request));
            }
        });
    }
    jobs
}

/// Moves the params into the response; `Response::new_ok` would copy them.
fn echo(request: Request) -> Response {
    Response { id: request.id, response_result: Ok(request.params) }
}

fn unknown(request: Request) -> Response {
    Response::new_err(request.id, ErrorCode::MethodNotFound as i32, request.method)
}

fn send(answers: &Sender<Message>, answer: Response) {
    // Fails only when stdout is closed, and then nobody reads the answer.
    let _ = answers.send(answer.into());
}
